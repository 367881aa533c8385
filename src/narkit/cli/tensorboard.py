"""Metrics for TensorBoard, with the extra `tensorboard`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from narkit.training.run import Observer
from narkit.training.trainer import Trainer


class TensorBoard(Observer):
    """Writes the curves of every seed as event files."""

    def __init__(self, folder: Path):
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2  # type: ignore[import-not-found]
            from tensorboard.summary.writer.event_file_writer import (  # type: ignore[import-not-found]
                EventFileWriter,
            )
        except ImportError:
            raise ValueError(
                "--tensorboard: expected the package tensorboard; pip install 'narkit[tensorboard]'"
            ) from None
        self._events, self._summaries = event_pb2, summary_pb2
        self._folder, self._make_writer = folder, EventFileWriter
        self._writer: Any = None

    def started(self, trainer: Trainer) -> None:
        self._writer = self._make_writer(str(self._folder))
        # Points after this step, of a run that was killed, are drawn again: this removes them, from its own step on.
        session = self._events.SessionLog(status=self._events.SessionLog.START)
        self._write(trainer.progress.step + 1, session_log=session)

    def point(self, trainer: Trainer) -> None:
        point = trainer.progress.curve[-1]
        curves = {"loss/train": point.train_loss}
        curves |= {f"score/{name}": values for name, values in point.scores.items()}
        curves |= {f"loss/{name}": values for name, values in point.losses.items()}
        values = [
            self._summaries.Summary.Value(tag=f"{name}/seed_{seed}", simple_value=value)
            for name, per_seed in curves.items()
            for seed, value in zip(trainer.config.seeds, per_seed, strict=True)
        ]
        self._write(point.step, summary=self._summaries.Summary(value=values))
        self._writer.flush()

    def testing(self, trainer: Trainer) -> None:
        if self._writer is not None:
            self._writer.close()

    def _write(self, step: int, **content: Any) -> None:
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, **content))
