"""Sweeps on a real Ray of several nodes on this machine: whatever is lost, every record is there once, bit for bit.

`pytest -m cluster` runs them and those of the other files, with the extra `ray` installed; they take some minutes.
"""

# pyright: reportMissingImports=false

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from narkit.sweeps.cells import Cell, SweepDirectory

from .on_ray import LONG, NODE, Log, Slow, TinyCells, sweep, wait_for, worker_of
from .test_sweep_processes import FILES, files_of, results, start

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings are not ours to heed


@pytest.fixture(scope="module")
def whole(tiny_sweep: Path) -> dict[str, dict]:
    return results(tiny_sweep)


@pytest.fixture(scope="module")
def whole_long(long_sweep: Path) -> dict[str, dict]:
    return results(long_sweep)


def kill_worker(cell: Cell) -> None:
    worker_of(cell).kill()


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
    whole_long: dict[str, dict], tiny_cells: TinyCells, cluster: Any, tmp_path: Path
) -> None:
    """A node goes with a cell that has a checkpoint, and another node comes."""
    node = cluster.add_node(**NODE)
    storage = tmp_path / "storage"

    def disturb(cell: Cell) -> None:
        assert list(storage.rglob("*.tar"))
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(**NODE)

    # The head is kept busy, so that all cells run on the node.
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(cluster.address, log_to_driver=False)
    head = NodeAffinitySchedulingStrategy(cluster.head_node.node_id, soft=False)
    busy = ray.remote(num_cpus=1)(lambda: time.sleep(1000.0)).options(scheduling_strategy=head).remote()
    log = Log(disturb, after_step=20)
    sweep(tiny_cells(**LONG), tmp_path / "out", cluster.address, log, storage=str(storage))
    ray.cancel(busy, force=True)
    assert results(tmp_path / "out") == whole_long
    assert files_of(tmp_path / "out") == FILES
    assert any("goes on from its last checkpoint" in text for text in log.told), log.told
    assert max(step for _, step in log.begun) >= 20
    assert not list(storage.rglob("*.tar"))  # nobody needs them any more


def test_a_node_that_joins_late_is_used(
    records: dict[str, bytes], tiny_cells: TinyCells, cluster: Any, tmp_path: Path
) -> None:
    class Adding(Log):
        def cell_begins(self, cell: Cell, step: int, predicted: float | None) -> None:
            if not self.begun:
                cluster.add_node(**NODE)
            super().cell_begins(cell, step, predicted)

    log = Adding()
    sweep(tiny_cells(), tmp_path, cluster.address, log, work=Slow(40.0, records))
    first_end = next(index for index, text in enumerate(log.told) if text.endswith("finished"))
    assert len({text for text in log.told[:first_end] if text.endswith("begins")}) == 2, log.told


def test_out_of_memory_is_tried_again_with_the_whole_machine(
    records: dict[str, bytes], tiny_cells: TinyCells, cluster: Any, tmp_path: Path
) -> None:
    cluster.add_node(**{**NODE, "num_cpus": 2})
    log = Log()
    outcome = sweep(tiny_cells(), tmp_path, cluster.address, log, work=Slow(0.1, records, ("bfs",)))
    assert [cell.name for cell in outcome.finished] == ["mpnn/minimum", "mpnn/bfs"]
    assert "mpnn/bfs is run once more by itself, after all others" in log.told
    assert SweepDirectory(tmp_path).failure(tiny_cells()[1]) is None


BROKEN = """
import narkit
from narkit.models.processors import PROCESSORS

class Mine(PROCESSORS["mpnn"]):
    pass

class Broken(PROCESSORS["mpnn"]):
    def __init__(self, *arguments, **options):
        raise ValueError("made to fail")

narkit.PROCESSORS["mine"], narkit.PROCESSORS["broken"] = Mine, Broken
"""


def test_own_processors_and_a_cell_that_fails(
    tiny_arguments: list[str], program_cache: Path, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module of the user is found by this process only."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "my_processors.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path / "code")
    where = ["--systems", "mine,broken", "--algorithms", "minimum", "--on", "ray", "--address", cluster.address]
    arguments = ["--import", "my_processors", *tiny_arguments, *where]
    with start(arguments, tmp_path / "out", program_cache) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 1, printed
    assert printed.count("broken/minimum FAILED: ValueError: made to fail") == 1
    assert "mine/minimum done" in printed
    assert "1 finished, 1 failed" in printed


def test_interrupted_and_killed_drivers(
    whole_long: dict[str, dict], long_arguments: list[str], program_cache: Path, cluster: Any, tmp_path: Path
) -> None:
    storage = ["--storage", str(tmp_path / "storage")]
    arguments = [*long_arguments, "--on", "ray", "--address", cluster.address, *storage]
    folder = tmp_path / "out"
    with start(arguments, folder, program_cache) as process:
        wait_for(process, " training")
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 128 + signal.SIGINT, printed
    assert f"stopped; saved in {tmp_path / 'storage'}" in printed
    with start(arguments, folder, program_cache) as process:
        printed = wait_for(process, " training")
        assert "goes on from step" in printed
        process.kill()
    with start(arguments, folder, program_cache) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 0, printed
    assert "all cells are finished" in printed
    assert results(folder) == whole_long
    assert files_of(folder) == FILES


def test_two_drivers_share_the_cells(
    whole: dict[str, dict], tiny_arguments: list[str], program_cache: Path, cluster: Any, tmp_path: Path
) -> None:
    cluster.add_node(**NODE)
    arguments = [*tiny_arguments, "--on", "ray", "--address", cluster.address]
    both = [start(arguments, tmp_path, program_cache) for _ in range(2)]
    printed = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], printed
    for name in whole:
        assert sum(text.count(f"{name} done") for text in printed) == 1, printed
    assert results(tmp_path) == whole
    assert files_of(tmp_path) == FILES
