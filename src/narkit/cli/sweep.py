"""`narkit sweep`: from words on the command line to a grid of runs."""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console

from narkit.cli.choices import mistakes
from narkit.cli.sweep_display import SweepDisplay, print_line, result, state_table
from narkit.cli.train import parse_settings
from narkit.cli.training_display import seconds
from narkit.sweeps.cells import Cell, State, SweepDirectory, SweepError, make_cells
from narkit.sweeps.lengths import mean_training_steps
from narkit.sweeps.plan import Predictor
from narkit.sweeps.side_by_side import SideBySide
from narkit.sweeps.sweep import Outcome, SweepOptions, run_sweep
from narkit.training.checkpoint import CheckpointError
from narkit.training.record import RunRecord
from narkit.training.run_directory import RunDirectoryError
from narkit.training.trainer import COMPILING

PLAN = "{:44} {:>15} {:>8}" + " {:>8}" * 6  # a line of the plan
UNITS = {"s": 1, "m": 60, "h": 3600}


def parse_budget(text: str | None) -> float | None:
    """`9m`, `90s`, `1h30m` in seconds."""
    if text is None:
        return None
    if not re.fullmatch(r"(\d+(\.\d+)?[smh])+", text):
        raise typer.BadParameter(f"expected a time such as 9m, 90s or 1h30m, got {text!r}", param_hint="--budget")
    total = sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)([smh])", text))
    if total <= 0:
        raise typer.BadParameter(f"expected more than no time, got {text!r}", param_hint="--budget")
    return total


def grid(
    preset: str, systems: str, algorithms: Sequence[str], seeds: int, options: dict, settings: list[str]
) -> list[Cell]:
    """The cells that were asked for."""
    given = {name: value for name, value in options.items() if value is not None}
    with mistakes():
        names = [name.strip() for name in systems.split(",") if name.strip()]
        return make_cells(preset, names, algorithms, seeds, given | parse_settings(settings))


def chosen_weights(weights: str | None, no_weights: bool, cells: Sequence[Cell]) -> frozenset[str] | None:
    """The systems whose weights are kept; None for all."""
    if no_weights:
        if weights is not None:
            raise typer.BadParameter("expected --weights or --no-weights, got both", param_hint="--weights")
        return frozenset()
    if weights is None:
        return None
    names = [name.strip() for name in weights.split(",")]
    known = {cell.system for cell in cells}
    for name in names:
        if name not in known:
            from narkit.errors import UnknownNameError

            raise typer.BadParameter(str(UnknownNameError("system of this sweep", name, known)), param_hint="--weights")
    return frozenset(names)


def checked_directory(out: Path, cells: Sequence[Cell]) -> SweepDirectory:
    """The folder, if what it holds fits what is asked for."""
    directory = SweepDirectory(out)
    with mistakes():
        directory.check(cells)
    return directory


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


def run(
    console: Console, directory: SweepDirectory, cells: Sequence[Cell], preset: str, options: SweepOptions
) -> NoReturn:
    """Runs the sweep with a display. Exit codes: 0, 1 after failures, 128 and more after a signal."""
    display = SweepDisplay(console, cells, directory)
    try:
        with display:
            outcome = run_sweep(cells, directory, preset=preset, options=options, observer=display)
    except SweepError as error:
        raise typer.BadParameter(str(error)) from None
    except (CheckpointError, RunDirectoryError, OSError) as error:
        display.say(f"Error: {error}", "red")
        _leave(1)
    _leave(_summary(display.say, directory, cells, outcome))


def run_side_by_side(
    console: Console,
    directory: SweepDirectory,
    cells: Sequence[Cell],
    processes: int,
    preset: str,
    options: SweepOptions,
) -> NoReturn:
    """As `run`, with so many cells at a time, each in a process of its own."""
    say = functools.partial(print_line, console)
    outcome = SideBySide(cells, directory, processes, preset=preset, options=options, tell=say).run()
    raise typer.Exit(_summary(say, directory, cells, outcome))


def _summary(say: Callable[..., None], directory: SweepDirectory, cells: Sequence[Cell], outcome: Outcome) -> int:
    """Says how the sweep ended and returns the exit code."""
    states = [directory.state(cell) for cell in cells]
    counts = ", ".join(f"{states.count(state)} {state.value}" for state in State if state in states)
    ending = "all cells are finished" if set(states) == {State.FINISHED} else counts
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
