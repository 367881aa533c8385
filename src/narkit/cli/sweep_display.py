"""How a sweep is shown: a live table on a terminal, a line per event elsewhere."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from narkit.cli.training_display import seconds
from narkit.report.grid import measured
from narkit.report.published import published
from narkit.report.rendering import text
from narkit.sweeps.cells import Cell, State, SweepDirectory
from narkit.sweeps.lengths import mean_training_steps
from narkit.sweeps.plan import Predictor
from narkit.sweeps.sweep import SweepObserver
from narkit.sweeps.systems import COLUMNS, main_rule
from narkit.training.progress import Point
from narkit.training.record import RunRecord
from narkit.training.trainer import Trainer

PLAN = "{:44} {:>15} {:>8}" + " {:>8}" * 6  # a line of the plan
EVERY = 30.0  # seconds between two lines about a cell that goes on


class SweepDisplay(SweepObserver):
    """Shows cells that are done, running and left, with step, scores and time left. Use it in a `with` statement.

    Lines are flushed one by one, so that a log which is read from a pipe is up to date.
    """

    def __init__(self, console: Console, cells: Sequence[Cell], directory: SweepDirectory):
        self.console, self.cells, self.directory = console, cells, directory
        self._predictor = Predictor.from_records(directory, cells)
        self._cell: Cell | None = None
        self._phase = ""
        self._trainer: Trainer | None = None
        self._began = self._told = self._entered = self._left = 0.0
        self._first_step = 0
        self._counts: dict[str, dict[State, int]] = {}
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=2, transient=True)
        self._is_live = console.is_terminal

    def __enter__(self) -> SweepDisplay:
        self._count()
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_live:
            self._live.stop()

    def say(self, text: str, style: str | None = None) -> None:
        print_line(self.console, text, style)

    # What happens to cells.

    def cell_begins(self, cell: Cell, step: int) -> None:
        self._cell, self._phase, self._trainer = cell, "starting", None
        self._began = self._told = time.monotonic()
        self._count()
        done = sum(counts[State.FINISHED] for counts in self._counts.values())
        predicted = seconds(self._predictor.predict(cell, step).seconds)
        where = f"goes on from step {step}" if step else "begins"
        self.say(f"{cell.name} {where} ({done} of {len(self.cells)} done; predicted {predicted})")

    def cell_finished(self, cell: Cell, record: RunRecord, took: float) -> None:
        self._predictor.learn(record)
        self._end(f"{cell.name} done in {seconds(took)}: {result(record)}")

    def cell_failed(self, cell: Cell, error: str) -> None:
        first = error.splitlines()[0] if error else "no message"
        self._end(f"{cell.name} FAILED: {first}", "red")

    def cell_stopped(self, cell: Cell, message: str) -> None:
        self._end(f"{cell.name} {message}")

    def cell_not_started(self, cell: Cell, missing: float) -> None:
        self.say(f"{cell.name} not started: the budget is about {seconds(missing)} too short for it")

    def _end(self, text: str, style: str | None = None) -> None:
        self._cell = None
        self._count()
        self.say(text, style)

    # What happens within a cell.

    def on_prepare(self, trainer: Trainer) -> None:
        self._enter("compiling", trainer)

    def on_start(self, trainer: Trainer) -> None:
        self._first_step = trainer.progress.step
        self._enter("training", trainer)

    def on_point(self, trainer: Trainer, point: Point) -> None:
        if not self._is_live and time.monotonic() - self._told >= EVERY:
            self._told = time.monotonic()
            self.say(f"{self._cell.name if self._cell else ''} {self._state()}")

    def on_test(self, trainer: Trainer) -> None:
        self._enter("testing", trainer)

    def _enter(self, phase: str, trainer: Trainer) -> None:
        self._phase, self._trainer = phase, trainer
        self._entered = self._told = time.monotonic()
        if not self._is_live and self._cell:
            self.say(f"{self._cell.name} {phase}")

    def _state(self) -> str:
        """The phase of the cell; in training the step, the loss and the scores, as means over seeds."""
        trainer = self._trainer
        if trainer is None or self._phase != "training":
            return self._phase
        step, steps = trainer.progress.step, trainer.config.steps
        parts = [f"step {step}/{steps}"]
        finite = np.isfinite(trainer.latest_loss)
        if finite.any():
            parts.append(f"loss {trainer.latest_loss[finite].mean():.3f}")
        if trainer.progress.curve:
            scores = trainer.progress.curve[-1].scores
            parts += [f"{name} {100 * np.mean(values):.1f} %" for name, values in scores.items()]
        rate = (step - self._first_step) / max(time.monotonic() - self._entered, 1e-9)
        if rate:
            parts.append(f"{rate:.1f} steps/s, {seconds((steps - step) / rate)} left")
        return "  ".join(parts)

    # The table.

    def _count(self) -> None:
        self._counts = {}
        for cell in self.cells:
            counts = self._counts.setdefault(cell.system, dict.fromkeys(State, 0))
            counts[self.directory.state(cell)] += 1
        self._left = sum(
            self._predictor.predict(cell, self.directory.step(cell)).seconds
            for cell in self.cells
            if self.directory.state(cell) in (State.LEFT, State.INTERRUPTED, State.RUNNING)
        )

    def _table(self) -> Group:
        lines: list[Table | Text] = [state_table(self._counts)]
        elapsed = time.monotonic() - self._began if self._cell else 0.0
        if self._cell:
            lines.append(Text(f"{self._cell.name}  {self._state()}"))
        lines.append(Text(f"time left about {seconds(max(0.0, self._left - elapsed))}"))
        return Group(*lines)


def print_line(console: Console, text: str, style: str | None = None) -> None:
    """Prints a line at once, with the time where no terminal shows it."""
    stamp = "" if console.is_terminal else time.strftime("%H:%M:%S ")
    console.print(f"{stamp}{text}", soft_wrap=True, highlight=False, markup=False, style=style)
    console.file.flush()


def state_table(counts: dict[str, dict[State, int]]) -> Table:
    """How many cells of each system stand where."""
    table = Table()
    table.add_column("system")
    for state in State:
        table.add_column(state.value, justify="right")
    for system, numbers in counts.items():
        table.add_row(system, *(str(numbers[state]) for state in State))
    return table


def result(record: RunRecord) -> str:
    """The test scores under the rules that tables go by, beside the paper's."""
    config = record.config
    if not record.test:
        return f"{record.steps} steps, not tested"
    name = config.algorithms[0]
    rules = [column.rule for column in COLUMNS if column.system == config.processor and column.rule in record.rules]
    parts = []
    for rule in rules or [main_rule(config)]:
        paper = published(config.processor, rule, name)
        beside = "" if paper is None else f", paper {paper.mean:.2f}"
        parts.append(f"{rule} {text(measured(record.test_scores(name, rule)))}{beside}")
    if record.diverged:
        parts.append(f"{len(record.diverged)} diverged")
    return f"test in %: {'; '.join(parts)}"


