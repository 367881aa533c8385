"""The display of a sweep: a live table on a terminal, a line per event elsewhere, and a summary at its end."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from narkit.cli.choices import refuse
from narkit.cli.training_display import seconds
from narkit.errors import one_line
from narkit.printing import number_table, print_line
from narkit.report.grid import measured
from narkit.report.published import published
from narkit.report.rendering import text
from narkit.sweeps.cells import Cell, State, SweepDirectory, SweepError
from narkit.sweeps.executor import CellProgress, Executor, SweepObserver, SweepOptions
from narkit.sweeps.lengths import mean_training_steps
from narkit.sweeps.plan import Predictor
from narkit.sweeps.sweep import Outcome, run_sweep
from narkit.sweeps.systems import main_rule, sharing
from narkit.training.checkpoint import CheckpointError
from narkit.training.record import RunRecord
from narkit.training.run_directory import RunDirectoryError
from narkit.training.trainer import COMPILING

PLAN = "{:44} {:>15} {:>8}" + " {:>8}" * 6  # a line of the plan
UNFINISHED = (State.LEFT, State.INTERRUPTED, State.RUNNING)
BETWEEN_PREDICTIONS = 5.0  # seconds, at least, between two looks at what is left of a large grid
EVERY = 30.0  # seconds between two lines about a cell that goes on


@dataclass
class _Running:
    """A cell that runs, as the table shows it."""

    began: float
    printed_at: float
    progress: CellProgress | None = None
    entered: float = 0.0  # its phase
    first_step: int = 0


class SweepDisplay(SweepObserver):
    """Shows cells that are done, running and left, with step, scores and time left. Use it in a `with` statement.

    Lines are flushed one by one, so that a log which is read from a pipe is up to date. Without `predicts` it leaves
    the device alone and does not say how long the rest will take.
    """

    def __init__(self, console: Console, cells: Sequence[Cell], directory: SweepDirectory, predicts: bool = True):
        self.console, self.cells, self.directory = console, cells, directory
        self._predictor = Predictor.from_records(directory, cells) if predicts else None
        self._running: dict[str, _Running] = {}
        self._left: dict[str, float] = {}  # predicted seconds of cells that are not finished
        self._states: dict[str, State] = {}
        self._steps: dict[str, int] = {}
        self._predicted_at = 0.0
        for cell in cells:
            self._look_at(cell)
        self._predict()
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=2, transient=True)
        self._is_live = console.is_terminal

    def __enter__(self) -> SweepDisplay:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_live:
            self._live.stop()

    def say(self, text: str, style: str | None = None) -> None:
        """Prints a line at once, with the time where no terminal shows it."""
        stamp = "" if self.console.is_terminal else time.strftime("%H:%M:%S ")
        print_line(self.console, f"{stamp}{text}", style)
        self.console.file.flush()

    def cell_begins(self, cell: Cell, step: int, predicted: float | None) -> None:
        now = time.monotonic()
        self._running[cell.name] = _Running(now, now)
        self._look_at(cell)
        done = sum(state is State.FINISHED for state in self._states.values())
        where = f"goes on from step {step}" if step else "begins"
        expected = "" if predicted is None else f"; predicted {seconds(predicted)}"
        self.say(f"{cell.name} {where} ({done} of {len(self.cells)} done{expected})")

    def cell_progress(self, cell: Cell, progress: CellProgress) -> None:
        now = time.monotonic()
        running = self._running.setdefault(cell.name, _Running(now, now))
        enters = running.progress is None or running.progress.phase != progress.phase
        running.progress = progress
        if enters:
            running.entered = running.printed_at = now
            running.first_step = progress.step
        if not self._is_live and enters:
            self.say(f"{cell.name} {progress.phase}")
        elif not self._is_live and now - running.printed_at >= EVERY:
            running.printed_at = now
            self.say(f"{cell.name} {_state(running)}")

    def cell_finished(self, cell: Cell, record: RunRecord, took: float) -> None:
        if self._predictor is not None:
            self._predictor.learn(record)
        self._end(cell, f"{cell.name} done in {seconds(took)}: {result(record)}")

    def cell_failed(self, cell: Cell, error: str) -> None:
        first = error.splitlines()[0] if error else "no message"
        self._end(cell, f"{cell.name} FAILED: {first}", "red")

    def cell_stopped(self, cell: Cell, message: str) -> None:
        self._end(cell, f"{cell.name} {message}")

    def cell_not_started(self, cell: Cell, missing: float) -> None:
        self.say(f"{cell.name} not started: the budget is about {seconds(missing)} too short for it")

    def remark(self, text: str) -> None:
        self.say(text, "red" if text.startswith("Error") else None)

    def _end(self, cell: Cell, text: str, style: str | None = None) -> None:
        self._running.pop(cell.name, None)
        self._look_at(cell)
        if time.monotonic() - self._predicted_at >= BETWEEN_PREDICTIONS:
            self._predict()
        self.say(text, style)

    def _look_at(self, cell: Cell) -> None:
        """Notes where a cell stands, and what is left of it."""
        state = self._states[cell.name] = self.directory.state(cell)
        self._steps[cell.name] = self.directory.step(cell)
        if state not in UNFINISHED:
            self._left.pop(cell.name, None)

    def _predict(self) -> None:
        """Predicts the cells that are left; finished ones may have taught something."""
        self._predicted_at = time.monotonic()
        if self._predictor is not None and self._predictor.is_known:
            left = [cell for cell in self.cells if self._states[cell.name] in UNFINISHED]
            self._left = {cell.name: self._predictor.predict(cell, self._steps[cell.name]).seconds for cell in left}

    def _table(self) -> Group:
        lines: list[Table | Text] = [state_table(self.cells, [self._states[cell.name] for cell in self.cells])]
        lines += [Text(f"{name}  {_state(running)}") for name, running in self._running.items()]
        if self._left:
            elapsed = sum(time.monotonic() - running.began for running in self._running.values())
            lines.append(Text(f"time left about {seconds(max(0.0, sum(self._left.values()) - elapsed))}"))
        return Group(*lines)


def _state(running: _Running) -> str:
    """Formats the phase of a cell; in training the step, the loss and the scores, as means over seeds."""
    progress = running.progress
    if progress is None:
        return "starting"
    if progress.phase != "training":
        return progress.phase
    parts = [f"step {progress.step}/{progress.steps}"]
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.3f}")
    parts += [f"{name} {100 * score:.1f} %" for name, score in progress.scores.items()]
    rate = (progress.step - running.first_step) / max(time.monotonic() - running.entered, 1e-9)
    if rate:
        parts.append(f"{rate:.1f} steps/s, {seconds((progress.steps - progress.step) / rate)} left")
    return "  ".join(parts)


def state_table(cells: Sequence[Cell], states: Sequence[State]) -> Table:
    """Counts the cells of each system by state."""
    counts = Counter((cell.system.name, state) for cell, state in zip(cells, states, strict=True))
    systems = dict.fromkeys(cell.system.name for cell in cells)
    rows = [[name, *(str(counts[name, state]) for state in State)] for name in systems]
    return number_table(["system", *(state.value for state in State)], rows)


def result(record: RunRecord) -> str:
    """Formats the test scores under the rules that tables go by, beside the paper's."""
    config = record.config
    if not record.test:
        return f"{record.steps} steps, not tested"
    name = config.algorithms[0]
    system = record.system or config.processor
    rules = [column.rule for column in sharing(system) if column.rule in record.rules]
    parts = []
    for rule in rules or [main_rule(config)]:
        paper = published(system, rule, name)
        beside = "" if paper is None else f", paper {paper.mean:.2f}"
        parts.append(f"{rule} {text(measured(record.test_scores(name, rule)))}{beside}")
    if record.diverged:
        parts.append(f"{len(record.diverged)} diverged")
    return f"test in %: {'; '.join(parts)}"


