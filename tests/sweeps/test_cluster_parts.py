"""The parts of sweeps on a cluster that need none: requests, versions, storage, the user's files, wrong options."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from narkit.cli import app
from narkit.sweeps.cells import Cell, SweepDirectory
from narkit.sweeps.executors import software
from narkit.sweeps.executors.resources import Request, cells_that_fit, default_threads, host_memory, share_of_gpu
from narkit.sweeps.executors.sources import ShippedCode
from narkit.sweeps.user_code import UserCode
from narkit.training.checkpoint import CheckpointWriteError

GIB = 2**30


def test_cells_that_fit() -> None:
    machines = [{"CPU": 4, "GPU": 2, "memory": 16 * GIB}, {"CPU": 8, "memory": 4 * GIB}]
    assert cells_that_fit(machines, Request(0, 1)) == 12
    assert cells_that_fit(machines, Request(0, 1, 2 * GIB)) == 4 + 2
    assert cells_that_fit(machines, Request(1, 1)) == 2
    assert cells_that_fit(machines, Request(2, 1)) == 1
    assert cells_that_fit(machines, Request(0.5, 1)) == 4
    assert cells_that_fit(machines, Request(0.4, 1)) == 4  # a share lies on one GPU
    assert cells_that_fit(machines, Request(0.5, 2)) == 2
    assert cells_that_fit(machines, Request(3, 1)) == 0
    assert cells_that_fit([], Request(0, 1)) == 0


def test_shares_grow_with_predicted_memory() -> None:
    assert share_of_gpu(0.25, 10 * GIB, 80 * GIB) == 0.25
    assert share_of_gpu(0.25, 30 * GIB, 80 * GIB) == 0.45
    assert share_of_gpu(0.25, 300 * GIB, 80 * GIB) == 1.0
    assert share_of_gpu(2, 10 * GIB, 80 * GIB) == 2
    assert share_of_gpu(0.25, 300 * GIB, 0) == 0.25  # not known how large it is


def test_host_memory_can_be_had() -> None:
    assert host_memory(1 * GIB, [{"memory": 8 * GIB}]) == 1.5 * GIB
    assert host_memory(100 * GIB, [{"memory": 8 * GIB}, {"memory": 10 * GIB}]) == 9 * GIB


def test_threads_are_shared_out() -> None:
    assert default_threads([{"CPU": 64}], 0) == 1
    assert default_threads([{"CPU": 64, "GPU": 8}, {"CPU": 16, "GPU": 4}], 1) == 4
    assert default_threads([{"CPU": 64, "GPU": 8}], 0.25) == 2
    assert default_threads([{"CPU": 256, "GPU": 8}], 1) == 8


def test_differing_versions_are_named() -> None:
    here = software.describe()
    assert software.difference(here, here) is None
    other = {**here, "jax": "0.1.2", "machine": "elsewhere"}
    text = software.difference(here, other)
    assert text is not None and f"JAX {here['jax']} here, 0.1.2 on elsewhere" in text
    changed = {**here, "source": "000000000000", "machine": "elsewhere"}
    text = software.difference(here, changed)
    assert text is not None and here["source"] in text and "000000000000" in text
    assert "narkit" in (software.difference(here, {**here, "narkit": "none"}) or "")


def test_a_storage_is_tried(tmp_path: Path) -> None:
    assert "storage_error" not in software.describe(str(tmp_path / "new"))
    (tmp_path / "file").write_text("")
    assert "storage_error" in software.describe(str(tmp_path / "file"))
    assert "storage_error" in software.describe("nosuch://place")


@pytest.fixture
def cell(tiny_cells: Callable[..., list[Cell]]) -> Cell:
    return tiny_cells()[0]


def make_run(folder: Path, *steps: int) -> Path:
    """A folder with a configuration and checkpoints."""
    for step in steps:
        (folder / "checkpoints" / f"{step:08}" / "arrays").mkdir(parents=True)
        (folder / "checkpoints" / f"{step:08}" / "arrays" / "data").write_text(f"state {step}")
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.parametrize("kind", ["path", "memory"])
def test_checkpoints_are_stored_and_found_again(kind: str, cell: Cell, tmp_path: Path) -> None:
    storage = pytest.importorskip("narkit.sweeps.executors.storage")
    url = str(tmp_path / "store") if kind == "path" else "memory://narkit-test"
    store = storage.Storage(url, cell)
    assert store.pull(tmp_path / "empty") == 0
    for step in (10, 20, 30):
        store.push(make_run(tmp_path / f"run{step}", step))
    new = tmp_path / "new"
    assert storage.Storage(url, cell).pull(new) == 30
    assert (new / "checkpoints" / "00000030" / "arrays" / "data").read_text() == "state 30"
    assert [name[:8] for name in store._names()] == ["00000030", "00000020"]
    store.forget()
    assert storage.Storage(url, cell).pull(tmp_path / "other") == 0


def test_half_a_checkpoint_is_passed_over(cell: Cell, tmp_path: Path) -> None:
    storage = pytest.importorskip("narkit.sweeps.executors.storage")
    store = storage.Storage(str(tmp_path / "store"), cell)
    store.push(make_run(tmp_path / "run10", 10))
    store.push(make_run(tmp_path / "run20", 20))
    latest = max((tmp_path / "store").rglob("*.tar"))
    latest.write_bytes(latest.read_bytes()[:100])
    assert storage.Storage(str(tmp_path / "store"), cell).pull(tmp_path / "new") == 10


def test_a_full_storage_is_an_error(cell: Cell, tmp_path: Path) -> None:
    storage = pytest.importorskip("narkit.sweeps.executors.storage")
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointWriteError, match="checkpoint of step 10 could not be written"):
        storage.Storage(str(tmp_path / "file"), cell).push(make_run(tmp_path / "run", 10))


def test_other_configurations_are_stored_elsewhere(tiny_cells: Callable[..., list[Cell]], tmp_path: Path) -> None:
    storage = pytest.importorskip("narkit.sweeps.executors.storage")
    first, second = tiny_cells()[0], tiny_cells(steps=14)[0]
    storage.Storage(str(tmp_path / "store"), first).push(make_run(tmp_path / "run", 10))
    assert storage.Storage(str(tmp_path / "store"), second).pull(tmp_path / "new") == 0


def test_user_files_are_sent_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    (folder / "shipped_package").mkdir(parents=True)
    (folder / "shipped_package" / "__init__.py").write_text(
        "from shipped_package import inner\nimport shipped_helper\n"
    )
    (folder / "shipped_package" / "inner.py").write_text("VALUE = 1\n")
    (folder / "shipped_helper.py").write_text("")
    (folder / "unrelated.py").write_text("")
    monkeypatch.syspath_prepend(str(folder))
    __import__("shipped_package")
    code = ShippedCode.of(UserCode((), ("shipped_package",), {}))
    assert set(code.files) == {"shipped_package/__init__.py", "shipped_package/inner.py", "shipped_helper.py"}
    assert ShippedCode.of(UserCode((), ("numpy", "json"), {})).files == {}
    script = (
        "import pickle, sys; code = pickle.load(sys.stdin.buffer); code.install(); code.install(); "
        "import shipped_package; print(shipped_package.inner.VALUE)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=__import__("pickle").dumps(code), capture_output=True, check=True
    )
    assert done.stdout.strip() == b"1"


def test_files_from_elsewhere_are_kept(cell: Cell, tmp_path: Path) -> None:
    directory = SweepDirectory(tmp_path)
    directory.keep(cell, b"record", b"weights")
    assert directory.record(cell).read_bytes() == b"record"
    assert directory.weights(cell).read_bytes() == b"weights"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "slurm"], "expected ray"),
        (["--storage", "x"], "only with --on ray"),
        (["--address", "auto"], "only with --on ray"),
        (["--on", "ray", "--processes", "2"], "no effect beside --on ray"),
        (["--on", "ray", "--compile-ahead"], "no effect beside --on ray"),
    ],
)
def test_options_that_do_not_fit(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["sweep", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_without_ray_it_says_what_to_install(
    tiny_arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "narkit.sweeps.executors.ray", raising=False)
    result = CliRunner().invoke(app, [*tiny_arguments, "--out", str(tmp_path), "--on", "ray"])
    assert result.exit_code == 2
    assert "pip install 'narkit[ray]'" in " ".join(result.output.replace("│", " ").split())


def test_ray_is_not_imported_without_need() -> None:
    script = (
        "import sys, narkit.cli.sweep, narkit.sweeps.sweep, narkit.sweeps.executors.here, "
        "narkit.sweeps.executors.processes; assert 'ray' not in sys.modules and 'fsspec.core' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
