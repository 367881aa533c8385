"""GPUs and shares of them as Ray gives them out, on nodes that say they have some: JAX computes on the CPU here.

What a GPU itself does with a share is not tested here.
"""

# pyright: reportMissingImports=false

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from narkit.sweeps.cells import SweepDirectory
from narkit.training.record import RunRecord

from .on_ray import NODE, Log, Slow, TinyCells, sweep
from .test_sweep_processes import FILES, files_of, results

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings are not ours to heed

ON_CPU = {"JAX_PLATFORMS": "cpu"}
FOUR = ("minimum", "bfs", "bubble_sort", "binary_search")


@pytest.fixture
def gpus(cluster: Any) -> Any:
    """A node with two GPUs and four CPUs beside a head without any."""
    cluster.add_node(**{**NODE, "num_cpus": 4}, num_gpus=2, env_vars=ON_CPU)
    return cluster


def notes_of(folder: Path) -> list[dict]:
    return sorted((json.loads(file.read_text()) for file in folder.glob("*.json")), key=lambda note: note["began"])


def waiting(records: dict[str, bytes], folder: Path, seconds: float = 5.0, out_of_memory: tuple[str, ...] = ()) -> Slow:
    """Cells that wait beside each other; all hand over the same record."""
    folder.mkdir()
    made = {f"mpnn/{name}": records["mpnn/minimum"] for name in FOUR}
    return Slow(seconds, made, out_of_memory, folder)


def test_halves(records: dict[str, bytes], tiny_cells: TinyCells, gpus: Any, tmp_path: Path) -> None:
    """Two cells on each GPU; each sees one GPU, is told its share of the memory, and has a process of its own."""
    work = waiting(records, tmp_path / "notes", seconds=30.0)
    cells = tiny_cells(algorithms=FOUR)
    outcome = sweep(cells, tmp_path / "out", gpus.address, Log(), gpus_per_cell=0.5, work=work)
    assert len(outcome.finished) == 4
    notes = notes_of(tmp_path / "notes")
    assert sorted(note["CUDA_VISIBLE_DEVICES"] for note in notes) == ["0", "0", "1", "1"]
    assert [len(note["gpus"]) for note in notes] == [1] * 4
    assert [note["XLA_PYTHON_CLIENT_MEM_FRACTION"] for note in notes] == ["0.440"] * 4
    assert [note["given"]["GPU"] for note in notes] == [0.5] * 4
    assert len({note["process"] for note in notes}) == 4
    assert max(note["began"] for note in notes) < min(note["ended"] for note in notes)  # all at a time


def test_whole_ones_by_default(records: dict[str, bytes], tiny_cells: TinyCells, gpus: Any, tmp_path: Path) -> None:
    """Two cells at a time, each with a GPU of its own and half of the CPUs."""
    work = waiting(records, tmp_path / "notes")
    outcome = sweep(tiny_cells(algorithms=FOUR[:3]), tmp_path / "out", gpus.address, Log(), work=work)
    assert len(outcome.finished) == 3
    notes = notes_of(tmp_path / "notes")
    assert {note["CUDA_VISIBLE_DEVICES"] for note in notes} == {"0", "1"}
    assert [note["given"] for note in notes] == [{"GPU": 1.0, "CPU": 2.0}] * 3
    assert [note["XLA_PYTHON_CLIENT_MEM_FRACTION"] for note in notes] == [None] * 3
    for gpu in ("0", "1"):
        shared = [note for note in notes if note["CUDA_VISIBLE_DEVICES"] == gpu]
        assert all(first["ended"] <= second["began"] for first, second in itertools.pairwise(shared))


def test_out_of_memory_gets_a_whole_one(
    records: dict[str, bytes], tiny_cells: TinyCells, gpus: Any, tmp_path: Path
) -> None:
    """With nothing beside it."""
    log, work = Log(), waiting(records, tmp_path / "notes", 1.0, ("bfs",))
    outcome = sweep(tiny_cells(), tmp_path / "out", gpus.address, log, gpus_per_cell=0.25, work=work)
    assert [cell.name for cell in outcome.finished] == ["mpnn/minimum", "mpnn/bfs"]
    assert "mpnn/bfs is run once more by itself, after all others" in log.told
    last = notes_of(tmp_path / "notes")[-1]
    assert (last["algorithm"], last["given"]["GPU"]) == ("bfs", 1.0)
    assert last["XLA_PYTHON_CLIENT_MEM_FRACTION"] is None


def test_records_are_those_of_a_local_sweep(tiny_sweep: Path, tiny_cells: TinyCells, gpus: Any, tmp_path: Path) -> None:
    outcome = sweep(tiny_cells(), tmp_path, gpus.address, Log(), gpus_per_cell=0.5)
    assert len(outcome.finished) == 2
    assert results(tmp_path) == results(tiny_sweep)
    assert files_of(tmp_path) == FILES


def test_a_cell_on_two_devices(tiny_cells: TinyCells, cluster: Any, tmp_path: Path) -> None:
    """`--devices 2` asks for two GPUs; here JAX divides the CPU in two."""
    divided = {**ON_CPU, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    cluster.add_node(**NODE, num_gpus=2, env_vars=divided)
    cells = tiny_cells(algorithms=("bfs",))
    outcome = sweep(cells, tmp_path, cluster.address, Log(), devices=2)
    assert len(outcome.finished) == 1
    record = RunRecord.load(SweepDirectory(tmp_path).record(cells[0]))
    assert record.versions["devices"] == "2"


def test_a_gpu_that_jax_does_not_see(tiny_cells: TinyCells, cluster: Any, tmp_path: Path) -> None:
    """Else cells would train on the CPU, slowly, and keep a GPU from others."""
    cluster.add_node(**NODE, num_gpus=1, env_vars={"JAX_PLATFORMS": ""})
    log = Log()
    outcome = sweep(tiny_cells(), tmp_path, cluster.address, log)
    assert outcome.cannot_go_on and not outcome.failed
    assert any("expected that JAX sees the GPU which Ray has given to the cell" in text for text in log.told)