def print_status(console: Console, directory: SweepDirectory, cells: Sequence[Cell]) -> None:
    """Prints the state of every cell."""
    states = [directory.state(cell) for cell in cells]
    for cell, state in zip(cells, states, strict=True):
        match state:
            case State.FINISHED:
                said = result(RunRecord.load(directory.record(cell)))
            case State.RUNNING:
                said = f"saved up to step {directory.step(cell)} of {cell.config.steps}"
            case State.FAILED:
                said = (directory.failure(cell) or "").splitlines()[-1]
            case State.INTERRUPTED:
                said = f"goes on from step {directory.step(cell)} of {cell.config.steps}"
            case State.LEFT:
                said = ""
        print_line(console, f"{cell.name:44} {state.value:12} {said}".rstrip())
    console.print(state_table(cells, states))


def print_plan(console: Console, directory: SweepDirectory, cells: Sequence[Cell]) -> None:
    """Prints the cells that are left and their predicted needs."""
    predictor = Predictor.from_records(directory, cells)
    say = functools.partial(print_line, console)
    say(PLAN.format("cell", "processor steps", "programs", "compile", "train", "validate", "test", "sum", "memory"))
    left = [cell for cell in cells if directory.state(cell) is not State.FINISHED]
    predictions = [predictor.predict(cell, directory.step(cell)) for cell in left]
    for cell, needed in zip(left, predictions, strict=True):
        phases = (needed.compiling, needed.training, needed.validating, needed.testing, needed.seconds)
        steps = mean_training_steps(cell.config) * (cell.config.steps - directory.step(cell))
        memory = f"{'' if 'memory' in needed.measured else '~'}{needed.memory / 1e9:.1f} GB"
        times = map(seconds, phases) if needed.is_known else ["?"] * len(phases)
        say(PLAN.format(cell.name, f"{steps:,.0f}", str(needed.programs), *times, memory))
    programs = sum(needed.programs for needed in predictions)
    largest = max((needed.memory for needed in predictions), default=0)
    processors = dict.fromkeys(cell.config.processor for cell in left)
    costs = "; ".join(f"{processor}: {predictor.source(processor)}" for processor in processors)
    corrected = f", guesses corrected by {len(predictor.learned)} finished cells" if predictor.learned else ""
    guess = " Memory with ~ is a rough guess." if any("memory" not in n.measured for n in predictions) else ""
    time_needed = "time not predicted (the first finished cell, or bench train, tells)"
    if all(needed.is_known for needed in predictions):
        time_needed = seconds(sum(needed.seconds for needed in predictions))
    say(
        f"{len(left)} of {len(cells)} cells left: {time_needed}, {programs} compilations, up to {largest / 1e9:.1f} "
        f"GB. Costs: {costs or 'none'}{corrected}. Device: {predictor.device}.{guess}"
    )


