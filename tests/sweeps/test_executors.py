"""Several cells at a time: what happens to the others, and to the cell, when a process fails."""

import io
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from narkit.cli import app
from narkit.sweeps.cell_run import progress_of
from narkit.sweeps.cells import Cell, State, SweepDirectory
from narkit.sweeps.checks import check_file
from narkit.sweeps.executor import CellOutcome, CellProgress, Ended, Failure, SweepObserver, SweepOptions, kind_of
from narkit.sweeps.executors import worker
from narkit.sweeps.executors.processes import ENDED, MEMORY_VARIABLES, Processes
from narkit.sweeps.sweep import Outcome, run_sweep

TinyCells = Callable[..., list[Cell]]

OUT_OF_MEMORY = "JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 14.19GiB"
GRAPH_OUT_OF_MEMORY = (
    "RESOURCE_EXHAUSTED: ... Failed to instantiate CUDA graph: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
)
LOST = "JaxRuntimeError: INTERNAL: CUDA error: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"

# Stands in for the process of a cell: does at its first, second, ... try what the scenario says, and notes it. It reads
# what it is told without importing narkit, which takes longer than all else, leaves the files that
# `SweepDirectory` describes, and says at last what it was given to say.
PROCESS = """
import json, os, pickle, sys, time
class Told:
    def __init__(self, *values):
        pass
class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return Told if module.split(".")[0] == "narkit" else super().find_class(module, name)
_, order = Unpickler(sys.stdin.buffer).load(), Unpickler(sys.stdin.buffer).load()
scenario, folder, algorithm = json.loads(sys.argv[1]), order.directory.folder, order.cell.config.algorithms[0]
system, failures, said = sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
record, failure = folder / system / f"{algorithm}.json", folder / ".running" / f"{system}-{algorithm}.failed"
log = folder / "log"
number = log.read_text().count(f"begin {algorithm} ") if log.exists() else 0
def note(text):
    with log.open("a") as file:
        file.write(text + chr(10))
note(f"begin {algorithm} {os.environ.get('XLA_PYTHON_CLIENT_MEM_FRACTION', 'all')}")
what, _, seconds = scenario[algorithm][number].partition(" for ")
time.sleep(float(seconds or 0))
note(f"end {algorithm} {what}")
if what == "crash":
    os.kill(os.getpid(), 9)
failure.unlink(missing_ok=True)
if what == "finished":
    record.parent.mkdir(exist_ok=True)
    record.write_text("{}")
elif what in failures:
    failure.parent.mkdir(exist_ok=True)
    failure.write_text(failures[what])
os.write(order.events, bytes.fromhex(said[algorithm][what]))
"""
FAILURES = {"memory": OUT_OF_MEMORY, "lost": LOST}


def endings(cell: Cell) -> dict[str, str]:
    """What the process of a cell says at last, by what has happened."""
    ended = {what: Ended(cell, CellOutcome.FAILED, error, kind_of(error)) for what, error in FAILURES.items()}
    ended |= {
        "finished": Ended(cell, CellOutcome.FINISHED),
        "disk": Ended(cell, CellOutcome.CANNOT_GO_ON, "No space left on device"),
    }
    return {what: pickle.dumps((ENDED, (each,))).hex() for what, each in ended.items()}


