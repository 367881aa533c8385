"""Sweeps: a grid of runs that survives interruptions, can be done in slices, and by several processes.

Which cell is next, what happens after a failure and when it is over is decided here; where cells run is the matter of
an executor (`narkit.sweeps.executors`), and what happens in a cell that of `narkit.sweeps.cell_run`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from narkit.sweeps.cell_run import budgeted
from narkit.sweeps.cells import Cell, SweepDirectory
from narkit.sweeps.executor import CellOutcome, Context, Ended, Executor, Failure, SweepObserver, SweepOptions, Task
from narkit.sweeps.lengths import mean_training_steps
from narkit.training.interruption import Interruption
from narkit.training.record import RunRecord
from narkit.training.run_directory import RunDirectoryError

MOST_TRIES = 3  # of a cell that lost the device


@dataclass
class Outcome:
    """The outcome of a sweep."""

    finished: list[Cell] = field(default_factory=list)  # by this sweep
    failed: list[Cell] = field(default_factory=list)
    not_started: list[Cell] = field(default_factory=list)  # that did not fit into the budget
    out_of_time: bool = False
    signal_number: int | None = None
    device_lost: bool = False  # this process cannot use it any more, so the cells that are left were not tried
    cannot_go_on: bool = False  # the disk is full, say, and no other cell would have fared better


def run_sweep(
    cells: Sequence[Cell],
    directory: SweepDirectory,
    *,
    options: SweepOptions | None = None,
    observer: SweepObserver | None = None,
    executor: Executor | None = None,
) -> Outcome:
    """Runs all cells that are neither finished, nor failed, nor in the hands of another sweep; by default here.

    A disk that cannot be written to ends the sweep: no other cell would fare better, and what is written is intact. If
    it is this process that cannot write, with `CheckpointWriteError`. Any other error fails its cell only.
    """
    options = options or SweepOptions()
    directory.check(cells)
    ends_at = None if options.budget is None else time.time() + options.budget
    if executor is None:
        from narkit.sweeps.executors.here import Here

        executor = Here()
    with budgeted(ends_at) as stop:
        sweep = _Sweep(list(cells), directory, options, observer or SweepObserver(), executor, stop)
        return sweep.complete(ends_at)


@dataclass
class _Sweep:
    """One call of `run_sweep`.

    A cell that runs out of memory beside others is run once more by itself, after all others. What has lost its device
    may have taken along what ran beside it, so no other cell is begun before all have ended; then they go on from their
    checkpoints.
    """

    cells: list[Cell]
    directory: SweepDirectory
    options: SweepOptions
    observer: SweepObserver
    executor: Executor
    stop: Interruption
    queue: dict[str, Cell] = field(default_factory=dict)
    alone: list[Cell] = field(default_factory=list)  # that wait until no other is left
    running: dict[str, Task] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    no_time: dict[str, Ended] = field(default_factory=dict)  # cells that did not fit when they were last looked at
    is_draining: bool = False  # no cell is begun before all have ended
    outcome: Outcome = field(default_factory=Outcome)

    def complete(self, ends_at: float | None) -> Outcome:
        self._clean_up()
        longest_first = sorted(self.cells, key=self._steps_left, reverse=True)
        self.queue = {cell.name: cell for cell in (longest_first if self.executor.slots > 1 else self.cells)}
        context = Context(
            self.cells, self.directory, self.options, self.observer, self.stop, ends_at, self._start_what_has_room
        )
        try:
            self.executor.open(context)
            while not (self.stop or self.outcome.device_lost or self.outcome.cannot_go_on):
                self._start_what_has_room()
                if not self.running:
                    break
                for ended in self.executor.wait():
                    self._see_to(ended)
        finally:
            for ended in self.executor.close():
                self._tell(ended)
        self._tell_what_was_not_started()
        self.outcome.signal_number = self.stop.signal_number
        self.outcome.out_of_time = bool(self.stop) and self.stop.signal_number is None
        return self.outcome

    def _clean_up(self) -> None:
        """Removes what a process left that was killed after it had written a record."""
        for cell in self.cells:
            if self.directory.record(cell).exists() and self.directory.has_left_overs(cell):
                self.directory.claim(cell)

    def _steps_left(self, cell: Cell) -> float:
        return mean_training_steps(cell.config) * (cell.config.steps - self.directory.step(cell))

    def _start_what_has_room(self) -> None:
        """Begins as many cells as may run now."""
        if self.running and (self.is_draining or self._runs_by_itself()):
            return
        self.is_draining = False
        for cell in list(self.queue.values()):
            if not self.executor.has_room():
                return
            self._start(cell, alone=self.executor.slots == 1)
        if self.alone and not self.running:
            self._start(self.alone.pop(0), alone=True)

    def _runs_by_itself(self) -> bool:
        return self.executor.slots > 1 and any(task.alone for task in self.running.values())

    def _start(self, cell: Cell, alone: bool) -> None:
        if self.directory.record(cell).exists():
            self._forget(cell)
            return
        if not (self.options.retry_failed or cell.name in self.tries) and self.directory.failure(cell) is not None:
            return
        task = Task(cell, alone)
        refused = self.executor.start(task)
        if refused is None:
            self._forget(cell)
            self.running[cell.name] = task
            self.tries[cell.name] = self.tries.get(cell.name, 0) + 1
        elif refused.how is CellOutcome.NO_TIME:
            self.no_time[cell.name] = refused

    def _forget(self, cell: Cell) -> None:
        self.no_time.pop(cell.name, None)
        self.queue.pop(cell.name, None)

    def _see_to(self, ended: Ended) -> None:
        cell, task = ended.cell, self.running.pop(ended.cell.name)
        self._tell(ended)
        if ended.how is CellOutcome.FINISHED:
            self.outcome.finished.append(cell)
        elif ended.how is CellOutcome.FAILED:
            self._after_failure(task, ended.kind)
        elif ended.how is CellOutcome.NO_TIME:
            self.no_time[cell.name] = ended
        elif ended.how is CellOutcome.CANNOT_GO_ON:
            self.outcome.cannot_go_on = True

    def _tell(self, ended: Ended) -> None:
        cell, observer = ended.cell, self.observer
        if ended.how is CellOutcome.FINISHED:
            try:
                record = RunRecord.load(self.directory.record(cell))
            except RunDirectoryError as error:  # another process may have moved it; `narkit records check` looks closer
                observer.remark(f"{cell.name} is finished, but its record cannot be read: {error}")
            else:
                observer.cell_finished(cell, record, ended.took)
        elif ended.how is CellOutcome.FAILED:
            observer.cell_failed(cell, ended.error)
        elif ended.how is CellOutcome.STOPPED and ended.error:
            observer.cell_stopped(cell, ended.error)
        elif ended.how is CellOutcome.CANNOT_GO_ON:
            observer.remark(f"Error: {ended.error}")

    def _after_failure(self, task: Task, kind: Failure) -> None:
        cell = task.cell
        if kind is Failure.MEMORY and not task.alone:
            self.observer.remark(f"{cell.name} is run once more by itself, after all others")
            self.alone.append(cell)
        elif kind is Failure.DEVICE and self.executor.isolated and self.tries[cell.name] < MOST_TRIES:
            self.observer.remark(f"{cell.name} is run again when the cells beside it have ended")
            self.is_draining = True
            self.queue = {cell.name: cell, **self.queue}
        else:
            self.outcome.failed.append(cell)
            self.outcome.device_lost = kind is Failure.DEVICE and not self.executor.isolated

    def _tell_what_was_not_started(self) -> None:
        if self.stop:
            return
        for ended in self.no_time.values():
            self.outcome.not_started.append(ended.cell)
            self.observer.cell_not_started(ended.cell, ended.missing)
