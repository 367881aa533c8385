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
from narkit.sweeps.cell_run import budgeted, missing_seconds, run_cell
from narkit.sweeps.cells import Cell, SweepDirectory
from narkit.sweeps.executor import CellProgress, Failure, How, SweepObserver, SweepOptions
from narkit.sweeps.executors.processes import MEMORY_VARIABLES, SHARED_MEMORY
from narkit.sweeps.executors.software import describe, difference
from narkit.sweeps.executors.sources import ShippedCode
from narkit.sweeps.executors.storage import Storage
from narkit.sweeps.plan import Predictor
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
    """What a worker is to do: a cell, and how to run it."""

    cell: Cell
    options: SweepOptions
    ends_at: float | None  # the budget's end, as `time.time` has it
    storage: str | None  # where checkpoints go
    software: Mapping[str, str]  # of the driver, as `software.describe` has it
    commit: str  # of the driver's source files
    gpus: float


@dataclass(frozen=True)
class Result:
    """How a cell ended on a worker, with the content of its files."""

    how: How
    error: str = ""
    details: str = ""  # a traceback
    kind: Failure = Failure.OTHER
    missing: float = 0.0  # seconds of the budget, if there was no time
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
        self.failure = ""  # in one line

    def cell_failed(self, cell: Cell, error: str) -> None:
        self.failure = error

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
    """The task of a cell. The assignment is unpickled here, since that may need the user's own code."""
    code.install()
    assignment: ClusterAssignment = pickle.loads(pickled)
    if (differs := difference(assignment.software, describe(gpus=False))) is not None:
        return Result(How.CANNOT_GO_ON, differs)
    _set_up(assignment)
    if assignment.gpus and jax.default_backend() == "cpu" and os.environ.get("JAX_PLATFORMS") != "cpu":
        return Result(How.CANNOT_GO_ON, NO_GPU.format(platform.node()))
    seconds = None if assignment.ends_at is None else max(0.0, assignment.ends_at - time.time())
    with tempfile.TemporaryDirectory(prefix="narkit-cell-") as scratch, budgeted(seconds) as stop:
        try:
            return _run(assignment, SweepDirectory(scratch), mailbox, stop)
        except (CheckpointWriteError, OSError) as error:
            return Result(How.CANNOT_GO_ON, f"{one_line(error)} (on {platform.node()})")


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
    predictor = Predictor.from_records(directory, [])
    if assignment.options.whole_cells and (missing := missing_seconds(cell, directory, predictor, stop)) > 0:
        return Result(How.NO_TIME, missing=missing)
    claim = directory.claim(cell)
    assert claim is not None  # nobody else knows of the folder
    observer = MailboxObserver(mailbox, directory.run(cell), storage)
    ended = run_cell(
        cell, directory, claim, options=assignment.options, stop=stop, observer=observer, predictor=predictor
    )
    jax.clear_caches()
    if ended.how is How.FINISHED:
        weights = directory.weights(cell)
        content = weights.read_bytes() if weights.exists() else None
        return Result(How.FINISHED, record=directory.record(cell).read_bytes(), weights=content)
    if ended.how is How.STOPPED and storage is not None:
        storage.push(directory.run(cell))
    return Result(ended.how, observer.failure or ended.error, directory.failure(cell) or "", ended.kind)
