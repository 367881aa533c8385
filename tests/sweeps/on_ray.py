"""What the tests on a real Ray share: a cluster of several nodes on this machine, observers, cells that only wait."""

# pyright: reportMissingImports=false

import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from narkit.sweeps.cells import Cell, SweepDirectory
from narkit.sweeps.executor import CellOutcome, CellProgress, Failure, SweepObserver, SweepOptions
from narkit.sweeps.sweep import Outcome, run_sweep

TinyCells = Callable[..., list[Cell]]
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
# On a busy machine Ray takes longer to start than it has patience for.
PATIENCE = {
    "raylet_start_wait_time_s": 300,
    "agent_register_timeout_ms": 300_000,
    "worker_register_timeout_seconds": 300,
}
LONG = {"steps": 900, "validate_every": 30}  # long enough to be disturbed


@pytest.fixture(scope="module")
def environment(program_cache: Path) -> Iterator[pytest.MonkeyPatch]:
    """That of the nodes: they share compiled programs, and leave the token of this machine's user alone."""
    with pytest.MonkeyPatch.context() as changes:
        changes.setenv("JAX_COMPILATION_CACHE_DIR", str(program_cache))
        changes.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        changes.setenv("RAY_worker_niceness", "0")  # else whatever else runs on the machine goes first
        for name, seconds in PATIENCE.items():
            changes.setenv(f"RAY_{name}", str(seconds))
        changes.setenv("RAY_AUTH_MODE", "disabled")
        changes.delenv("RAY_ADDRESS", raising=False)
        yield changes


@pytest.fixture(scope="module")
def head_of_cluster(environment: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head with one CPU, and nothing around it that tests do not need."""
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True,
        head_node_args={**NODE, "include_dashboard": False, "no_monitor": True, "include_log_monitor": False},
    )
    yield made
    made.shutdown()


@pytest.fixture
def cluster(head_of_cluster: Any) -> Iterator[Any]:
    """The head; tests add what else they need, and it goes when they end."""
    import ray

    yield head_of_cluster
    ray.shutdown()
    for node in list(head_of_cluster.worker_nodes):
        head_of_cluster.remove_node(node)


class Log(SweepObserver):
    """Notes what is told, and does something at the first progress in training of a cell."""

    def __init__(self, disturb: Callable[[Cell], None] | None = None, after_step: int = 0) -> None:
        self.told: list[str] = []
        self.begun: list[tuple[str, int]] = []
        self.progress: list[CellProgress] = []
        self._disturb, self._after_step = disturb, after_step

    def cell_begins(self, cell: Cell, step: int, predicted: float | None) -> None:
        self.begun.append((cell.name, step))
        self.told.append(f"{cell.name} begins")

    def cell_progress(self, cell: Cell, progress: CellProgress) -> None:
        self.progress.append(progress)
        if self._disturb is not None and progress.phase == "training" and progress.step >= self._after_step:
            disturb, self._disturb = self._disturb, None
            disturb(cell)

    def cell_finished(self, cell: Cell, record: Any, took: float) -> None:
        self.told.append(f"{cell.name} finished")

    def cell_failed(self, cell: Cell, error: str) -> None:
        self.told.append(f"{cell.name} FAILED: {error}")

    def remark(self, text: str) -> None:
        self.told.append(text)


def sweep(
    cells: list[Cell], folder: Path, address: str, log: SweepObserver, devices: int = 1, **options: Any
) -> Outcome:
    from narkit.sweeps.executors.ray import Ray

    how = SweepOptions(save_every=0.0, devices=devices)
    return run_sweep(cells, SweepDirectory(folder), options=how, observer=log, executor=Ray(address, **options))


def worker_of(cell: Cell) -> Any:
    """The process of a cell, which Ray names after it."""
    import psutil

    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [""])[0].startswith(f"ray::{cell.name}"):
            return process
    raise AssertionError(f"no process of {cell.name}")


def wait_for(process: Any, ending: str) -> str:
    """Reads what a process prints up to a line with this ending."""
    printed = ""
    while not printed.endswith(f"{ending}\n"):
        line = process.stdout.readline()
        assert line, printed
        printed += line
    return printed


class Slow:
    """Stands in for the work of a cell: waits, and hands over what a local sweep has made of it.

    Some cells run out of memory as long as they do not have all of a machine. With a folder, what a cell was given is
    written there.
    """

    def __init__(
        self,
        seconds: float,
        records: dict[str, bytes],
        out_of_memory: tuple[str, ...] = (),
        notes: Path | None = None,
    ):
        self.seconds, self.records, self.out_of_memory, self.notes = seconds, records, out_of_memory, notes

    def __call__(self, code: Any, pickled: bytes, mailbox: Any) -> Any:
        import json

        import ray

        from narkit.sweeps.executors import cluster_worker
        from narkit.sweeps.executors.cluster_worker import Result

        order = pickle.loads(pickled)
        mailbox.post.remote(order.cell.name, "cell_begins", (0, None))
        cluster_worker._set_up(order)
        given = ray.get_runtime_context().get_assigned_resources()
        names = ("CUDA_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_MEM_FRACTION")
        note = {"given": given, "gpus": ray.get_gpu_ids(), "process": os.getpid(), "began": time.time()}
        note |= {name: os.environ.get(name) for name in names}
        all_of_it = given.get("CPU", 0) >= 2 or given.get("GPU", 0) >= 1
        fails = order.cell.algorithm in self.out_of_memory and not all_of_it
        if not fails:
            time.sleep(self.seconds)
        if self.notes is not None:
            file = self.notes / f"{order.cell.algorithm}-{os.getpid()}.json"
            file.write_text(json.dumps({**note, "ended": time.time(), "algorithm": order.cell.algorithm}))
        if fails:
            return Result(order.cell, CellOutcome.FAILED, "RESOURCE_EXHAUSTED: Out of memory", Failure.MEMORY)
        return Result(order.cell, CellOutcome.FINISHED, record=self.records[order.cell.name])


@pytest.fixture
def records(tiny_sweep: Path, tiny_cells: TinyCells) -> Iterator[dict[str, bytes]]:
    """The records of the local sweep. This file is sent to the workers as source code, since they do not find it."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield {cell.name: SweepDirectory(tiny_sweep).record(cell).read_bytes() for cell in tiny_cells()}
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
