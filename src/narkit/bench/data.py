"""`narkit bench data`: microseconds per sample, from a seed to a finished transformed batch, on one core."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

import narkit.algorithms  # registers the algorithms
from narkit import machine
from narkit.bench.reference_process import ReferenceProcess
from narkit.bench.tables import Page, versions_in_words
from narkit.data.execution import check_size, sample
from narkit.spec import ALGORITHMS

BATCH_SIZE = 32
WARM_UP_BATCHES = 3
FEWEST_BATCHES = 5
REFERENCE_SCRIPT = Path(__file__).with_name("reference_sampler.py")

FIRST_SAMPLE = """
import sys, time
start = time.perf_counter()
import narkit
imported = time.perf_counter()
narkit.sample(sys.argv[1], size=16, batch_size=32, seed=0)
print(imported - start, time.perf_counter() - imported)
"""


@dataclass
class SampleTime:
    """One algorithm at one size: microseconds per sample, ours and the reference's."""

    algorithm: str
    size: int
    ours: float
    reference: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.reference is None else self.reference / self.ours


@dataclass
class DataRecord:
    """A whole run with what is needed to judge it."""

    cells: list[SampleTime]
    sizes: list[int]
    batch_size: int
    seconds_per_measurement: float
    cpu: str
    commit: str
    date: str
    versions: dict[str, str]
    reference_versions: dict[str, str] | None
    startup: dict[str, float] = field(default_factory=dict)

    def ratios(self, size: int) -> list[float]:
        return [cell.ratio for cell in self.cells if cell.size == size and cell.ratio is not None]


def measure(
    names: Sequence[str], sizes: Sequence[int], seconds: float, reference_python: Path | None, console: Console
) -> DataRecord:
    """Measures the named algorithms at every size; the reference in turn with ours."""
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    cells = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(machine.one_core())
        progress = stack.enter_context(Progress(*columns, console=console, transient=True))
        task = progress.add_task("starting", total=len(names) * len(sizes))
        reference = None
        if reference_python is not None:
            process = ReferenceProcess(reference_python, REFERENCE_SCRIPT, machine.SINGLE_THREADED)
            reference = stack.enter_context(process)
        for name, size in itertools.product(names, sizes):  # sizes that do not fit, before anything is measured
            check_size(ALGORITHMS[name], size, BATCH_SIZE)
        for name, size in itertools.product(names, sizes):
            progress.update(task, description=f"{name}, n = {size}")
            asked = {"algorithm": name, "size": size, "batch_size": BATCH_SIZE, "seconds": seconds}
            theirs = None if reference is None else reference.ask(asked)["microseconds"]
            cells.append(SampleTime(name, size, our_microseconds(name, size, seconds), theirs))
            progress.advance(task)
        progress.update(task, description="first samples in fresh processes")
        startup = _startup([name for name in names if ALGORITHMS[name].function.__module__.startswith("narkit.")])
    return DataRecord(
        cells=cells,
        sizes=list(sizes),
        batch_size=BATCH_SIZE,
        seconds_per_measurement=seconds,
        reference_versions=None if reference is None else reference.versions,
        startup=startup,
        **machine.circumstances("narkit", "numpy", "numba"),
    )


def our_microseconds(name: str, size: int, seconds: float) -> float:
    """Measures the median time per sample over fresh batches, compiled code warm."""
    for step in range(WARM_UP_BATCHES):
        sample(name, size=size, batch_size=BATCH_SIZE, seed=0, step=step)
    times: list[float] = []
    while len(times) < FEWEST_BATCHES or sum(times) < seconds:
        start = time.perf_counter()
        sample(name, size=size, batch_size=BATCH_SIZE, seed=0, step=WARM_UP_BATCHES + len(times))
        times.append(time.perf_counter() - start)
    return statistics.median(times) / BATCH_SIZE * 1e6


def _startup(names: Sequence[str]) -> dict[str, float]:
    """Measures the seconds for `import narkit` and for the first sample with a warm cache, each in a fresh process."""
    source = str(Path(narkit.__file__ or "").parents[1])
    environment = {**os.environ, **machine.SINGLE_THREADED, "PYTHONPATH": source}
    imports, firsts = [], []
    for name in names:
        command = [sys.executable, "-c", FIRST_SAMPLE, name]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
        imports.append(float(answer[0]))
        firsts.append(float(answer[1]))
    if not names:
        return {}
    return {"import": statistics.median(imports), "first_sample": statistics.median(firsts), "slowest": max(firsts)}


def _rows(record: DataRecord) -> Iterator[list[str]]:
    """Yields the rows of the table: one per algorithm, then the geometric means and the minima of the ratios."""
    at_size = {size: [cell for cell in record.cells if cell.size == size] for size in record.sizes}
    for cells in zip(*at_size.values(), strict=True):  # of one algorithm
        yield [cells[0].algorithm, *_columns(record, [(cell.ours, cell.reference, cell.ratio) for cell in cells])]
    for title, summarise in (("geometric mean", statistics.geometric_mean), ("lowest in the column", min)):
        summaries = []
        for size, cells in at_size.items():
            theirs = [cell.reference for cell in cells if cell.reference is not None]
            compared = (summarise(theirs), summarise(record.ratios(size))) if theirs else (None, None)
            summaries.append((summarise([cell.ours for cell in cells]), *compared))
        yield [title, *_columns(record, summaries)]


def _columns(record: DataRecord, sizes: Iterable[tuple[float, float | None, float | None]]) -> Iterator[str]:
    """Yields for every size our time and, where the reference was measured, its time and the ratio."""
    for ours, theirs, ratio in sizes:
        yield _number(ours)
        if record.reference_versions is not None:
            yield from (_number(theirs), f"{_number(ratio)}×")


def _header(record: DataRecord) -> list[str]:
    header = ["algorithm"]
    for size in record.sizes:
        header.append(f"n={size}: narkit µs")
        if record.reference_versions is not None:
            header += ["dm-clrs µs", "ratio"]
    return header


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _circumstances(record: DataRecord) -> list[str]:
    lines = [
        f"Microseconds per sample on one core of {record.cpu}: batches of {record.batch_size} from seed to transformed "
        f"batch, every probe stored; medians over {record.seconds_per_measurement:g} s. {record.date}, commit "
        f"{record.commit}, {versions_in_words(record.versions)}."
    ]
    if record.reference_versions is not None:
        theirs = versions_in_words(record.reference_versions)
        lines.append(f"Reference, measured in turn with ours: {theirs}; batches of the same size, one at least.")
    if record.startup:
        lines.append(
            f"`import narkit` {record.startup['import'] * 1e3:.0f} ms; first sample in a fresh process with a warm "
            f"cache {record.startup['first_sample']:.2f} s (median over the algorithms), "
            f"{record.startup['slowest']:.2f} s (slowest)."
        )
    return lines


def page(record: DataRecord) -> Page:
    """Returns the page of the measurements and their circumstances."""
    return Page("Speed of the data layer", _circumstances(record), _header(record), list(_rows(record)))


def as_json(record: DataRecord) -> str:
    """Returns the record as JSON, ratios and their summaries included."""
    content = asdict(record)
    content["summary"] = {
        str(size): {"geometric_mean": statistics.geometric_mean(ratios), "minimum": min(ratios)}
        for size in record.sizes
        if (ratios := record.ratios(size))
    }
    return json.dumps(content, indent=1) + "\n"
