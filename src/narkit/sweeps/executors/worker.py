"""`python -m narkit.sweeps.executors.worker`: the process of one cell, told by its standard input what to do."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from narkit.errors import one_line
from narkit.sweeps.cell_run import budgeted, run_assigned
from narkit.sweeps.cells import Cell
from narkit.sweeps.executor import CellOutcome, CellProgress, Ended, SweepObserver
from narkit.sweeps.executors.processes import ENDED, Assignment
from narkit.sweeps.user_code import UserCode
from narkit.training.checkpoint import CheckpointWriteError
from narkit.training.run import keep_compiled_programs


class PipeObserver(SweepObserver):
    """Writes what happens into a pipe, for the observer of the sweep."""

    def __init__(self, pipe: BinaryIO):
        self._pipe = pipe

    def say(self, method: str, *arguments: object) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more; the cell goes on
            pickle.dump((method, arguments), self._pipe)
            self._pipe.flush()

    def cell_begins(self, cell: Cell, step: int, predicted: float | None) -> None:
        self.say("cell_begins", step, predicted)

    def cell_progress(self, cell: Cell, progress: CellProgress) -> None:
        self.say("cell_progress", progress)


@contextlib.contextmanager
def telling(events: int) -> Iterator[PipeObserver]:
    """Opens the observer that writes into this pipe. Messages at the end are dropped if nobody listens."""
    pipe = open(events, "wb")  # noqa: SIM115
    try:
        yield PipeObserver(pipe)
    finally:
        with contextlib.suppress(OSError):
            pipe.close()


def main() -> None:
    user_code: UserCode = _next_message()
    user_code.install()
    given: Assignment = _next_message()
    keep_compiled_programs()
    with telling(given.events) as observer, budgeted(given.ends_at) as stop:
        try:
            ended = run_assigned(given.cell, given.directory, given.options, stop, observer, given.finished)
        except (CheckpointWriteError, OSError) as error:
            ended = Ended(given.cell, CellOutcome.CANNOT_GO_ON, one_line(error))
        observer.say(ENDED, ended)


def _next_message() -> Any:
    """Reads the next message of the sweep. If the sweep was killed before it sent one, this process ends silently."""
    try:
        return pickle.load(sys.stdin.buffer)
    except (EOFError, pickle.UnpicklingError):
        sys.exit(1)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # at once: a thread that still compiles cannot be stopped, and nobody needs what it makes
