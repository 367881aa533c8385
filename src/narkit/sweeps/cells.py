"""The cells of a sweep, and the folder that keeps them: which are finished, and who works on the others."""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from narkit.files import write_with_folder
from narkit.sweeps.lengths import mean_training_steps
from narkit.sweeps.systems import System, find_system
from narkit.training.config import TrainConfig
from narkit.training.record import RunRecord
from narkit.training.run_directory import CHECKPOINTS, CONFIG, RunDirectory, RunDirectoryError, differing_options

RUNNING = ".running"


class SweepError(ValueError):
    """A sweep that cannot be done as asked; nothing was computed."""


@dataclass(frozen=True)
class Cell:
    """A system on an algorithm, all seeds at once."""

    system: System
    config: TrainConfig

    @property
    def algorithm(self) -> str:
        return self.config.algorithms[0]

    @property
    def name(self) -> str:
        return f"{self.system.training}/{self.algorithm}"


def make_cells(
    preset: str | None,
    systems: Sequence[str | System],
    algorithms: Sequence[str],
    num_seeds: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """Makes the grid: system by system as given, within each the algorithms with the fewest processor steps first.

    Systems are given as such or by name. Without a preset each is trained by its own, and without a number of seeds
    with as many as its tables stand on. `options` differ from the preset's.
    """
    given = dict(options or {})
    names = [system if isinstance(system, str) else system.name for system in systems]
    for what, words in (("systems", names), ("algorithms", algorithms)):
        if not words or len(set(words)) != len(words):
            raise SweepError(f"{what}: expected one or more different ones, got {', '.join(words) or 'none'}")
    if num_seeds is not None and num_seeds < 1:
        raise SweepError(f"seeds: expected at least 1, got {num_seeds}")
    for name in ("algorithms", "processor", "seeds"):
        if name in given:
            raise SweepError(f"{name} is set by the cells of a sweep; use --algorithms, --systems and --seeds")
    processor_options = given.pop("processor_options", {})
    cells = []
    for each in systems:
        system = find_system(each, preset) if isinstance(each, str) else each.under(preset)
        system = replace(system, options={**system.options, **processor_options}, seeds=num_seeds or system.seeds)
        configs = [system.config(name, **given) for name in algorithms]
        cells += [Cell(system, config) for config in sorted(configs, key=mean_training_steps)]
    trained = [cell.name for cell in cells]
    if len(set(trained)) != len(trained):
        raise SweepError(f"systems: expected different trainings, got {', '.join(names)}, of which some share one")
    return cells


class State(enum.Enum):
    """The state of a cell."""

    FINISHED = "finished"
    RUNNING = "running"  # in this or another process
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # to be resumed
    LEFT = "left"


class SweepDirectory:
    """The files of a sweep.

    - `SYSTEM/ALGORITHM.json` and `.safetensors`: the record of a finished cell and its weights.
    - `.running/SYSTEM-ALGORITHM/`: the folder of a run that is not finished; it goes when the record has been written.
    - `.running/SYSTEM-ALGORITHM.lock`: held by the process that works on the cell.
    - `.running/SYSTEM-ALGORITHM.failed`: what went wrong.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)

    def record(self, cell: Cell) -> Path:
        return self.folder / cell.system.training / f"{cell.algorithm}.json"

    def weights(self, cell: Cell) -> Path:
        return self.record(cell).with_suffix(".safetensors")

    def run(self, cell: Cell) -> Path:
        return self.folder / RUNNING / f"{cell.system.training}-{cell.algorithm}"

    def _lock(self, cell: Cell) -> Path:
        return self.run(cell).with_suffix(".lock")

    def _failure(self, cell: Cell) -> Path:
        return self.run(cell).with_suffix(".failed")

    def state(self, cell: Cell) -> State:
        if self.record(cell).exists():
            return State.FINISHED
        if self._is_locked(cell):
            return State.RUNNING
        if self._failure(cell).exists():
            return State.FAILED
        return State.INTERRUPTED if (self.run(cell) / CONFIG).exists() else State.LEFT

    def _is_locked(self, cell: Cell) -> bool:
        try:
            with self._lock(cell).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def step(self, cell: Cell) -> int:
        """Returns the step that an unfinished run can go on from."""
        names = [path.name for path in (self.run(cell) / CHECKPOINTS).glob("*")]
        return max((int(name) for name in names if name.isdigit()), default=0)

    def claim(self, cell: Cell) -> Claim | None:
        """Claims the right to work on a cell; None if another process has it, or the cell is finished.

        The system takes it back when the process ends, however it ends.
        """
        while True:
            self._lock(cell).parent.mkdir(parents=True, exist_ok=True)
            try:
                file = self._lock(cell).open("a")
            except FileNotFoundError:  # another process has just removed the empty folder
                continue
            if not _locked(file):
                file.close()
                return None
            claim = Claim(self, cell, file)
            if not claim.is_current():  # its holder has removed the file between our two calls
                file.close()
                continue
            if self.record(cell).exists():
                claim.finish()
                return None
            return claim

    def failure(self, cell: Cell) -> str | None:
        """Returns what went wrong with a cell."""
        with contextlib.suppress(FileNotFoundError):
            return self._failure(cell).read_text().strip()
        return None

    def keep(self, cell: Cell, record: bytes, weights: bytes | None) -> None:
        """Writes what another machine has made of a cell, the record last: where there is one, all is there."""
        if weights is not None:
            write_with_folder(self.weights(cell), weights)
        write_with_folder(self.record(cell), record)

    def has_left_overs(self, cell: Cell) -> bool:
        """Returns whether there is more of a cell than its record and weights."""
        return any(path.exists() for path in (self.run(cell), self._lock(cell), self._failure(cell)))

    def fail(self, cell: Cell, what: str) -> None:
        write_with_folder(self._failure(cell), what.strip() + "\n")

    def forget_failure(self, cell: Cell) -> None:
        self._failure(cell).unlink(missing_ok=True)

    def check(self, cells: Sequence[Cell]) -> None:
        """Raises if what is here does not fit what is asked for, before anything is computed."""
        if self.folder.exists() and not self.folder.is_dir():
            raise SweepError(f"{self.folder}: expected a folder, or none yet, got a file")
        for cell in cells:
            try:
                if self.record(cell).exists():
                    there = RunRecord.load(self.record(cell)).config
                elif (self.run(cell) / CONFIG).exists():
                    there = RunDirectory(self.run(cell)).config()
                else:
                    continue
            except RunDirectoryError as error:
                raise SweepError(f"{error}. `narkit records check {self.folder}` sets damaged records aside") from None
            if differing := differing_options(there, cell.config):
                raise SweepError(
                    f"{self.folder} holds {cell.name} with another configuration: {differing}. Give another "
                    "folder with --out, or the options that it was made with"
                )


def _locked(file: TextIOWrapper) -> bool:
    """Locks a file unless another process holds it, for longer than it takes to look at it."""
    for _ in range(5):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.02)
    return False


class Claim:
    """The right to work on a cell, while it is open."""

    def __init__(self, directory: SweepDirectory, cell: Cell, file: TextIOWrapper):
        self._directory, self._cell, self._file = directory, cell, file

    def is_current(self) -> bool:
        """Returns whether the locked file is still the one that other processes find under its name."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._file.name))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Lets others have the cell."""
        self._file.close()

    def finish(self) -> None:
        """Removes what a finished cell no longer needs, and at last the lock itself."""
        shutil.rmtree(self._directory.run(self._cell), ignore_errors=True)
        self._directory.forget_failure(self._cell)
        record = self._directory.record(self._cell)
        for part in record.parent.glob(f".{record.stem}.*.part"):  # of a process that was killed while it wrote
            part.unlink(missing_ok=True)
        Path(self._file.name).unlink(missing_ok=True)
        self._file.close()
        with contextlib.suppress(OSError):  # others are still at work
            (self._directory.folder / RUNNING).rmdir()
