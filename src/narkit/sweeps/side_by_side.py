"""Several cells of a sweep at a time, each in a process of its own: together they fill a device that one leaves idle.

Nothing here may start JAX's backend: it would take memory of the device for a process that computes nothing.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from narkit.sweeps.cells import Cell, State, SweepDirectory
from narkit.sweeps.failures import Failure, kind_of
from narkit.sweeps.lengths import mean_training_steps
from narkit.sweeps.sweep import Outcome, SweepOptions, budgeted
from narkit.training.interruption import Interruption
from narkit.training.run import default_threads

SHARED_MEMORY = 0.88  # of the device's memory; drivers and compiled programs need some for each process
MEMORY_VARIABLES = (
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_CLIENT_ALLOCATOR",
)
MOST_TRIES = 3  # of a cell whose process lost the device
COMMAND = (sys.executable, "-m", "narkit.cli.sweep_cell")
CANNOT_GO_ON = 3  # the exit code of a process after errors that every other cell would meet, too: the disk is full


@dataclass(frozen=True)
class Order:
    """What a process is to do: a cell, and how to run it."""

    cell: Cell
    cells: list[Cell]  # of the whole sweep, for the display
    directory: SweepDirectory
    options: SweepOptions  # without a budget
    ends_at: float | None  # the budget's end, as `time.time` has it: what loading JAX takes counts


@dataclass
class _Worker:
    cell: Cell
    process: subprocess.Popen
    is_alone: bool


class SideBySide:
    """Runs the cells of a sweep, so many at a time, the longest first.

    A cell that runs out of memory beside others is run once more by itself, after all others. A process that loses the
    device may have taken those beside it along, so no other is begun before all have ended; then their cells go on
    from their checkpoints.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        directory: SweepDirectory,
        processes: int,
        *,
        options: SweepOptions,
        tell: Callable[[str], None],
        command: Sequence[str] = COMMAND,
    ):
        directory.check(cells)
        self.cells, self.directory, self.processes = list(cells), directory, processes
        self.tell, self.command, self.budget = tell, command, options.budget
        threads = options.threads or max(1, min(default_threads(), (os.cpu_count() or 1) // processes))
        # Which failed cells are run again is decided here.
        self.options = replace(options, budget=None, retry_failed=True, compile_ahead=False, threads=threads)
        self.ends_at = None if options.budget is None else time.time() + options.budget
        self.queue = [cell for cell in cells if self._is_wanted(cell, options.retry_failed)]
        self.queue.sort(key=self._steps_left, reverse=True)
        self.alone: list[Cell] = []  # that wait until no other is left
        self.tries: dict[str, int] = {}
        self.workers: list[_Worker] = []
        self.is_draining = False  # no process is begun before all have ended
        self.outcome = Outcome()

    def run(self) -> Outcome:
        with budgeted(self.budget) as asked:
            try:
                while not asked and not self.outcome.cannot_go_on:
                    self._begin()
                    if not self.workers:
                        break
                    self._collect(asked)
            finally:
                self._end_all()
        self.outcome.signal_number = asked.signal_number
        self.outcome.out_of_time = bool(asked) and asked.signal_number is None
        return self.outcome

    def _is_wanted(self, cell: Cell, retry_failed: bool) -> bool:
        state = self.directory.state(cell)
        return state in (State.LEFT, State.INTERRUPTED) or (state is State.FAILED and retry_failed)

    def _steps_left(self, cell: Cell) -> float:
        return mean_training_steps(cell.config) * (cell.config.steps - self.directory.step(cell))

    def _begin(self) -> None:
        """Begins as many processes as may run now."""
        if self.is_draining and self.workers:
            return
        self.is_draining = False
        while self.queue and len(self.workers) < self.processes and not any(w.is_alone for w in self.workers):
            self._start(self.queue.pop(0), is_alone=False)
        if self.alone and not self.workers:
            self._start(self.alone.pop(0), is_alone=True)

    def _start(self, cell: Cell, is_alone: bool) -> None:
        self.tries[cell.name] = self.tries.get(cell.name, 0) + 1
        environment = dict(os.environ)
        if not is_alone and not any(name in environment for name in MEMORY_VARIABLES):
            environment[MEMORY_VARIABLES[0]] = f"{SHARED_MEMORY / self.processes:.3f}"
        # A session of its own: Ctrl-C in a terminal goes to all processes there, and a second signal ends at once.
        process = subprocess.Popen(self.command, stdin=subprocess.PIPE, env=environment, start_new_session=True)
        order = Order(cell, self.cells, self.directory, self.options, self.ends_at)
        assert process.stdin is not None
        try:
            with process.stdin as pipe:
                pickle.dump(order, pipe)
        except BrokenPipeError:  # it has ended already, which is looked into as for any other
            pass
        self.workers.append(_Worker(cell, process, is_alone))

    def _collect(self, asked: Interruption) -> None:
        """Waits until a process has ended, or the sweep is to, and sees to the cells of those that have."""
        while not asked:
            ended = [worker for worker in self.workers if worker.process.poll() is not None]
            if ended:
                for worker in ended:
                    self.workers.remove(worker)
                    self._see_to(worker)
                return
            time.sleep(0.1)

    def _see_to(self, worker: _Worker) -> None:
        cell, code = worker.cell, worker.process.returncode
        state = self.directory.state(cell)
        if state is State.FINISHED:
            self.outcome.finished.append(cell)
        elif code == CANNOT_GO_ON:
            self.outcome.cannot_go_on = True
        elif state is State.FAILED:
            self._after_failure(worker, kind_of(self.directory.failure(cell) or ""))
        elif code != 0:
            self.directory.fail(cell, f"its process ended with {_ending(code)}")
            self.tell(f"{cell.name} FAILED: its process ended with {_ending(code)}")
            self._after_failure(worker, Failure.DEVICE)
        elif state is not State.RUNNING:  # else another sweep has it
            self.outcome.not_started.append(cell)

    def _after_failure(self, worker: _Worker, kind: Failure) -> None:
        cell = worker.cell
        if kind is Failure.MEMORY and not worker.is_alone:
            self.tell(f"{cell.name} is run once more by itself, after all others")
            self.alone.append(cell)
        elif kind is Failure.DEVICE and self.tries[cell.name] < MOST_TRIES:
            self.tell(f"{cell.name} is run again when the processes beside it have ended")
            self.is_draining = True
            self.queue.insert(0, cell)
        else:
            self.outcome.failed.append(cell)

    def _end_all(self) -> None:
        """Asks all processes to save and end, and waits for them."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGTERM)
        for worker in self.workers:
            worker.process.wait()


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
