"""`narkit train`: from words on the command line to a run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from narkit.cli.choices import mistakes
from narkit.cli.training_display import LiveDisplay
from narkit.errors import InstanceError, UnknownNameError
from narkit.models.serialization import ModelFileError
from narkit.report.grid import measured
from narkit.report.published import published
from narkit.report.rendering import text
from narkit.training.checkpoint import CheckpointError
from narkit.training.config import TrainConfig, check_options
from narkit.training.interruption import Interrupted
from narkit.training.presets import preset
from narkit.training.record import RunRecord
from narkit.training.run import Observer, train
from narkit.training.run_directory import RunDirectoryError
from narkit.training.trainer import Trainer


def configuration(
    preset_name: str, algorithms: Sequence[str], options: dict[str, Any], settings: list[str]
) -> TrainConfig:
    """The configuration that was asked for: a preset, the options that were given, and `name=value` for the others."""
    given = {name: value for name, value in options.items() if value is not None}
    return preset(preset_name, **({"algorithms": tuple(algorithms)} | given | parse_settings(settings)))


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """`name=value` as JSON where it is that, else as a word."""
    parsed = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"expected name=value, such as gradient_clip=0, got {setting!r}")
        check_options([name])
        try:
            parsed[name] = json.loads(value)
        except ValueError:
            parsed[name] = value
    return parsed


@contextlib.contextmanager
def clear_ends(console: Console, folder: Path) -> Iterator[None]:
    """What can go wrong ends in one clear line: a mistake in exit code 2, a failure in 1, a signal in 128 and more."""
    try:
        yield
    except Interrupted as error:
        console.print(f"{error}. Go on with: narkit train --resume {folder}", soft_wrap=True, highlight=False)
        raise typer.Exit(128 + error.signal_number) from None
    except CheckpointError as error:
        console.print(f"Error: {error}", soft_wrap=True, highlight=False, style="red")
        raise typer.Exit(1) from None
    except (RunDirectoryError, ModelFileError, UnknownNameError, InstanceError, OSError) as error:
        raise typer.BadParameter(str(error)) from None


def run_training(console: Console, config: TrainConfig, out: Path, tensorboard: bool) -> RunRecord:
    """Trains with a display and prints the result."""
    display = LiveDisplay(console)
    observer: Observer = display
    if tensorboard:
        from narkit.cli.tensorboard import TensorBoard

        with mistakes():
            observer = Both(display, TensorBoard(out / "tensorboard"))
    with clear_ends(console, out), display:
        record = train(config, out, observer=observer)
    print_record(console, record)
    console.print(f"record, metrics and checkpoints: {out}", soft_wrap=True, highlight=False)
    return record


class Both(Observer):
    """Tells two observers."""

    def __init__(self, *observers: Observer):
        self._observers = observers

    def preparing(self, trainer: Trainer) -> None:
        for observer in self._observers:
            observer.preparing(trainer)

    def started(self, trainer: Trainer) -> None:
        for observer in self._observers:
            observer.started(trainer)

    def step(self, trainer: Trainer) -> None:
        for observer in self._observers:
            observer.step(trainer)

    def point(self, trainer: Trainer) -> None:
        for observer in self._observers:
            observer.point(trainer)

    def testing(self, trainer: Trainer) -> None:
        for observer in self._observers:
            observer.testing(trainer)


def print_record(console: Console, record: RunRecord) -> None:
    """The test scores of every rule, with their spread and the number of seeds, beside the paper's under that rule."""
    config = record.config
    for algorithm, rules in record.test.items():
        title = f"{algorithm}, {config.processor}: official test split, {len(config.seeds)} seeds, micro-F1 in %"
        table = Table(title=title, title_justify="left")
        for column in ("rule", "mean ± std (seeds)", "paper", "each seed", "chosen at step"):
            table.add_column(column, justify="left" if column == "rule" else "right")
        for rule in rules:
            scores = record.test_scores(algorithm, rule)
            seeds = "  ".join(f"{score:.1f}" for score in scores)
            steps = "  ".join(map(str, record.selected[rule].steps))
            paper = published(config.processor, rule, algorithm)
            table.add_row(rule, text(measured(scores)), text(paper), seeds, steps)
        console.print(table)
    for d in record.diverged:
        console.print(f"seed {d.seed} diverged at step {d.step} on a batch of {d.algorithm}, size {d.size}")
    console.print(
        f"{record.steps} steps in {record.timings.training:.0f} s, {100 * record.waiting_share:.1f} % of it waiting "
        f"for data; {100 * record.compiling_share:.0f} % of all time compiling; {record.device}",
        highlight=False,
        soft_wrap=True,
    )
