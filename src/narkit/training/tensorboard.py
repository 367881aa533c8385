"""Metrics for TensorBoard, with the extra `tensorboard`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from narkit.training.callbacks import Callback
from narkit.training.progress import Point
from narkit.training.trainer import Trainer


class TensorBoard(Callback):
    """Writes the curves of every seed as event files."""

    def __init__(self, folder: str | Path):
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

    def on_start(self, trainer: Trainer) -> None:
        self._writer = self._make_writer(str(self._folder))
        # Points after this step, of a run that was killed, are drawn again: this removes them, from its own step on.
        session = self._events.SessionLog(status=self._events.SessionLog.START)
        self._write(trainer.progress.step + 1, session_log=session)

    def on_point(self, trainer: Trainer, point: Point) -> None:
        values = [
            self._summaries.Summary.Value(tag=tag, simple_value=value)
            for tag, value in point.per_seed(trainer.config.seeds).items()
        ]
        self._write(point.step, summary=self._summaries.Summary(value=values))
        self._writer.flush()

    def on_close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, step: int, **content: Any) -> None:
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, **content))
