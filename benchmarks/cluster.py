"""What a sweep on Ray costs its driver, and how well it fills a cluster: `python benchmarks/cluster.py`.

Writes `benchmarks/cluster.md`. Cells that sleep take no processor, so more workers than cores can be measured on one
machine; they go through everything that real ones do but the training. Needs the extra `ray`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pickle
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from rich.console import Console

from narkit import machine
from narkit.algorithms import ALGORITHMS
from narkit.cli.sweep_display import SweepDisplay
from narkit.sweeps.cells import Cell, SweepDirectory, make_cells
from narkit.sweeps.executor import CellOutcome, CellProgress, SweepOptions
from narkit.sweeps.executors.cluster_worker import Result, run_assignment
from narkit.sweeps.executors.ray import Ray
from narkit.sweeps.sweep import run_sweep
from narkit.sweeps.systems import System

TINY = {
    "steps": 200,
    "hidden_size": 8,
    "batch_size": 4,
    "sizes": (4,),
    "validate_every": 50,
    "validations": ({"name": "id", "size": 4, "num_samples": 16},),
    "test": False,
}
OBJECT_STORE = 100 * 2**20


class Sleeping:
    """The work of a cell that sleeps and hands over a record that was made before."""

    def __init__(self, seconds: float, record: bytes):
        self.seconds, self.record = seconds, record

    def __call__(self, code: Any, pickled: bytes, mailbox: Any) -> Result:
        order = pickle.loads(pickled)
        mailbox.post.remote(order.cell.name, "cell_begins", (0, None))
        time.sleep(self.seconds)
        return Result(order.cell, CellOutcome.FINISHED, record=self.record)


class Watching(SweepDisplay):
    """The display of a sweep, into the void; notes when cells began to train and were done."""

    def __init__(self, cells: list[Cell], directory: SweepDirectory):
        super().__init__(Console(quiet=True), cells, directory, predicts=False)
        self.first_step: float | None = None

    def cell_progress(self, cell: Cell, progress: CellProgress) -> None:
        super().cell_progress(cell, progress)
        if self.first_step is None and progress.phase == "training" and progress.step:
            self.first_step = time.perf_counter()


@dataclass(frozen=True)
class Measured:
    """A sweep: how long it took, and what it took of the driver."""

    cells: int
    seconds: float
    driver_seconds: float
    driver_bytes: int
    to_first_step: float | None


def measure(cells: list[Cell], work: Callable[..., Result]) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        directory = SweepDirectory(folder)
        display = Watching(cells, directory)
        wall, cpu = time.perf_counter(), time.process_time()
        with display:
            outcome = run_sweep(
                cells, directory, options=SweepOptions(save_every=1e9), observer=display, executor=Ray(work=work)
            )
        wall_after, cpu_after = time.perf_counter(), time.process_time()
    assert len(outcome.finished) == len(cells), outcome
    return Measured(
        len(cells),
        wall_after - wall,
        cpu_after - cpu,
        1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        None if display.first_step is None else display.first_step - wall,
    )


def sleeping_cells(count: int, name: str) -> list[Cell]:
    """As many cells, of all algorithms and of made-up systems."""
    algorithms = sorted(ALGORITHMS)
    cells = []
    for index in range(count):
        number, place = divmod(index, len(algorithms))
        system = System(f"{name}_{number}", "Sleeping", "mpnn", preset="quick", seeds=1)
        cells.append(Cell(system, system.config(algorithms[place], **TINY)))
    return cells


def real_cells(count: int) -> list[Cell]:
    return make_cells("quick", ["mpnn"], sorted(ALGORITHMS)[:count], 1, TINY)


def start_ray(workers: int) -> None:
    ray.shutdown()
    os.environ.update(RAY_worker_niceness="0")  # else whatever else runs on the machine goes first
    ray.init(
        "local",
        num_cpus=workers,
        object_store_memory=OBJECT_STORE,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def template() -> bytes:
    """The record of a real, small cell, made in this process."""
    with tempfile.TemporaryDirectory() as folder:
        cells = make_cells("quick", ["mpnn"], ["minimum"], 1, {**TINY, "steps": 2, "validate_every": 2})
        run_sweep(cells, SweepDirectory(folder))
        return SweepDirectory(folder).record(cells[0]).read_bytes()


def in_new_process(record: bytes, *arguments: str) -> Measured:
    """Measures in a process of its own, so that none finds memory or workers of another."""
    with tempfile.TemporaryDirectory() as folder:
        out, given = Path(folder, "out"), Path(folder, "record")
        given.write_bytes(record)
        subprocess.run([sys.executable, __file__, "--out", out, "--measure", *arguments, given], check=True)
        return Measured(**json.loads(out.read_text()))


def measure_here(kind: str, workers: int, count: int, seconds: float, record: Path) -> Measured:
    start_ray(workers)
    if kind == "real":
        return measure(real_cells(count), run_assignment)
    work = Sleeping(seconds, record.read_bytes())
    measure(sleeping_cells(workers, "warm_up"), Sleeping(20.0, work.record))  # all workers start and import narkit
    return measure(sleeping_cells(count, "sleeping"), work)


def many(args: argparse.Namespace, record: bytes) -> Iterator[str]:
    """What cells cost the driver."""
    found = in_new_process(record, "sleeping", "8", str(args.cells), "0")
    yield from [
        f"## {found.cells:,} cells that do nothing, 8 workers",
        "",
        f"{provenance()}; load {load()} at the end.",
        "",
        "| | measured | to reach |",
        "| --- | ---: | ---: |",
        f"| memory of the driver | {found.driver_bytes / 1e6:.0f} MB | below 1000 MB |",
        f"| processor time of the driver per cell | {1e3 * found.driver_seconds / found.cells:.1f} ms | below 50 ms |",
        f"| time per cell, Ray and workers included | {1e3 * found.seconds / found.cells:.1f} ms | |",
        f"| cells per second | {found.cells / found.seconds:.0f} | |",
        "",
    ]


def sleeping(args: argparse.Namespace, record: bytes) -> Iterator[str]:
    """How well a cluster is filled that does nothing else."""
    yield from [
        f"## Cells that sleep {args.seconds:g} s: {args.rounds} for each worker",
        "",
        f"{provenance()}. Efficiency is the time that the cells sleep, divided by that of the sweep; workers had been "
        "started before. To reach: 95 %.",
        "",
        "| workers | cells | seconds | efficiency | load |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for workers in (1, 2, 4, 8):
        found = in_new_process(record, "sleeping", str(workers), str(workers * args.rounds), str(args.seconds))
        share = args.rounds * args.seconds / found.seconds
        yield f"| {workers} | {found.cells} | {found.seconds:.1f} | {100 * share:.1f} % | {load()} |"
    yield ""


def real(args: argparse.Namespace, record: bytes) -> Iterator[str]:
    """How long real cells take, from the start of the sweep on."""
    yield from [
        f"## Real small cells: {args.real} of a tiny MPNN, {TINY['steps']} steps each",
        "",
        f"{provenance()}. The time is that of the whole sweep, with the start of workers, imports and compilation; to "
        "the first step it is counted from the start of the sweep. Efficiency is the speed per worker beside that of "
        "one: more workers than cores cannot help, and one worker's compiler and XLA already use several.",
        "",
        "| workers | seconds | seconds to the first step | cells per minute | efficiency | load |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    alone = None
    for workers in args.real_workers:
        found = in_new_process(record, "real", str(workers), str(args.real), "0")
        alone = alone or found.seconds * workers
        first = "—" if found.to_first_step is None else f"{found.to_first_step:.1f}"
        rate, share = 60 * found.cells / found.seconds, alone / (workers * found.seconds)
        yield f"| {workers} | {found.seconds:.1f} | {first} | {rate:.1f} | {100 * share:.0f} % | {load()} |"
    yield ""


PARTS = {"many": many, "sleeping": sleeping, "real": real}


def provenance() -> str:
    command = shlex.join(["python", "benchmarks/cluster.py", *sys.argv[1:]])
    return f"`{command}`, commit {machine.commit()}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC"


def report(args: argparse.Namespace) -> Iterator[str]:
    """The lines of the document, as they are measured."""
    yield from [
        "# Sweeps on Ray: what they cost",
        "",
        f"Measured on {os.cpu_count()} cores of {machine.cpu_model()} with Ray {ray.__version__}. The driver, Ray and "
        "its workers shared these cores with whatever else ran there. The load beside a figure is that of the machine "
        "when it had been measured: the mean number of processes that ran or waited for a core over one minute, these "
        "included.",
        "",
    ]
    record = template()
    for part in args.parts:
        yield from PARTS[part](args, record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure")
    parser.add_argument("--cells", type=int, default=10_000, help="how many that do nothing")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long the others sleep")
    parser.add_argument("--rounds", type=int, default=6, help="cells for each worker")
    parser.add_argument("--real", type=int, default=8, help="how many real cells")
    parser.add_argument("--real-workers", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    parser.add_argument(
        "--measure", nargs=5, metavar=("KIND", "WORKERS", "CELLS", "SECONDS", "RECORD"), help=argparse.SUPPRESS
    )
    args = parser.parse_args()
    if args.measure:
        kind, workers, count, seconds, record = args.measure
        result = measure_here(kind, int(workers), int(count), float(seconds), Path(record))
        ray.shutdown()
        args.out.write_text(json.dumps(vars(result)))
        return
    with args.out.open("w") as file:
        for line in report(args):
            print(line, file=file, flush=True)


if __name__ == "__main__":
    main()
