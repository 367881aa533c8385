"""The executor: the part of a sweep that runs cells somewhere.

`narkit.sweeps.sweep` decides which cell is next, what happens after a failure and when it is over, and knows nothing of
processes or machines. An executor knows nothing of the grid. It has to

- **take a cell** (`start`) with what the cell needs: `Task.alone` asks for all of a device, `narkit.sweeps.memory` says
  how many bytes it will roughly take. It claims the cell in the sweep's folder first, in a process that lives as long
  as the cell's work does, so that two sweeps never work on the same one; if another has it, `start` says `TAKEN`;
- **run the cell by `narkit.sweeps.cell_run.run_cell`**, wherever that is: it trains from the last checkpoint,
  writes weights and record whole or not at all, and turns every error into an `Ended`. An executor without a shared
  disk calls it with a folder of its own, brings both files home, and writes them with `SweepDirectory.keep`;
- **stream progress**: `cell_begins` and `cell_progress` reach the observer of the sweep while the cell runs, in the
  process of the sweep. All else the sweep tells its observer itself;
- **say how each cell ended** (`wait`): with its record written (`FINISHED`), with an error (`FAILED`; a process or
  machine that died without a word counts as `Failure.DEVICE`), asked to stop (`STOPPED`), or with an error that every
  other cell would meet, too (`CANNOT_GO_ON`). It retries nothing: out of memory beside others, the sweep hands the cell
  out once more with `alone`; after a lost device it hands it out again when all others have ended, a few times;
- **end everything** (`close`) on a signal, at the end of a budget, or after an error: cells save and stop, it waits for
  them and says how they ended;
- **carry the user's code** (`narkit.sweeps.user_code`): processors and algorithms from modules of their own are there
  where the cells run.

Results must not depend on where a cell ran: on a CPU its record is the same bit for bit.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from narkit.sweeps.cells import Cell, SweepDirectory
from narkit.training.interruption import Interruption

if TYPE_CHECKING:
    from narkit.training.record import RunRecord


@dataclass(frozen=True)
class SweepOptions:
    """The options of running the cells; none of them changes what a record says."""

    budget: float | None = None  # seconds
    whole_cells: bool = False  # start no cell that is predicted not to fit into the budget
    retry_failed: bool = False
    compile_ahead: bool | None = None  # compile the next cell while one trains; None: on accelerators
    weights: frozenset[str] | None = None  # systems whose weights are kept; None: all
    threads: int | None = None
    save_every: float = 30.0
    devices: int = 1  # among which the seeds and the batches of a cell are shared out


@dataclass(frozen=True)
class CellProgress:
    """The place of a cell within its run. Loss and scores are means over the seeds with a finite loss."""

    phase: str  # "compiling", "training" or "testing"
    step: int
    steps: int
    loss: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)  # of the last validation, by validation set


class SweepObserver:
    """An observer that is told how a sweep goes, in the process of the sweep; every method may stay as it is."""

    def cell_begins(self, cell: Cell, step: int, predicted: float | None) -> None:
        """Is called when a cell is about to run, from this step on, for about so many seconds."""

    def cell_progress(self, cell: Cell, progress: CellProgress) -> None:
        """Is called when a cell has come to another phase or a validation, or some time has passed."""

    def cell_finished(self, cell: Cell, record: RunRecord, took: float) -> None:
        """Is called when the record of a cell has been written."""

    def cell_failed(self, cell: Cell, error: str) -> None:
        """Is called when a cell is marked as failed; the sweep goes on."""

    def cell_stopped(self, cell: Cell, message: str) -> None:
        """Is called when a signal or the end of the budget has stopped a cell; everything is saved."""

    def cell_not_started(self, cell: Cell, missing: float) -> None:
        """Is called, with whole cells only, when the budget is predicted to be so many seconds too short for a cell."""

    def remark(self, text: str) -> None:
        """Is called with other news that a person may want to know, such as that a cell is tried again."""


class Failure(enum.Enum):
    """The kind of a failure: it says whether another try may go better, and under which conditions."""

    MEMORY = "ran out of memory"
    DEVICE = "lost the device"  # its process cannot use it again; with MPS those beside it cannot either
    OTHER = "failed"


def kind_of(error: str) -> Failure:
    """Tells the kind of a failure from a traceback or a message."""
    if "RESOURCE_EXHAUSTED" in error or "MemoryError" in error:  # of the device, of the machine
        return Failure.MEMORY
    return Failure.DEVICE if "CUDA_ERROR" in error else Failure.OTHER


class CellOutcome(enum.Enum):
    """The way in which a cell that was handed to an executor ended."""

    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    TAKEN = "taken by another sweep"
    NO_TIME = "not started"  # with whole cells only: it would not fit into the budget
    CANNOT_GO_ON = "cannot go on"  # the disk is full, say; no other cell would fare better


@dataclass(frozen=True)
class Ended:
    """The end of a cell, or why it was not begun."""

    cell: Cell
    how: CellOutcome
    error: str = ""  # or why it stopped; empty if there is nothing to tell of that
    kind: Failure = Failure.OTHER
    missing: float = 0.0  # seconds of the budget, if there was no time
    took: float = 0.0  # seconds, if it is finished


@dataclass(frozen=True)
class Task:
    """A cell to run; `alone` if nothing else may run on its device."""

    cell: Cell
    alone: bool


@dataclass(frozen=True)
class Context:
    """The part of a sweep that an executor needs to know."""

    cells: Sequence[Cell]  # all of the sweep
    directory: SweepDirectory
    options: SweepOptions
    observer: SweepObserver
    stop: Interruption  # true as soon as everything is to end
    ends_at: float | None  # the end of the budget, as `time.time` has it
    more: Callable[[], None]  # to be called when `has_room` has become true while `wait` runs


class Executor(abc.ABC):
    """Runs cells somewhere; see the beginning of this file."""

    slots: int = 1  # how many cells run at a time; of several, the sweep hands out the longest first
    isolated: bool = True  # whether the executor can still run cells after one has lost its device

    @abc.abstractmethod
    def open(self, context: Context) -> None:
        """Gets ready; called once, before anything else."""

    @abc.abstractmethod
    def has_room(self) -> bool:
        """Returns whether another cell can be started now."""

    @abc.abstractmethod
    def start(self, task: Task) -> Ended | None:
        """Takes a cell. Returns None if it did; else why it did not: `TAKEN` or `NO_TIME`."""

    @abc.abstractmethod
    def wait(self) -> list[Ended]:
        """Waits until a cell has ended, or `stop` is true; meanwhile tells the observer how all go."""

    @abc.abstractmethod
    def close(self) -> list[Ended]:
        """Ends whatever still runs, saved, and waits for it; says how it ended, as far as that is known.

        It is called once, after `open`, even if that has raised.
        """
