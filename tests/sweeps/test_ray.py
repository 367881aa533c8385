"""Sweeps on a real Ray of several nodes on this machine: whatever is lost, every record is there once, bit for bit.

`pytest tests/sweeps/test_ray.py -m cluster` runs them, with the extra `ray` installed; they take some minutes.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from narkit.sweeps.cells import Cell, SweepDirectory
from narkit.sweeps.executor import Progress, SweepObserver, SweepOptions
from narkit.sweeps.sweep import Outcome, run_sweep

from .test_sweep_processes import FILES, files_of, results

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings are not ours to heed

TinyCells = Callable[..., list[Cell]]
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
LONG = {"steps": 300, "validate_every": 10}  # long enough to be disturbed


@pytest.fixture
def cluster(program_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head with one CPU; tests add what else they need."""
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(program_cache))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


class Log(SweepObserver):
    """Notes what is told, and does something at the first progress in training of a cell."""

    def __init__(self, disturb: Callable[[Cell], None] | None = None, after_step: int = 0) -> None:
        self.told: list[str] = []
        self.begun: list[tuple[str, int]] = []
        self.progress: list[Progress] = []
        self._disturb, self._after_step = disturb, after_step

    def cell_begins(self, cell: Cell, step: int, predicted: float | None) -> None:
        self.begun.append((cell.name, step))
        self.told.append(f"{cell.name} begins")

    def cell_progress(self, cell: Cell, progress: Progress) -> None:
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


def sweep(cells: list[Cell], folder: Path, address: str, log: SweepObserver, **options: Any) -> Outcome:
    from narkit.sweeps.executors.ray import Ray

    how = SweepOptions(save_every=0.0)
    return run_sweep(cells, SweepDirectory(folder), options=how, observer=log, executor=Ray(address, **options))


@pytest.fixture(scope="module")
def whole(tiny_sweep: Path) -> dict[str, dict]:
    return results(tiny_sweep)


@pytest.fixture(scope="module")
def whole_long(tiny_cells: TinyCells, program_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """What a local sweep makes of the longer cells."""
    folder = tmp_path_factory.mktemp("long")
    run_sweep(tiny_cells(**LONG), SweepDirectory(folder))
    return results(folder)


def kill_worker(cell: Cell) -> None:
    """Kills the process of a cell, which Ray names after it."""
    import psutil

    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [""])[0].startswith(f"ray::{cell.name}"):
            process.kill()
            return
    raise AssertionError(f"no process of {cell.name}")


def test_a_sweep_on_two_nodes(whole: dict[str, dict], tiny_cells: TinyCells, cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(**NODE)
    log = Log()
    outcome = sweep(tiny_cells(), tmp_path, cluster.address, log)
    assert {cell.name for cell in outcome.finished} == set(whole)
    assert results(tmp_path) == whole
    assert files_of(tmp_path) == FILES
    assert {progress.phase for progress in log.progress} >= {"compiling", "training"}
    assert sorted(log.begun) == [("mpnn/bfs", 0), ("mpnn/minimum", 0)]


def test_a_killed_worker(whole_long: dict[str, dict], tiny_cells: TinyCells, cluster: Any, tmp_path: Path) -> None:
    log = Log(disturb=kill_worker)
    sweep(tiny_cells(**LONG), tmp_path, cluster.address, log)
    assert results(tmp_path) == whole_long
    assert files_of(tmp_path) == FILES
    assert any("lost its worker (WorkerCrashedError) and starts again" in text for text in log.told), log.told
    assert len(log.begun) == 3


def test_a_node_that_is_lost_and_one_that_joins(
    whole_long: dict[str, dict], tiny_cells: TinyCells, program_cache: Path, cluster: Any, tmp_path: Path
) -> None:
    """The only node for cells goes when there is a checkpoint, and another one comes."""
    node = cluster.add_node(**NODE, resources={"for_cells": 1})
    storage = tmp_path / "storage"

    def disturb(cell: Cell) -> None:
        assert list(storage.rglob("*.tar"))
        import psutil

        raylets = {process.pid for process in _ancestors(cell, psutil)}
        lost = node if node.all_processes["raylet"][0].process.pid in raylets else cluster.head_node
        if lost is node:
            cluster.remove_node(node, allow_graceful=False)
        else:
            kill_worker(cell)
        cluster.add_node(**NODE)

    log = Log(disturb, after_step=20)
    cells = tiny_cells(**LONG)
    sweep(cells, tmp_path / "out", cluster.address, log, storage=str(storage))
    assert results(tmp_path / "out") == whole_long
    assert files_of(tmp_path / "out") == FILES
    assert any("goes on from its last checkpoint" in text for text in log.told), log.told
    assert max(step for _, step in log.begun) >= 20
    assert not list(storage.rglob("*.tar"))  # nobody needs them any more


def _ancestors(cell: Cell, psutil: Any) -> list[Any]:
    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [""])[0].startswith(f"ray::{cell.name}"):
            return process.parents()
    raise AssertionError(f"no process of {cell.name}")
