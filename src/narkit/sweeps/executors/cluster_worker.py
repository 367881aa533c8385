"""A cell on a machine of a cluster: in a scratch folder that nobody else sees, its files handed back at the end."""

from __future__ import annotations

import os
import pickle
import platform
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from narkit.errors import one_line
from narkit.sweeps.cell_run import budgeted, run_assigned
from narkit.sweeps.cells import Cell, SweepDirectory
from narkit.sweeps.executor import CellOutcome, CellProgress, Ended, SweepObserver, SweepOptions
from narkit.sweeps.executors.processes import MEMORY_VARIABLES, SHARED_MEMORY
from narkit.sweeps.executors.software import describe, difference
from narkit.sweeps.executors.sources import ShippedCode
from narkit.sweeps.executors.storage import Storage
from narkit.training.checkpoint import CheckpointWriteError
from narkit.training.interruption import Interruption
from narkit.training.run import keep_compiled_programs

NO_GPU = (
    "expected that JAX sees the GPU which Ray has given to the cell on {}, got the CPU only; `pip install "
    "'narkit[cuda]'` there, or give --gpus-per-cell 0"
)
BETWEEN_STEPS = 2.0  # seconds between two reports of progress, where nothing but the step has changed


@dataclass(frozen=True)
class ClusterAssignment:
    """The task of a worker: a cell, and the options of its run."""

    cell: Cell
    options: SweepOptions
    ends_at: float | None  # the budget's end, as `time.time` has it
    storage: str | None  # where checkpoints go
    software: Mapping[str, str]  # of the driver, as `software.describe` has it
    commit: str  # of the driver's source files
    gpus: float


@dataclass(frozen=True)
class Result(Ended):
    """The end of a cell on a worker, with the content of its files."""

    details: str = ""  # a traceback
    record: bytes = b""
    weights: bytes | None = None


class Mailbox:
    """An actor that workers tell their progress to, for the driver to take; of each cell it keeps the latest only."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str], tuple[Any, ...]] = {}

    def post(self, cell: str, method: str, arguments: tuple[Any, ...]) -> None:
        self._messages.pop((cell, method), None)  # to the end of the line
        self._messages[cell, method] = arguments

    def take(self) -> list[tuple[str, str, tuple[Any, ...]]]:
        messages, self._messages = self._messages, {}
        return [(*key, arguments) for key, arguments in messages.items()]


class MailboxObserver(SweepObserver):
    """Posts what happens, and has new checkpoints stored."""

    def __init__(self, mailbox: Any, run: Path, storage: Storage | None):
        self._mailbox, self._run, self._storage = mailbox, run, storage
        self._last: CellProgress | None = None
        self._sent_at = 0.0

    def cell_begins(self, cell: Cell, step: int, predicted: float | None) -> None:
        self._mailbox.post.remote(cell.name, "cell_begins", (step, predicted))

    def cell_progress(self, cell: Cell, progress: CellProgress) -> None:
        if self._storage is not None:
            self._storage.push(self._run)
        last, self._last = self._last, progress
        is_news = last is None or (last.phase, last.scores) != (progress.phase, progress.scores)
        if is_news or time.monotonic() - self._sent_at >= BETWEEN_STEPS:
            self._sent_at = time.monotonic()
            self._mailbox.post.remote(cell.name, "cell_progress", (progress,))


def run_assignment(code: ShippedCode, pickled: bytes, mailbox: Any) -> Result:
    """Runs the task of a cell. The assignment is unpickled here, since that may need the user's own code."""
    code.install()
    assignment: ClusterAssignment = pickle.loads(pickled)
    cell, machine = assignment.cell, platform.node()
    if (differs := difference(assignment.software, describe(gpus=False))) is not None:
        return Result(cell, CellOutcome.CANNOT_GO_ON, differs)
    _set_up(assignment)
    if assignment.gpus and jax.default_backend() == "cpu" and os.environ.get("JAX_PLATFORMS") != "cpu":
        return Result(cell, CellOutcome.CANNOT_GO_ON, NO_GPU.format(machine))
    with tempfile.TemporaryDirectory(prefix="narkit-cell-") as scratch, budgeted(assignment.ends_at) as stop:
        try:
            return _run(assignment, SweepDirectory(scratch), mailbox, stop)
        except (CheckpointWriteError, OSError) as error:
            return Result(cell, CellOutcome.CANNOT_GO_ON, f"{one_line(error)} (on {machine})")


def _set_up(assignment: ClusterAssignment) -> None:
    """Sets this process up for the cell. Nothing has used a device in it, or it has run such a cell before."""
    os.environ["NARKIT_COMMIT"] = assignment.commit  # the source files are the same, which was checked
    if not assignment.gpus:
        jax.config.update("jax_platforms", "cpu")
    elif assignment.gpus < 1 and not any(name in os.environ for name in MEMORY_VARIABLES):
        os.environ[MEMORY_VARIABLES[0]] = f"{SHARED_MEMORY * assignment.gpus:.3f}"
    keep_compiled_programs()


def _run(assignment: ClusterAssignment, directory: SweepDirectory, mailbox: Any, stop: Interruption) -> Result:
    cell = assignment.cell
    storage = None if assignment.storage is None else Storage(assignment.storage, cell)
    if storage is not None:
        directory.run(cell).mkdir(parents=True)
        storage.pull(directory.run(cell))
    observer = MailboxObserver(mailbox, directory.run(cell), storage)
    ended = run_assigned(cell, directory, assignment.options, stop, observer)
    jax.clear_caches()
    if ended.how is CellOutcome.STOPPED and storage is not None:
        storage.push(directory.run(cell))
    written = {"record": directory.record(cell), "weights": directory.weights(cell)}
    files: dict[str, Any] = {name: path.read_bytes() for name, path in written.items() if path.exists()}
    return Result(**vars(ended), details=directory.failure(cell) or "", **files)
