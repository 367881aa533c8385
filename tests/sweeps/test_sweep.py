"""Sweeps: the grid, what is skipped, resumed and retried, and budgets."""

import contextlib
import dataclasses
import io
import os
import resource
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import narkit
import narkit.sweeps.cell_run as cell_run
from narkit.cli import app
from narkit.cli.sweep import parse_budget
from narkit.cli.sweep_display import SweepDisplay
from narkit.sweeps.cell_run import best_seed
from narkit.sweeps.cells import Cell, State, SweepDirectory, SweepError, make_cells
from narkit.sweeps.costs import Cost
from narkit.sweeps.executor import CellProgress, SweepObserver, SweepOptions
from narkit.sweeps.executors import here
from narkit.sweeps.plan import Predictor
from narkit.sweeps.sweep import Outcome, run_sweep
from narkit.sweeps.systems import find_system
from narkit.training.interruption import Interruption
from narkit.training.record import RunRecord
from narkit.training.trainer import COMPILING

TinyCells = Callable[..., list[Cell]]
pytestmark = pytest.mark.usefixtures("program_cache")


@pytest.fixture(autouse=True)
def _every_step_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_run, "BETWEEN_STEPS", 0.0)


class Log(SweepObserver):
    """Notes what happens."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def cell_begins(self, cell: Cell, step: int, predicted: float | None) -> None:
        self.events.append(f"{cell.name} from {step}")

    def cell_finished(self, cell: Cell, record: RunRecord, took: float) -> None:
        self.events.append(f"{cell.name} finished")

    def cell_failed(self, cell: Cell, error: str) -> None:
        self.events.append(f"{cell.name} failed: {error}")

    def cell_stopped(self, cell: Cell, message: str) -> None:
        self.events.append(f"{cell.name} stopped")

    def cell_not_started(self, cell: Cell, missing: float) -> None:
        self.events.append(f"{cell.name} not started")


class FailAt(Log):
    """Fails a cell at a step, once the next one is compiled if that is being done."""

    def __init__(self, algorithm: str, step: int):
        super().__init__()
        self._at = (algorithm, step)

    def cell_progress(self, cell: Cell, progress: CellProgress) -> None:
        if (cell.algorithm, progress.step) == self._at:
            for thread in threading.enumerate():
                if thread.name == f"{COMPILING}-mpnn/bfs":
                    thread.join()
            raise RuntimeError("out of memory")


def run(cells: list[Cell], folder: Path, observer: SweepObserver | None = None, **options) -> Outcome:
    given = SweepOptions(**{"save_every": 0.0, "threads": 1, **options})
    return run_sweep(cells, SweepDirectory(folder), options=given, observer=observer)


@pytest.fixture
def whole(tiny_sweep: Path) -> Path:
    """The folder of a sweep that nothing happened to."""
    return tiny_sweep


def record(folder: Path, name: str) -> RunRecord:
    return RunRecord.load(folder / "mpnn" / f"{name}.json")


def test_cells_come_shortest_first() -> None:
    cells = make_cells("paper", ["team", "triplet_gmpnn"], sorted(narkit.ALGORITHMS), 5, {"steps": 7})
    assert len(cells) == 60
    assert [cell.system.name for cell in cells] == ["team"] * 30 + ["triplet_gmpnn"] * 30
    assert cells[0].name == "team/binary_search"
    assert cells[29].name == "team/jarvis_march"
    assert {cell.config.steps for cell in cells} == {7}
    assert {cell.config.seeds for cell in cells} == {(0, 1, 2, 3, 4)}


def test_a_cell_leaves_its_record_and_its_weights(whole: Path) -> None:
    assert sorted(str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file()) == [
        "mpnn/bfs.json", "mpnn/bfs.safetensors", "mpnn/minimum.json", "mpnn/minimum.safetensors",
    ]  # fmt: skip
    bfs = record(whole, "bfs")
    assert bfs.preset == "quick"
    assert bfs.weights is not None
    assert (bfs.weights.rule, bfs.weights.dtype) == ("id", "bfloat16")
    assert bfs.weights.seed == best_seed(bfs, "id")
    reasoner = bfs.reasoner("id", bfs.weights.seed)
    assert reasoner.hidden_size == 8
    with pytest.raises(ValueError, match=r"only the weights of seed \d under rule 'id' were kept"):
        bfs.reasoner("last", bfs.weights.seed)


def test_the_best_seed_is_chosen_by_validation(whole: Path) -> None:
    bfs = record(whole, "bfs")
    for scores, losses, expected in (([0.5, 0.7], [1.0, 9.0], 1), ([0.7, 0.7], [2.0, 1.0], 1), ([0.7, 0.7], [1, 1], 0)):
        point = dataclasses.replace(bfs.curve[-1], losses={"id": losses})
        chosen = dataclasses.replace(bfs.selected["id"], steps=[12, 12], scores=scores)
        changed = dataclasses.replace(bfs, curve=[*bfs.curve[:-1], point], selected=bfs.selected | {"id": chosen})
        assert best_seed(changed, "id") == expected


def test_finished_cells_are_skipped(whole: Path, tiny_cells: TinyCells) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    log = Log()
    assert run(tiny_cells(), whole, log) == Outcome()
    assert log.events == []
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_compiling_ahead_ends_whatever_it_raises(
    error: type[BaseException], tiny_cells: TinyCells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise error("broken")

    monkeypatch.setattr(here, "Trainer", broken)
    (cell,) = tiny_cells(algorithms=("bfs",))
    claim = SweepDirectory(tmp_path).claim(cell)
    assert claim is not None
    ahead = here._CompiledAhead(cell, claim, threads=1, devices=1)
    with pytest.raises(error, match="broken"):
        ahead.trainer(Interruption(60.0))  # when it would give up
    claim.release()


def test_another_configuration_is_refused(whole: Path, tiny_cells: TinyCells) -> None:
    with pytest.raises(SweepError, match=r"mpnn/bfs with another configuration: steps \(12 there, 13 now\)\. Give"):
        run(tiny_cells(algorithms=("bfs",), steps=13), whole)


def test_a_failed_cell_is_reported_and_retried_on_request(whole: Path, tiny_cells: TinyCells, tmp_path: Path) -> None:
    """Compiled ahead, too, the records are those of the sweep that nothing happened to."""
    log, directory = FailAt("minimum", 7), SweepDirectory(tmp_path)
    minimum, bfs = cells = tiny_cells()
    outcome = run(cells, tmp_path, log, compile_ahead=True)
    assert [cell.name for cell in outcome.failed] == ["mpnn/minimum"]
    assert log.events == [
        "mpnn/minimum from 0",
        "mpnn/minimum failed: RuntimeError: out of memory",
        "mpnn/bfs from 0",
        "mpnn/bfs finished",
    ]
    assert directory.state(minimum) is State.FAILED
    assert "RuntimeError: out of memory" in (directory.failure(minimum) or "")
    assert record(tmp_path, "bfs").result() == record(whole, "bfs").result()
    timings = record(tmp_path, "bfs").timings
    assert timings.compiling_ahead > timings.compiling

    assert run(cells, tmp_path).finished == []
    log = Log()
    run(cells, tmp_path, log, retry_failed=True)
    assert log.events == ["mpnn/minimum from 6", "mpnn/minimum finished"]
    assert record(tmp_path, "minimum").result() == record(whole, "minimum").result()
    assert not (tmp_path / ".running").exists()
    assert directory.state(bfs) is State.FINISHED


@pytest.mark.usefixtures("kept_programs")
def test_a_budget_ends_with_everything_saved(
    whole: Path, tiny_cells: TinyCells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Interruption(1000.0)

    class Slow(Log):
        def cell_progress(self, cell: Cell, progress: CellProgress) -> None:
            if progress.step == 5:
                asked.deadline = 0.0  # as if the step had taken long

    monkeypatch.setattr(cell_run, "interruption", lambda seconds: contextlib.nullcontext(asked))
    log, directory, cells = Slow(), SweepDirectory(tmp_path), tiny_cells(algorithms=("bfs",))
    outcome = run(cells, tmp_path, log, budget=1000.0)
    monkeypatch.undo()
    assert outcome.out_of_time
    assert log.events == ["mpnn/bfs from 0", "mpnn/bfs stopped"]
    assert directory.state(cells[0]) is State.INTERRUPTED
    assert directory.step(cells[0]) == 5
    log = Log()
    run(cells, tmp_path, log, budget=1000.0, whole_cells=True)
    assert log.events == ["mpnn/bfs from 5", "mpnn/bfs finished"]
    assert record(tmp_path, "bfs").result() == record(whole, "bfs").result()


def test_no_cell_is_begun_that_does_not_fit(whole: Path, tiny_cells: TinyCells, tmp_path: Path) -> None:
    """A finished cell tells how long others take; without one nothing is known, and a cell is begun."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("bfs.*"))
    log, done = Log(), tiny_cells(algorithms=("minimum",))
    outcome = run(
        [*done, *tiny_cells(("mpnn",), ("bfs", "dfs"), steps=10**7)], tmp_path, log, budget=60.0, whole_cells=True
    )
    assert log.events == ["mpnn/bfs not started", "mpnn/dfs not started"]
    assert len(outcome.not_started) == 2
    assert len(list(tmp_path.rglob("*.json"))) == 1


