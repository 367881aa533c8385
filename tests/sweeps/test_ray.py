"""Sweeps on a real Ray of several nodes on this machine: whatever is lost, every record is there once, bit for bit.

`pytest tests/sweeps/test_ray.py -m cluster` runs them, with the extra `ray` installed; they take some minutes.
"""

# pyright: reportMissingImports=false

import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from narkit.sweeps.cells import Cell, SweepDirectory, SweepError
from narkit.sweeps.executor import How, Progress, SweepObserver, SweepOptions
from narkit.sweeps.executors import software
from narkit.sweeps.executors.cluster_worker import Result
from narkit.sweeps.failures import Failure
from narkit.sweeps.sweep import Outcome, run_sweep

from .test_sweep_processes import FILES, files_of, results, start

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
    monkeypatch.setenv("RAY_worker_niceness", "0")  # else whatever else runs on the machine goes first
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


def worker_of(cell: Cell) -> Any:
    """The process of a cell, which Ray names after it."""
    import psutil

    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [""])[0].startswith(f"ray::{cell.name}"):
            return process
    raise AssertionError(f"no process of {cell.name}")


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


class Slow:
    """Stands in for the work of a cell: waits, and hands over what a local sweep has made of it."""

    def __init__(self, seconds: float, records: dict[str, bytes], out_of_memory: tuple[str, ...] = ()):
        self.seconds, self.records, self.out_of_memory = seconds, records, out_of_memory

    def __call__(self, code: Any, pickled: bytes, mailbox: Any) -> Result:
        import pickle

        import ray

        order = pickle.loads(pickled)
        mailbox.post.remote(order.cell.name, "cell_begins", (0, None))
        cpus = ray.get_runtime_context().get_assigned_resources().get("CPU", 0)
        if order.cell.algorithm in self.out_of_memory and cpus < 2:
            return Result(How.FAILED, "RESOURCE_EXHAUSTED: Out of memory", kind=Failure.MEMORY)
        time.sleep(self.seconds)
        return Result(How.FINISHED, record=self.records[order.cell.name])


@pytest.fixture
def records(tiny_sweep: Path, tiny_cells: TinyCells) -> Iterator[dict[str, bytes]]:
    """The records of the local sweep. This file is sent to the workers as source code, since they do not find it."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield {cell.name: SweepDirectory(tiny_sweep).record(cell).read_bytes() for cell in tiny_cells()}
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


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


def wait_for(process: Any, ending: str) -> str:
    """Reads what a process prints up to a line with this ending."""
    printed = ""
    while not printed.endswith(f"{ending}\n"):
        line = process.stdout.readline()
        assert line, printed
        printed += line
    return printed


def test_interrupted_and_killed_drivers(
    whole_long: dict[str, dict], tiny_arguments: list[str], program_cache: Path, cluster: Any, tmp_path: Path
) -> None:
    longer = {"steps=12": f"steps={LONG['steps']}", "validate_every=2": f"validate_every={LONG['validate_every']}"}
    settings = [longer.get(word, word) for word in tiny_arguments]
    storage = ["--storage", str(tmp_path / "storage")]
    arguments = [*settings, "--on", "ray", "--address", cluster.address, *storage]
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


def test_what_is_refused(tiny_cells: TinyCells, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is computed."""
    cells, log = tiny_cells(), Log()
    with pytest.raises(SweepError, match="expected a cluster with GPUs, got 1 machines without any"):
        sweep(cells, tmp_path, cluster.address, log, gpus_per_cell=0.5)
    (tmp_path / "file").write_text("")
    with pytest.raises(SweepError, match=r"--storage .*: expected a place that every machine can write to"):
        sweep(cells, tmp_path / "out", cluster.address, log, storage=str(tmp_path / "file"))
    with pytest.raises(SweepError, match="nothing answers there"):
        sweep(cells, tmp_path / "out", "127.0.0.1:1", log)
    with pytest.raises(SweepError, match="expected auto, local, HOST:PORT or ray://HOST:PORT"):
        sweep(cells, tmp_path / "out", "http://somewhere", log)
    here, real = software.describe(), software.difference
    monkeypatch.setattr(software, "difference", lambda driver, worker: real({**driver, "jax": "0.0.1"}, worker))
    with pytest.raises(SweepError, match=f"JAX 0.0.1 here, {here['jax']} on"):
        sweep(cells, tmp_path / "out", cluster.address, log)
    assert log.told == [] and not (tmp_path / "out" / "mpnn").exists()