class Log(SweepObserver):
    """Notes what is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def remark(self, text: str) -> None:
        self.told.append(text)

    def cell_failed(self, cell: Cell, error: str) -> None:
        self.told.append(f"{cell.name} FAILED: {error}")


def test_kinds_of_failures() -> None:
    assert kind_of(OUT_OF_MEMORY) is kind_of(GRAPH_OUT_OF_MEMORY) is Failure.MEMORY
    assert kind_of("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1 TiB") is Failure.MEMORY
    assert kind_of(LOST) is Failure.DEVICE
    assert kind_of("ValueError: expected a number") is Failure.OTHER


def play(
    tiny_cells: TinyCells, folder: Path, scenario: dict[str, list[str]], **options
) -> tuple[Outcome, list[str], list[str]]:
    """Two processes at a time. Returns the outcome, what happened in which order, and what was told."""
    log, cells = Log(), tiny_cells(algorithms=tuple(scenario))
    (system,) = {cell.system.training for cell in cells}
    said = {cell.algorithm: endings(cell) for cell in cells}
    command = (sys.executable, "-c", PROCESS, json.dumps(scenario), system, json.dumps(FAILURES), json.dumps(said))
    outcome = run_sweep(
        cells,
        SweepDirectory(folder),
        options=SweepOptions(**options),
        observer=log,
        executor=Processes(2, command),
    )
    return outcome, (folder / "log").read_text().splitlines(), log.told


def names(cells: list[Cell]) -> list[str]:
    return [cell.algorithm for cell in cells]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a user who has set no share of the memory."""
    for name in MEMORY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))


def test_progress_leaves_out_seeds_that_have_diverged() -> None:
    progress = SimpleNamespace(step=3, curve=[SimpleNamespace(scores={"id": [0.5, 0.1, 0.9]})])
    trainer: Any = SimpleNamespace(
        progress=progress, config=SimpleNamespace(steps=9), latest_loss=np.array([1, np.nan, 2])
    )
    assert progress_of(trainer, "training") == CellProgress("training", 3, 9, 1.5, {"id": 0.7})
    trainer.latest_loss = np.full(3, np.nan)
    assert progress_of(trainer, "training") == CellProgress("training", 3, 9)


def test_out_of_memory_beside_others_is_tried_alone_at_the_end(tiny_cells: TinyCells, tmp_path: Path) -> None:
    scenario = {"bfs": ["memory", "finished"], "minimum": ["finished for 1"], "dfs": ["finished"]}
    outcome, log, told = play(tiny_cells, tmp_path, scenario)
    assert log[-2:] == ["begin bfs all", "end bfs finished"]
    assert sorted(log[:-2]) == sorted(
        ["begin bfs 0.440", "end bfs memory", "begin minimum 0.440", "end minimum finished", "begin dfs 0.440",
         "end dfs finished"]
    )  # fmt: skip
    assert "mpnn/bfs is run once more by itself, after all others" in told
    assert sorted(names(outcome.finished)) == ["bfs", "dfs", "minimum"]
    assert outcome.failed == []


def test_a_lost_device_is_left_by_all_before_cells_go_on(tiny_cells: TinyCells, tmp_path: Path) -> None:
    scenario = {"dfs": ["lost", "finished"], "minimum": ["lost for 1", "finished"], "bfs": ["finished"]}
    outcome, log, told = play(tiny_cells, tmp_path, scenario)
    assert sorted(log[:4]) == ["begin dfs 0.440", "begin minimum 0.440", "end dfs lost", "end minimum lost"]
    assert sorted(names(outcome.finished)) == ["bfs", "dfs", "minimum"]
    assert "mpnn/dfs is run again when the cells beside it have ended" in told


def test_crashes_are_failures_after_three_tries(tiny_cells: TinyCells, tmp_path: Path) -> None:
    outcome, log, told = play(tiny_cells, tmp_path, {"bfs": ["crash"] * 3})
    assert log == ["begin bfs 0.440", "end bfs crash"] * 3
    assert names(outcome.failed) == ["bfs"]
    assert "mpnn/bfs FAILED: its process ended with signal SIGKILL" in told
    directory = SweepDirectory(tmp_path)
    assert directory.failure(outcome.failed[0]) == "its process ended with signal SIGKILL"


def test_a_failure_from_before_is_not_that_of_a_crash(tiny_cells: TinyCells, tmp_path: Path) -> None:
    SweepDirectory(tmp_path).fail(tiny_cells(algorithms=("bfs",))[0], "ValueError: no")
    outcome, log, _ = play(tiny_cells, tmp_path, {"bfs": ["crash", "finished"]}, retry_failed=True)
    assert names(outcome.finished) == ["bfs"] and outcome.failed == []
    assert log[1::2] == ["end bfs crash", "end bfs finished"]


