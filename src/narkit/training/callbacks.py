"""Callbacks that follow a run while it trains, such as a display, curves for a dashboard, or code of your own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narkit.training.progress import Point
    from narkit.training.record import RunRecord
    from narkit.training.trainer import Trainer


class Callback:
    """Follows a run. Override what you need; every method may be left as it is.

    `trainer` tells how far the run is: `trainer.config`, `trainer.progress.step`, `trainer.progress.curve` with all
    validations so far, `trainer.latest_loss` per seed of a step shortly before, `trainer.diverged` and
    `trainer.skipped`. Callbacks are called one after the other, in the thread that trains: what they do takes time from
    training, and what they raise ends the run, which can be resumed from its last checkpoint.
    """

    def on_prepare(self, trainer: Trainer) -> None:
        """Programs are about to be compiled."""

    def on_compile(self, trainer: Trainer, done: int, total: int) -> None:
        """`done` of `total` programs are compiled, at first none. Not called if all were compiled before."""

    def on_start(self, trainer: Trainer) -> None:
        """Training begins, at the step that `trainer.progress` says; it is above 0 where a run goes on."""

    def on_step(self, trainer: Trainer) -> None:
        """A step is done, or will be in a moment: the device may be some steps behind."""

    def on_point(self, trainer: Trainer, point: Point) -> None:
        """A validation is done."""

    def on_test(self, trainer: Trainer) -> None:
        """Training is over; what the rules chose is about to be scored on the official test split, or on other sets."""

    def on_end(self, record: RunRecord) -> None:
        """The run is complete, and its record is written."""

    def on_close(self) -> None:
        """Nothing more will come, whether the run is complete, was stopped or failed. Close files here."""


class Callbacks:
    """Several callbacks, which are called in their order: `callbacks.call("on_step", trainer)`."""

    def __init__(self, callbacks: Iterable[Callback]):
        self.members = tuple(callbacks)
        for callback in self.members:
            if not isinstance(callback, Callback):
                raise TypeError(f"callbacks: expected objects of narkit.Callback, got {callback!r}")

    def call(self, method: str, *arguments: object) -> None:
        for callback in self.members:
            getattr(callback, method)(*arguments)
