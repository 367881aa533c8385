"""Checkpoints in a place that outlives machines: a path that all of them see, or any URL that fsspec knows.

Where a file can be half written and be found so, its name says what is in it: the step and a digest of the content. A
file whose content has another digest is passed over. So nothing has to be renamed, which many stores cannot do.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path

import fsspec
import fsspec.core

from narkit.sweeps.cells import Cell
from narkit.training.checkpoint import CheckpointWriteError
from narkit.training.run_directory import CHECKPOINTS, CONFIG

KEPT = 2
NAME = re.compile(r"\d{8}-[0-9a-f]{64}\.tar")


class Storage:
    """The checkpoints of one cell. Those of other configurations are elsewhere, and never mistaken for these."""

    def __init__(self, url: str, cell: Cell):
        self.url = url
        self._files: fsspec.AbstractFileSystem
        self._files, root = fsspec.core.url_to_fs(url)
        config = json.dumps(cell.config.to_json(), sort_keys=True)
        digest = hashlib.sha256(config.encode()).hexdigest()[:16]
        self._folder = f"{root.rstrip('/')}/{cell.name.replace('/', '-')}-{digest}"
        self._pushed = -1

    def push(self, run: Path) -> None:
        """Stores the latest checkpoint in the folder of a run, if it is not there yet, and removes older ones."""
        steps = [int(path.name) for path in (run / CHECKPOINTS).glob("*") if path.name.isdigit() and path.is_dir()]
        step = max(steps, default=-1)
        if step <= self._pushed:
            return
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as tar:
            tar.add(run / CONFIG, CONFIG)
            tar.add(run / CHECKPOINTS / f"{step:08}", f"{CHECKPOINTS}/{step:08}")
        name = f"{step:08}-{hashlib.sha256(content.getvalue()).hexdigest()}.tar"
        try:
            self._files.makedirs(self._folder, exist_ok=True)
            self._files.pipe_file(f"{self._folder}/{name}", content.getvalue())
            for old in self._names()[KEPT:]:
                self._files.rm_file(f"{self._folder}/{old}")
        except Exception as error:  # every kind of storage has errors of its own
            raise CheckpointWriteError(
                f"the checkpoint of step {step} could not be written to {self.url}: {type(error).__name__}: {error}"
            ) from error
        self._pushed = step

    def pull(self, run: Path) -> int:
        """Brings the latest whole checkpoint into the new folder of a run; returns its step, 0 if there is none."""
        for name in self._names():
            try:
                content = bytes(self._files.cat_file(f"{self._folder}/{name}"))  # type: ignore[arg-type]
            except FileNotFoundError:  # another process has just stored a newer one
                continue
            step, _, digest = name.removesuffix(".tar").partition("-")
            if hashlib.sha256(content).hexdigest() != digest:
                continue
            with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                tar.extractall(run, filter="data")
            self._pushed = int(step)
            return self._pushed
        return 0

    def forget(self) -> None:
        """Removes all checkpoints of the cell."""
        for name in self._names():
            self._files.rm_file(f"{self._folder}/{name}")
        if self._files.exists(self._folder):
            self._files.rmdir(self._folder)

    def _names(self) -> list[str]:
        """Lists the names of checkpoints, the latest first."""
        self._files.invalidate_cache()
        try:
            paths = self._files.ls(self._folder, detail=False)
        except FileNotFoundError:
            return []
        names = [str(path).rpartition("/")[2] for path in paths]
        return sorted((name for name in names if NAME.fullmatch(name)), reverse=True)
