"""What a sweep on Ray refuses, in one line and before anything is computed; and what stops it when it comes later."""

# pyright: reportMissingImports=false

import time
from pathlib import Path
from typing import Any

import pytest

from narkit.sweeps.cells import Cell, SweepDirectory, SweepError
from narkit.sweeps.executors import software

from ..killing import SOURCE
from .on_ray import LONG, NODE, Log, TinyCells, sweep
from .test_sweep_processes import start

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings are not ours to heed


def other_jax(folder: Path) -> dict[str, str]:
    """The environment of a node that has another version of JAX, as far as its metadata say."""
    metadata = folder / "jax-0.0.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: jax\nVersion: 0.0.1\n")
    return {"PYTHONPATH": f"{folder}:{SOURCE}"}


def other_narkit(folder: Path) -> dict[str, str]:
    """The environment of a node with a narkit of another version, which cannot do anything."""
    (folder / "narkit").mkdir(parents=True)
    (folder / "narkit" / "__init__.py").write_text('__version__ = "0.0.7"\n')
    return {"PYTHONPATH": str(folder)}


def no_narkit(folder: Path) -> dict[str, str]:
    """The environment of a node without narkit."""
    (folder / "narkit").mkdir(parents=True)
    (folder / "narkit" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'narkit'\")\n")
    return {"PYTHONPATH": str(folder)}


def test_resources_storage_and_addresses(tiny_cells: TinyCells, cluster: Any, tmp_path: Path) -> None:
    cells, log, out = tiny_cells(), Log(), tmp_path / "out"
    with pytest.raises(SweepError, match=r"0\.5: expected a cluster with GPUs, got 1 machine without any"):
        sweep(cells, out, cluster.address, log, gpus_per_cell=0.5)
    with pytest.raises(SweepError, match="--devices 2: expected at least as many GPUs per cell, got 0, since"):
        sweep(cells, out, cluster.address, log, devices=2)
    for number in (1.5, 0.001, -1.0, float("nan"), float("inf")):
        with pytest.raises(SweepError, match="--gpus-per-cell: expected 0, a share of one GPU"):
            sweep(cells, out, cluster.address, log, gpus_per_cell=number)
    (tmp_path / "file").write_text("")
    with pytest.raises(SweepError, match=r"--storage .*: expected a place that every machine can write to"):
        sweep(cells, out, cluster.address, log, storage=str(tmp_path / "file"))
    with pytest.raises(SweepError, match=r"--storage nosuch://place: .*ValueError: Protocol not known: nosuch"):
        sweep(cells, out, cluster.address, log, storage="nosuch://place")
    with pytest.raises(SweepError, match="nothing answers there"):
        sweep(cells, out, "127.0.0.1:1", log)
    for address in ("http://somewhere", "somewhere", "ray://somewhere", "host:port"):
        with pytest.raises(SweepError, match="expected auto, local, HOST:PORT or ray://HOST:PORT"):
            sweep(cells, out, address, log)
    assert log.told == [] and not (out / "mpnn").exists()


def test_a_cell_that_no_machine_has_room_for(tiny_cells: TinyCells, cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(**NODE, num_gpus=1)
    with pytest.raises(SweepError, match="asks for 2 CPUs and 2 GPUs, which no machine of the cluster has"):
        sweep(tiny_cells(), tmp_path, cluster.address, Log(), gpus_per_cell=2)


@pytest.mark.parametrize(
    ("make", "named"),
    [(other_jax, "JAX {jax} here, 0.0.1 on"), (other_narkit, "narkit {narkit} here, 0.0.7 on"), (no_narkit, "none on")],
)
def test_a_machine_with_other_versions(
    make: Any, named: str, tiny_cells: TinyCells, cluster: Any, tmp_path: Path
) -> None:
    cluster.add_node(**NODE, env_vars=make(tmp_path / "node"))
    with pytest.raises(SweepError, match=r"expected the same versions everywhere") as refused:
        sweep(tiny_cells(), tmp_path / "out", cluster.address, Log())
    assert named.format(**software.describe()) in str(refused.value)
    assert not (tmp_path / "out" / "mpnn").exists()


@pytest.mark.parametrize(
    ("make", "named"),
    [(other_jax, "JAX {jax} here, 0.0.1 on"), (no_narkit, "No module named 'narkit'")],
)
def test_such_a_machine_that_joins_later_stops_the_sweep(
    make: Any, named: str, tiny_cells: TinyCells, cluster: Any, tmp_path: Path
) -> None:
    """No cell is marked as failed, since it is not the cells that are wrong."""
    node = {**NODE, "env_vars": make(tmp_path / "node")}
    log = Log(lambda cell: cluster.add_node(**node))
    cells = tiny_cells(steps=20_000, validate_every=500)
    outcome = sweep(cells, tmp_path / "out", cluster.address, log)
    assert outcome.cannot_go_on and not outcome.failed and not outcome.finished
    assert any(text.startswith("Error: ") and named.format(**software.describe()) in text for text in log.told)
    assert [SweepDirectory(tmp_path / "out").failure(cell) for cell in cells] == [None, None]


def test_a_storage_that_is_lost(tiny_cells: TinyCells, cluster: Any, tmp_path: Path) -> None:
    storage = tmp_path / "storage"

    def lose(cell: Cell) -> None:
        deadline = time.monotonic() + 60.0
        while storage.is_dir() and time.monotonic() < deadline:  # a worker may just be writing to it
            try:
                storage.rename(tmp_path / "away")
                storage.write_text("")
            except OSError:
                time.sleep(0.01)

    log = Log(lose)
    outcome = sweep(tiny_cells(**LONG), tmp_path / "out", cluster.address, log, storage=str(storage))
    assert outcome.cannot_go_on and not outcome.failed
    assert any("could not be written to" in text for text in log.told), log.told


NEEDS_MORE = """
import narkit, ray
from narkit.models.processors import PROCESSORS

if ray.is_initialized():  # on a worker, where the package that it needs is not installed
    import only_on_the_driver

class Mine(PROCESSORS["mpnn"]):
    pass

narkit.PROCESSORS["mine"] = Mine
"""


def test_a_package_that_workers_lack(
    tiny_arguments: list[str], program_cache: Path, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep stops, and no cell is marked as failed."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "needs_more.py").write_text(NEEDS_MORE)
    monkeypatch.chdir(tmp_path / "code")
    where = ["--systems", "mine", "--algorithms", "minimum", "--on", "ray", "--address", cluster.address]
    with start(["--import", "needs_more", *tiny_arguments, *where], tmp_path / "out", program_cache) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 1, printed
    assert "Error: mine/minimum: its worker could not begin" in printed
    assert "No module named 'only_on_the_driver'" in printed
    assert "1 left" in printed