@pytest.mark.usefixtures("kept_programs")
def test_a_full_disk_at_the_last_moment(
    whole: Path, tiny_cells: TinyCells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for checkpoints, but not for the weights."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    real = cell_run.save

    def save_on_a_full_disk(*arguments, **options) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        real(*arguments, **options)

    monkeypatch.setattr(cell_run, "save", save_on_a_full_disk)
    cells = tiny_cells(algorithms=("bfs",))
    try:
        with pytest.raises(OSError, match="File too large"):
            run(cells, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.glob("mpnn/*")) == []
    monkeypatch.undo()
    run(cells, tmp_path)
    assert record(tmp_path, "bfs").result() == record(whole, "bfs").result()


def test_what_a_killed_process_left_is_removed(whole: Path, tiny_cells: TinyCells, tmp_path: Path) -> None:
    """Killed after the record was written, before the folder of the run was gone."""
    folder = tmp_path / "sweep"
    shutil.copytree(whole, folder)
    left_over = folder / ".running" / "mpnn-bfs" / "checkpoints"
    left_over.mkdir(parents=True)
    run(tiny_cells(), folder)
    assert not (folder / ".running").exists()


def test_a_claim_excludes_others(tiny_cells: TinyCells, tmp_path: Path) -> None:
    directory, (cell, _) = SweepDirectory(tmp_path), tiny_cells()
    claim = directory.claim(cell)
    assert claim is not None
    assert SweepDirectory(tmp_path).claim(cell) is None
    assert directory.state(cell) is State.RUNNING
    log = Log()
    run([cell], tmp_path, log)
    assert log.events == []
    claim.release()
    again = directory.claim(cell)
    assert again is not None
    parts = [tmp_path / "mpnn" / name for name in (".minimum.safetensors.a1.part", ".bfs.safetensors.a2.part")]
    parts[0].parent.mkdir()
    for part in parts:
        part.touch()
    again.finish()
    assert directory.state(cell) is State.LEFT
    assert [part.exists() for part in parts] == [False, True]  # what a killed process left of this cell is gone


# Records.


def follows_preset(record: RunRecord, preset: str) -> str | None:
    return find_system(record.config.processor, preset).why_not(record)


def test_only_the_presets_configuration_follows_it(make_record: Callable[..., RunRecord], whole: Path) -> None:
    assert follows_preset(make_record("bfs"), "paper") is None
    assert follows_preset(make_record("bfs", system="mpnn"), "paper") is None
    assert "steps is 2000, not 10000" in (follows_preset(make_record("bfs", steps=2000), "paper") or "")
    assert follows_preset(make_record("bfs", seeds=(0, 1, 2)), "paper") == "expected 5 seeds, got 3"
    assert "hidden_size is 8, not 32" in (follows_preset(record(whole, "bfs"), "quick") or "")
    stopped = dataclasses.replace(make_record("bfs"), steps=400)
    assert follows_preset(stopped, "paper") == "expected 10000 steps, got 400"


# The command.


def command(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160", "NO_COLOR": "1"}, terminal_width=160)


def test_status_and_plan(whole: Path, tiny_arguments: list[str], tmp_path: Path) -> None:
    result = command(*tiny_arguments, "--out", str(whole), "--status")
    assert result.exit_code == 0, result.output
    assert "mpnn/bfs                                     finished     12 steps, not tested" in result.output
    result = command(*tiny_arguments, "--out", str(tmp_path / "new"), "--plan")
    assert result.exit_code == 0, result.output
    assert "2 of 2 cells left" in result.output
    assert "4 compilations" in result.output
    assert "time not predicted" in result.output and "Costs: mpnn: not measured on this device. Device" in result.output
    assert result.output.rstrip().endswith("Memory with ~ is a rough guess.")
    assert not (tmp_path / "new").exists()


def test_the_command_goes_on(whole: Path, tiny_arguments: list[str]) -> None:
    result = command(*tiny_arguments, "--out", str(whole))
    assert result.exit_code == 0, result.output
    assert "all cells are finished" in result.output


def test_records_stay_small(make_record: Callable[..., RunRecord], tmp_path: Path) -> None:
    """A hundred and twenty of them come home in one small archive."""
    made = make_record("bfs", validate_every=50)
    made.save(tmp_path / "bfs.json")
    assert (tmp_path / "bfs.json").stat().st_size < 200_000
    assert RunRecord.load(tmp_path / "bfs.json") == made


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--systems", "taem"], "no system is named 'taem'; did you mean 'team'?"),
        (["--systems", "team,team"], "systems: expected one or more different ones, got team, team"),
        (["--systems", ","], "systems: expected one or more different ones, got none"),
        (["--preset", "papr"], "did you mean 'paper'?"),
        (["--algorithms", "bfs,dijkstr"], "did you mean 'dijkstra'?"),
        (["--algorithms", "bfs,bfs"], "algorithms: expected one or more different ones"),
        (["--seeds", "0"], "--seeds"),
        (["--steps", "0"], "steps: expected at least 1, got 0"),
        (["--set", "stps=3"], "did you mean 'steps'?"),
        (["--set", "seeds=[1]"], "use --algorithms, --systems and --seeds"),
        (["--whole-cells"], "expected --budget TIME with it"),
        (["--budget", "0m"], "expected more than no time, got '0m'"),
        (["--budget", "-9m"], "expected a time such as 9m, 90s or 1h30m, got '-9m'"),
        (["--budget", "9"], "expected a time such as 9m, 90s or 1h30m, got '9'"),
        (["--plan", "--status"], "expected --plan or --status, got both"),
        (["--weights", "team", "--no-weights"], "expected --weights or --no-weights, got both"),
        (["--weights", "tem"], "no system of this sweep is named 'tem'; did you mean 'team'?"),
        (["--bugdet", "9m"], "--budget"),
        (["--out", "file"], "expected a folder, or none yet, got a file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_explained(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    result = command("sweep", *arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert expected in " ".join(result.output.replace("│", " ").split())
    assert os.listdir() == ["file"]


def test_budgets_are_read() -> None:
    assert [parse_budget(text) for text in ("9m", "90s", "1h30m", "1.5m", None)] == [540, 90, 5400, 90, None]


def test_live_table_and_no_weights(whole: Path, tiny_cells: TinyCells, tmp_path: Path) -> None:
    """On a terminal a table is kept up to date; a finished cell tells how long the others take."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("bfs.*"))
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    cells = tiny_cells()
    with SweepDisplay(console, cells, SweepDirectory(tmp_path)) as display:
        run(cells, tmp_path, display, weights=frozenset())
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    for expected in ("interrupted", "time left about", "compiling", "mpnn/bfs done in 0:00:"):
        assert expected in printed
    files = sorted(path.name for path in (tmp_path / "mpnn").iterdir())
    assert files == ["bfs.json", "minimum.json", "minimum.safetensors"]
    assert record(tmp_path, "bfs").weights is None


def test_predictions_follow_what_was_measured(tiny_sweep: Path, tiny_cells: TinyCells) -> None:
    cells = tiny_cells()
    plain = Predictor({"team": Cost(5.0, 0.1)}, "cpu", 5.0, "none")
    informed = Predictor.from_records(SweepDirectory(tiny_sweep), cells)
    timings = [RunRecord.load(SweepDirectory(tiny_sweep).record(cell)).timings for cell in cells]
    assert len(informed.learned) == 2
    for phase in ("training", "validating"):
        low, high = sorted(getattr(t, phase) for t in timings)
        assert 0.3 * low <= getattr(informed.predict(cells[0]), phase) <= 3 * high
    half = plain.predict(cells[0], step=6)
    assert half.training == pytest.approx(plain.predict(cells[0]).training / 2)
    assert plain.predict(cells[0]).programs == 2
