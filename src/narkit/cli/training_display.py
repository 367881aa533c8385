"""The display of a run while it trains: a live line on a terminal, a line per validation elsewhere, and its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from narkit.cli.choices import mistakes, plain_errors
from narkit.printing import print_line, print_table
from narkit.report.grid import measured
from narkit.report.published import published
from narkit.report.rendering import text
from narkit.training.callbacks import Callback
from narkit.training.checkpoint import CheckpointError
from narkit.training.config import TrainConfig
from narkit.training.interruption import Interrupted
from narkit.training.progress import Point
from narkit.training.record import RunRecord
from narkit.training.run import train
from narkit.training.trainer import Trainer

BETWEEN_STEPS = 0.05  # seconds: the line is drawn ten times a second, and short steps have no time for more


class LiveDisplay(Callback):
    """Shows step, loss, validation scores, steps per second and the time left. Use it in a `with` statement."""

    def __init__(self, console: Console):
        self.console = console
        state = (MofNCompleteColumn(), "{task.fields[state]}", "left", TimeRemainingColumn())
        self._progress = Progress("{task.description}", BarColumn(), *state, console=console, transient=True)
        self._task = self._progress.add_task("starting", total=None, state="")
        self._began, self._first = 0.0, 0  # when this process began to train, and at which step
        self._live = console.is_terminal
        self._shown = 0.0  # when a step was

    def __enter__(self) -> LiveDisplay:
        if self._live:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._progress.stop()

    def on_prepare(self, trainer: Trainer) -> None:
        print_line(self.console, f"the network {trainer.programs.acceleration}")
        self._describe("making the data of all steps once, for its lengths", None, 0)

    def on_compile(self, trainer: Trainer, done: int, total: int) -> None:
        self._describe("compiling programs", total, done)
        if done == 0:
            print_line(
                self.console,
                f"compiling {total} programs for {programs_of(trainer.config)}: a minute or more the first time, then "
                "they are kept on disk",
            )

    def on_start(self, trainer: Trainer) -> None:
        self._began, self._first = time.perf_counter(), trainer.progress.step
        if trainer.progress.step:
            self.console.print(f"going on from step {trainer.progress.step}")
        self._describe("training", trainer.config.steps, trainer.progress.step)

    def on_step(self, trainer: Trainer) -> None:
        if self._live and time.perf_counter() - self._shown >= BETWEEN_STEPS:
            self._progress.update(self._task, completed=trainer.progress.step, state=self._state(trainer))
            self._shown = time.perf_counter()

    def on_point(self, trainer: Trainer, point: Point) -> None:
        if not self._live:
            step = f"step {trainer.progress.step}/{trainer.config.steps}"
            left = (trainer.config.steps - trainer.progress.step) / max(self._rate(trainer), 1e-9)
            print_line(self.console, f"{step}  {self._state(trainer)}  left {seconds(left)}")
        for divergence in trainer.diverged:
            self.console.print(
                f"seed {divergence.seed} diverged at step {divergence.step} on a batch of {divergence.algorithm}, "
                f"size {divergence.size}; the others go on"
            )

    def on_test(self, trainer: Trainer) -> None:
        self._describe("testing", None, trainer.progress.step)
        if not self._live:
            self.console.print("scoring on the official test split")

    def _describe(self, what: str, total: int | None, completed: int) -> None:
        self._progress.update(self._task, description=what, total=total, completed=completed)

    def _state(self, trainer: Trainer) -> str:
        """Formats the means over the seeds with a finite loss."""
        finite = np.isfinite(trainer.latest_loss)
        parts = [f"loss {trainer.latest_loss[finite].mean():.3f}" if finite.any() else "loss -"]
        if trainer.progress.curve and finite.any():
            scores = trainer.progress.curve[-1].scores
            parts += [f"{name} {100 * np.array(values)[finite].mean():.1f} %" for name, values in scores.items()]
        return "  ".join([*parts, f"{self._rate(trainer):.1f} steps/s"])

    def _rate(self, trainer: Trainer) -> float:
        """Returns the steps per second since this process began to train."""
        return (trainer.progress.step - self._first) / max(time.perf_counter() - self._began, 1e-9)


def programs_of(config: TrainConfig) -> str:
    """Says what a run compiles programs for: `training steps of 5 sizes, 2 validation sets and the test`."""
    tests = " and the test" if config.test else ""
    sizes, sets = len(config.sizes), len(config.validations)
    counted = f"{sizes} size{'s' if sizes > 1 else ''}, {sets} validation set{'s' if sets > 1 else ''}"
    return f"training steps of {counted}{tests}"


def seconds(value: float) -> str:
    """Formats seconds as `3:25:45`."""
    whole = round(value)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


@contextlib.contextmanager
def clear_ends(console: Console, folder: Path) -> Iterator[None]:
    """Ends any failure in one clear line: a mistake in exit code 2, a failure in 1, a signal in 128 and more."""
    try:
        with plain_errors():
            yield
    except Interrupted as error:
        print_line(console, f"{error}. Go on with: narkit train --resume {folder}")
        raise typer.Exit(128 + error.signal_number) from None
    except CheckpointError as error:
        print_line(console, f"Error: {error}", "red")
        raise typer.Exit(1) from None


def run_training(
    config: TrainConfig, out: Path, tensorboard: bool, wandb: bool, save_every: float, devices: int
) -> None:
    """Trains with a display and prints the result."""

    console = Console()
    display = LiveDisplay(console)
    callbacks: list[Callback] = [display]
    with mistakes():
        if tensorboard:
            from narkit.training.tensorboard import TensorBoard

            callbacks.append(TensorBoard(out / "tensorboard"))
        if wandb:
            from narkit.training.weights_and_biases import WeightsAndBiases

            callbacks.append(WeightsAndBiases(out / "wandb"))
    with clear_ends(console, out), display:
        record = train(config, out, callbacks=callbacks, save_every=save_every, devices=devices)
    print_record(console, record)
    print_line(console, f"record, metrics and checkpoints: {out}")


def print_record(console: Console, record: RunRecord) -> None:
    """Prints the test scores of every rule, with spread and number of seeds, beside the paper's under that rule."""
    config = record.config
    tables = [(algorithm, "official test split", True) for algorithm in record.test]
    tables += [(algorithm, name, False) for name, found in record.scored.items() for algorithm in found]
    for algorithm, instances, official in tables:
        title = f"{algorithm}, {config.processor}: {instances}, {len(config.seeds)} seeds, micro-F1 in %"
        header = ("rule", "mean ± std (seeds)", *(["paper"] if official else []), "each seed", "chosen at step")
        rows = []
        for rule in record.rules:
            found = record.test_scores(algorithm, rule) if official else record.scores_on(instances, algorithm, rule)
            paper = [text(published(config.processor, rule, algorithm))] if official else []
            seeds = "  ".join(f"{score:.1f}" for score in found)
            rows.append([rule, text(measured(found)), *paper, seeds, "  ".join(map(str, record.selected[rule].steps))])
        print_table(console, header, rows, title)
    for d in record.diverged:
        console.print(f"seed {d.seed} diverged at step {d.step} on a batch of {d.algorithm}, size {d.size}")
    for s in record.skipped:
        console.print(f"seed {s.seed} skipped {len(s.steps)} steps on batches of {s.algorithm}, size {s.size}")
    print_line(
        console,
        f"{record.steps} steps in {record.timings.training:.0f} s, {100 * record.waiting_share:.1f} % of it waiting "
        f"for data; {100 * record.compiling_share:.0f} % of all time compiling; {record.device}",
    )
