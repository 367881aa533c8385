"""Checkpoints of a run: whole or not at all, the last two of them, and checked when they are read."""

from __future__ import annotations

import hashlib
import logging
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from narkit.training.progress import Snapshot

FORMAT = 1
KEPT = 2
STEP_DIGITS = 8
REMOVED, DAMAGED = ".removed", ".damaged"

Expected = Callable[[Mapping[str, Any]], dict[str, Any]]


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be read or written. What was good before still is."""


class CheckpointWriteError(CheckpointError):
    """Something could not be written, most often for want of room. The run can go on once there is some."""


class Checkpoints:
    """The checkpoints in a folder, by step.

    Orbax writes under another name and renames at the end, so a folder with a step's name is complete, whenever the
    process was killed. A checksum finds damage that came later.
    """

    def __init__(self, folder: Path):
        self.folder = folder.absolute()
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # Orbax tells every phase; its errors are raised, too
        self._orbax = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
        self._damaged: set[int] = set()

    def steps(self) -> list[int]:
        """Returns the steps that have a checkpoint, in order."""
        names = [path.name for path in self.folder.glob("*") if path.is_dir()]
        return sorted(int(name) for name in names if len(name) == STEP_DIGITS and name.isdigit())

    def save(self, snapshot: Snapshot) -> None:
        """Writes a checkpoint and removes old ones. If that fails, the ones before stay as they are."""
        step = snapshot.progress["step"]
        if step in self.steps() and step not in self._damaged:
            return
        about = {"format": FORMAT, "checksum": _checksum(snapshot.arrays), "progress": snapshot.progress}
        items = ocp.args.Composite(
            arrays=ocp.args.StandardSave(snapshot.arrays),  # type: ignore[call-arg]
            about=ocp.args.JsonSave(about),  # type: ignore[call-arg]
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._remove_left_overs()
            self._set_damaged_aside()
            self._orbax.save(self._path(step), args=items)
            self._remove_old()
        except Exception as error:  # Orbax and TensorStore wrap what the system reports in errors of many kinds
            last = self.steps()[-1:]
            good = f"the last good state, of step {last[0]}, is intact" if last else "none had been written before"
            raise CheckpointWriteError(
                f"the checkpoint of step {step} could not be written to {self.folder}: {_brief(error)}; {good}. "
                "Make room or repair the disk, and resume"
            ) from error

    def _path(self, step: int) -> Path:
        return self.folder / f"{step:0{STEP_DIGITS}}"

    def _remove_left_overs(self) -> None:
        """Removes the leftovers of processes that were killed while they wrote or removed a checkpoint."""
        for pattern in (f"*{ocp.utils.TMP_DIR_SUFFIX}*", f"*{REMOVED}"):
            for path in self.folder.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)

    def _set_damaged_aside(self) -> None:
        """Renames damaged checkpoints, whose names are needed again; their content stays."""
        for step in self._damaged:
            aside = self.folder / f"{step}{DAMAGED}"
            shutil.rmtree(aside, ignore_errors=True)
            self._path(step).rename(aside)
        self._damaged.clear()

    def _remove_old(self) -> None:
        for step in self.steps()[:-KEPT]:
            removed = self._path(step).rename(self.folder / f"{step}{REMOVED}")  # nothing in part bears a step's name
            shutil.rmtree(removed, ignore_errors=True)

    def load(self, expected: Expected) -> Snapshot | None:
        """Loads the latest checkpoint that can be read; none if none was written. Damaged ones are named in a warning.

        `expected` says which arrays belong to the progress that a checkpoint tells.
        """
        failures: list[str] = []
        for step in reversed(self.steps()):
            try:
                snapshot = self._read(step, expected)
            except CheckpointError as error:
                failures.append(str(error))
                self._damaged.add(step)
                continue
            if failures:
                text = f"{'; '.join(failures)}. Going on from the checkpoint of step {step} instead"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            return snapshot
        if failures:
            raise CheckpointError(
                f"{self.folder}: no checkpoint can be read: {'; '.join(failures)}. To start again, remove the folder"
            )
        return None

    def _read(self, step: int, expected: Expected) -> Snapshot:
        where = f"the checkpoint of step {step} in {self.folder}"
        path = self._path(step)
        try:
            about = self._orbax.restore(path, args=ocp.args.Composite(about=ocp.args.JsonRestore())).about  # type: ignore[call-arg]
        except Exception as error:  # see `save`
            raise CheckpointError(f"{where} is damaged or not narkit's: {_brief(error)}") from error
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            found = about.get("format") if isinstance(about, dict) else about
            raise CheckpointError(f"{where}: expected narkit's format {FORMAT}, got {found!r}")
        try:
            like = expected(about["progress"])
            target = ocp.args.Composite(arrays=ocp.args.StandardRestore(like))  # type: ignore[call-arg]
            arrays = self._orbax.restore(path, args=target).arrays
        except Exception as error:  # see `save`
            raise CheckpointError(f"{where} is damaged, or of another run: {_brief(error)}") from error
        if _checksum(arrays) != about["checksum"]:
            raise CheckpointError(f"{where} is damaged: its checksum is not the one that was written with it")
        return Snapshot(arrays, about["progress"])

    def close(self) -> None:
        self._orbax.close()


def _brief(error: BaseException) -> str:
    """Returns the first line of a message, which with Orbax may have dozens."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _checksum(arrays: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(arrays):  # dictionaries in the order of their keys
        values = np.asarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {values.dtype} {values.shape}".encode())
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()