def test_a_full_disk_ends_all(tiny_cells: TinyCells, tmp_path: Path) -> None:
    scenario = {"dfs": ["disk"], "minimum": ["finished for 60"], "bfs": ["finished"]}
    outcome, log, told = play(tiny_cells, tmp_path, scenario)
    assert outcome.cannot_go_on
    assert "Error: No space left on device" in told
    assert outcome.failed == []
    assert not any("bfs" in line or line == "end minimum finished" for line in log)


def test_failed_cells_are_left_unless_asked_for(tiny_cells: TinyCells, tmp_path: Path) -> None:
    directory, cells = SweepDirectory(tmp_path), tiny_cells(algorithms=("bfs",))
    (tmp_path / "log").write_text("")
    directory.fail(cells[0], "ValueError: no")
    assert play(tiny_cells, tmp_path, {"bfs": ["finished"]})[1] == []
    assert names(play(tiny_cells, tmp_path, {"bfs": ["finished"]}, retry_failed=True)[0].finished) == ["bfs"]


def test_what_ran_elsewhere_is_kept_as_if_it_had_run_here(
    tiny_sweep: Path, tiny_cells: TinyCells, tmp_path: Path
) -> None:
    home = SweepDirectory(tmp_path)
    for cell in tiny_cells():
        away = SweepDirectory(tiny_sweep)
        home.keep(cell, away.record(cell).read_bytes(), away.weights(cell).read_bytes())
        assert check_file(home.record(cell)).problems == ()
        assert home.state(cell) is State.FINISHED


@pytest.mark.parametrize("said", [b"", pickle.dumps(["a", "part"])[:-3]])
def test_a_process_that_was_not_told_what_to_do_ends_without_a_word(
    said: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(said)))
    with pytest.raises(SystemExit) as raised:
        worker.main()
    assert raised.value.code == 1 and capfd.readouterr() == ("", "")


def test_a_process_whose_sweep_was_killed_goes_on(tiny_cells: TinyCells) -> None:
    """Nobody reads what it says, neither while it works nor when it ends."""
    reading, writing = os.pipe()
    os.close(reading)
    with worker.telling(writing) as observer:
        observer.cell_begins(tiny_cells()[0], 0, None)


def test_shares_that_the_user_has_set_stay(
    tiny_cells: TinyCells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.2")
    assert play(tiny_cells, tmp_path, {"bfs": ["finished"]})[1][0] == "begin bfs 0.2"


def test_the_process_that_watches_leaves_the_device_alone(
    tiny_cells: TinyCells, tiny_arguments: list[str], tmp_path: Path
) -> None:
    """A backend that it had started would hold most of a GPU's memory."""
    for cell in tiny_cells():
        SweepDirectory(tmp_path).fail(cell, "ValueError: no")
    code = """
import sys
from typer.testing import CliRunner
from narkit.cli import app
result = CliRunner().invoke(app, sys.argv[1:])
assert "2 failed" in result.output, result.output
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
"""
    arguments = [*tiny_arguments, "--processes", "2", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("program_cache")
def test_a_sweep_that_has_lost_the_device_tries_no_other_cell(tiny_cells: TinyCells, tmp_path: Path) -> None:
    class Lose(SweepObserver):
        def cell_progress(self, cell: Cell, progress: CellProgress) -> None:
            raise RuntimeError(LOST)

    options = SweepOptions(threads=1, compile_ahead=False)
    outcome = run_sweep(tiny_cells(), SweepDirectory(tmp_path), options=options, observer=Lose())
    assert outcome.device_lost
    assert names(outcome.failed) == ["minimum"]


def test_compiling_ahead_has_no_effect_and_is_refused(tiny_arguments: list[str], tmp_path: Path) -> None:
    arguments = [*tiny_arguments, "--processes", "2", "--compile-ahead", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "has no effect beside --processes" in result.output