def run(
    console: Console, directory: SweepDirectory, cells: Sequence[Cell], options: SweepOptions, executor: Executor | None
) -> NoReturn:
    """Runs the sweep with a display. Exit codes: 0, 1 after failures, 128 and more after a signal."""
    display = SweepDisplay(console, cells, directory, predicts=executor is None)
    try:
        with display:
            outcome = run_sweep(cells, directory, options=options, observer=display, executor=executor)
    except SweepError as error:
        refuse(None, str(error))
    except (CheckpointError, RunDirectoryError, OSError) as error:
        display.say(f"Error: {one_line(error) if isinstance(error, OSError) else error}", "red")
        _leave(1)
    _leave(_summary(display.say, directory, cells, outcome))


def _summary(say: Callable[..., None], directory: SweepDirectory, cells: Sequence[Cell], outcome: Outcome) -> int:
    """Says how the sweep ended and returns the exit code."""
    states = [directory.state(cell) for cell in cells]
    counts = Counter(states)
    ending = ", ".join(f"{counts[state]} {state.value}" for state in State if counts[state])
    if set(counts) == {State.FINISHED}:
        ending = "all cells are finished"
    if outcome.signal_number is not None:
        ending += "; stopped by a signal, everything is saved: the same command goes on"
    elif outcome.out_of_time:
        ending += "; the budget is spent, everything is saved: the same command goes on"
    elif outcome.not_started:
        ending += "; nothing that is left fits into the budget"
    elif outcome.device_lost:
        ending += "; the device does not answer this process any more, so nothing else was tried"
    say(f"{directory.folder}: {ending}")
    failed = [cell for cell, state in zip(cells, states, strict=True) if state is State.FAILED]
    for cell in failed:
        say(f"failed: {cell.name}: {(directory.failure(cell) or '').splitlines()[-1]}", "red")
    if failed:
        say("--retry-failed runs them again")
    if outcome.signal_number is not None:
        return 128 + outcome.signal_number
    return 1 if failed or outcome.cannot_go_on else 0


def _leave(code: int) -> NoReturn:
    """Ends the process, at once if a thread still compiles: nothing stops it, and nobody needs what it makes."""
    if any(thread.name.startswith(COMPILING) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise typer.Exit(code)