def print_status(console: Console, directory: SweepDirectory, cells: Sequence[Cell]) -> None:
    """Where every cell stands."""
    counts: dict[str, dict[State, int]] = {}
    for cell in cells:
        state = directory.state(cell)
        counts.setdefault(cell.system, dict.fromkeys(State, 0))[state] += 1
        text = {
            State.FINISHED: lambda cell=cell: result(RunRecord.load(directory.record(cell))),
            State.RUNNING: lambda cell=cell: f"saved up to step {directory.step(cell)} of {cell.config.steps}",
            State.FAILED: lambda cell=cell: (directory.failure(cell) or "").splitlines()[-1],
            State.INTERRUPTED: lambda cell=cell: f"goes on from step {directory.step(cell)} of {cell.config.steps}",
            State.LEFT: lambda: "",
        }[state]()
        line = f"{cell.name:44} {state.value:12} {text}".rstrip()
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    console.print(state_table(counts))


def print_plan(console: Console, directory: SweepDirectory, cells: Sequence[Cell]) -> None:
    """What is left and what it is predicted to need."""
    predictor = Predictor.from_records(directory, cells)
    say = functools.partial(console.print, soft_wrap=True, highlight=False, markup=False)
    say(PLAN.format("cell", "processor steps", "programs", "compile", "train", "validate", "test", "sum", "memory"))
    left = [cell for cell in cells if directory.state(cell) is not State.FINISHED]
    predictions = []
    for cell in left:
        step = directory.step(cell)
        needed = predictor.predict(cell, step)
        phases = (needed.compiling, needed.training, needed.validating, needed.testing, needed.seconds)
        steps = mean_training_steps(cell.config) * (cell.config.steps - step)
        memory = f"{'' if 'memory' in needed.measured else '~'}{needed.memory / 1e9:.1f} GB"
        say(PLAN.format(cell.name, f"{steps:,.0f}", str(needed.programs), *map(seconds, phases), memory))
        predictions.append(needed)
    total, programs = sum(needed.seconds for needed in predictions), sum(needed.programs for needed in predictions)
    largest = max((needed.memory for needed in predictions), default=0)
    costs = "; ".join(f"{system}: {predictor.source(system)}" for system in dict.fromkeys(c.system for c in left))
    corrected = f", guesses corrected by {len(predictor.learned)} finished cells" if predictor.learned else ""
    guess = " Memory with ~ is a rough guess." if any("memory" not in n.measured for n in predictions) else ""
    say(
        f"{len(left)} of {len(cells)} cells left: {seconds(total)}, {programs} compilations, up to {largest / 1e9:.1f} "
        f"GB. Costs: {costs or 'none'}{corrected}. Device: {predictor.device}.{guess}"
    )
