"""The folder of a run: its configuration, checkpoints, metrics and record, and the lock of the process that trains."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from narkit import __version__
from narkit.files import DIGEST, check_folder, digest, sealed, write_whole
from narkit.training.config import TrainConfig
from narkit.training.progress import Point

CONFIG, LOCK, METRICS, RECORD, CHECKPOINTS = "config.json", "lock", "metrics.jsonl", "record.json", "checkpoints"
MEASURED, TESTED = "measured.json", "tested.json"


class RunDirectoryError(ValueError):
    """A folder that cannot be used for the run that was asked for."""


def differing_options(there: TrainConfig, now: TrainConfig) -> str:
    """Returns in words what differs between a run's configuration and the one that was asked for; empty if nothing."""
    differing = there.differences(now)
    return ", ".join(f"{name} ({here!r} there, {asked!r} now)" for name, (here, asked) in differing.items())


class RunDirectory:
    """The files of one run.

    - `config.json`: the configuration, written first and never changed.
    - `checkpoints/`: the last two states, see `Checkpoints`.
    - `metrics.jsonl`: one line per validation.
    - `record.json`: the result, once the run is complete.
    - `lock`: held by the process that trains.
    - `measured.json`, `tested.json`: while it prepares and while it tests, what a process that is killed need not do
      again; they go when the run is complete.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    @property
    def record(self) -> Path:
        return self.folder / RECORD

    def config(self) -> TrainConfig:
        """Reads the configuration of the run in this folder."""
        path = self.folder / CONFIG
        if not self.folder.is_dir():
            found = "a file" if self.folder.exists() else "nothing: it does not exist"
            raise RunDirectoryError(f"{self.folder}: expected the folder of a run, got {found}")
        if not path.is_file():
            raise RunDirectoryError(f"{self.folder}: expected the folder of a run, but it has no {CONFIG}")
        try:
            values = json.loads(path.read_text())
            seal = values.pop(DIGEST, None) if isinstance(values, dict) else None  # of narkit 0.2 and later
            if seal is not None and seal != digest(values):
                raise ValueError("it was changed after the run began; put it back, or start anew in another folder")
            return TrainConfig.from_json(values)
        except (ValueError, TypeError, RecursionError) as error:  # also what is no UTF-8
            raise RunDirectoryError(f"{path}: expected a configuration as narkit writes it: {error}") from None

    def create(self, config: TrainConfig) -> None:
        """Starts a run here, in a new or empty folder; or checks that the one that is here has this configuration."""
        if (self.folder / CONFIG).exists():
            self._check_same(config)
            return
        self._check_empty()
        write_whole(self.folder / CONFIG, json.dumps(sealed(config.to_json()), indent=2) + "\n")

    def _check_empty(self) -> None:
        others = [path.name for path in self.folder.iterdir() if path.name != LOCK and not path.name.endswith(".part")]
        if others:
            raise RunDirectoryError(
                f"{self.folder}: expected a new or empty folder or that of a run, got one with {sorted(others)[:5]}"
            )

    def _check_same(self, config: TrainConfig) -> None:
        if differing := differing_options(self.config(), config):
            raise RunDirectoryError(
                f"{self.folder} holds a run with another configuration: {differing}. Give another folder, "
                "or resume with the configuration that is there"
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes out. The system releases the lock when the process ends, however it ends.

        A folder that is none, or that holds something else, is refused before a lock is left in it.
        """
        check_folder(self.folder)
        if self.folder.is_dir() and not (self.folder / CONFIG).exists():
            self._check_empty()
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                owner = file.read().strip() or "unknown"
                raise RunDirectoryError(
                    f"{self.folder} is in use by another process (id {owner}); wait for it, or give another folder"
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def rewrite_metrics(self, seeds: Iterable[int], curve: Iterable[Point]) -> None:
        """Rewrites the metrics up to a checkpoint; lines of steps that will be done again go."""
        lines = [metrics_line(seeds, point) for point in curve]
        write_whole(self.folder / METRICS, "".join(lines))

    def keep(self, name: str, values: Any) -> None:
        """Keeps what was found on the way, under one of the two names for that, with the version that found it."""
        write_whole(self.folder / name, json.dumps({"narkit": __version__, "found": values}))

    def kept(self, name: str) -> Any:
        """Returns what was found before; None if nothing was, or by another version, or if it cannot be read."""
        try:
            values = json.loads((self.folder / name).read_text())
            return values["found"] if values["narkit"] == __version__ else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def forget_kept(self) -> None:
        for name in (MEASURED, TESTED):
            (self.folder / name).unlink(missing_ok=True)

    def append_metrics(self, seeds: Iterable[int], point: Point) -> None:
        with (self.folder / METRICS).open("a") as file:
            file.write(metrics_line(seeds, point))


def metrics_line(seeds: Iterable[int], point: Point) -> str:
    line = {"step": point.step, "seeds": list(seeds), "train_loss": point.train_loss}
    line |= {f"{name}_score": values for name, values in point.scores.items()}
    line |= {f"{name}_loss": values for name, values in point.losses.items()}
    line |= {f"{name}_average_score": values for name, values in point.average_scores.items()}
    line |= {f"{name}_average_loss": values for name, values in point.average_losses.items()}
    return json.dumps(plain_numbers(line), allow_nan=False) + "\n"


def plain_numbers(value: Any) -> Any:
    """Returns the value with None in place of numbers that JSON has no word for."""
    if isinstance(value, dict):
        return {name: plain_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_numbers(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
