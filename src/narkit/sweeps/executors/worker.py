"""`python -m narkit.sweeps.executors.worker`: the process of one cell, told by its standard input what to do."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from narkit.errors import one_line
from narkit.sweeps.cell_run import budgeted, missing_seconds, run_cell
from narkit.sweeps.cells import Cell
from narkit.sweeps.executor import CellProgress, SweepObserver
from narkit.sweeps.executors.processes import CANNOT_GO_ON, NO_TIME, Assignment
from narkit.sweeps.plan import Predictor
from narkit.sweeps.user_code import UserCode
from narkit.training.checkpoint import CheckpointWriteError
from narkit.training.interruption import Interruption
from narkit.training.run import keep_compiled_programs


class PipeObserver(SweepObserver):
    """Writes what happens into a pipe, for the observer of the sweep. That a cell is finished is said by its record."""

    def __init__(self, pipe: BinaryIO):
        self._pipe = pipe

    def _say(self, method: str, *arguments: object) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more; the cell goes on
            pickle.dump((method, arguments), self._pipe)
            self._pipe.flush()

    def cell_begins(self, cell: Cell, step: int, predicted: float | None) -> None:
        self._say("cell_begins", step, predicted)

    def cell_progress(self, cell: Cell, progress: CellProgress) -> None:
        self._say("cell_progress", progress)

    def cell_failed(self, cell: Cell, error: str) -> None:
        self._say("cell_failed", error)

    def cell_stopped(self, cell: Cell, message: str) -> None:
        self._say("cell_stopped", message)

    def remark(self, text: str) -> None:
        self._say("remark", text)

    def cell_not_started(self, cell: Cell, missing: float) -> None:
        self._say("cell_not_started", missing)


@contextlib.contextmanager
def telling(events: int) -> Iterator[PipeObserver]:
    """The observer that writes into this pipe. What is left to say at the end goes nowhere if nobody listens."""
    pipe = open(events, "wb")  # noqa: SIM115
    try:
        yield PipeObserver(pipe)
    finally:
        with contextlib.suppress(OSError):
            pipe.close()


def main() -> int:
    user_code: UserCode = _heard()
    user_code.install()
    assignment: Assignment = _heard()
    keep_compiled_programs()
    seconds = None if assignment.ends_at is None else max(0.0, assignment.ends_at - time.time())
    with telling(assignment.events) as observer, budgeted(seconds) as stop:
        try:
            return _run(assignment, observer, stop)
        except (CheckpointWriteError, OSError) as error:
            observer.remark(f"Error: {one_line(error)}")
            return CANNOT_GO_ON


def _heard() -> Any:
    """What the sweep says next. If it was killed before it had said it, this process ends without a word."""
    try:
        return pickle.load(sys.stdin.buffer)
    except (EOFError, pickle.UnpicklingError):
        sys.exit(CANNOT_GO_ON)


def _run(assignment: Assignment, observer: PipeObserver, stop: Interruption) -> int:
    cell, directory = assignment.cell, assignment.directory
    predictor = Predictor.from_records(directory, assignment.finished)
    if assignment.options.whole_cells and (missing := missing_seconds(cell, directory, predictor, stop)) > 0:
        observer.cell_not_started(cell, missing)
        return NO_TIME
    claim = directory.claim(cell)
    if claim is None:
        return 0
    run_cell(cell, directory, claim, options=assignment.options, stop=stop, observer=observer, predictor=predictor)
    return 0  # how it ended stands in the folder


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # at once: a thread that still compiles cannot be stopped, and nobody needs what it makes
