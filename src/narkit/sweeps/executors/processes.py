"""Several cells at a time, each in a process of its own: together they fill a device that one leaves idle.

Nothing here may start JAX's backend: it would take memory of the device for a process that computes nothing.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from narkit.sweeps.cells import Cell, State, SweepDirectory
from narkit.sweeps.executor import Context, Ended, Executor, Failure, How, SweepOptions, Task, kind_of
from narkit.sweeps.user_code import UserCode
from narkit.training.record import RunRecord
from narkit.training.run import default_threads
from narkit.training.run_directory import RunDirectoryError

SHARED_MEMORY = 0.88  # of the device's memory; drivers and compiled programs need some for each process
MEMORY_VARIABLES = (
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_CLIENT_ALLOCATOR",
)
COMMAND = (sys.executable, "-m", "narkit.sweeps.executors.worker")
ENOUGH = 7  # finished cells that predictions learn from
CANNOT_GO_ON = 3  # the exit code of a process after errors that every other cell would meet, too: the disk is full
NO_TIME = 4  # and of one whose cell would not have fitted into the budget

Events = queue.SimpleQueue[tuple[Cell, str, tuple[Any, ...]]]
"""What processes say: of which cell, the method of the observer to call, and its arguments."""


@dataclass(frozen=True)
class Assignment:
    """What a process is to do: a cell, and how to run it."""

    cell: Cell
    directory: SweepDirectory
    options: SweepOptions
    ends_at: float | None  # the budget's end, as `time.time` has it: what loading JAX takes counts
    finished: tuple[Cell, ...]  # some of the sweep, which tell how long cells take on this device
    events: int  # the file descriptor that it tells its progress to


class Processes(Executor):
    """Processes on this machine, which share its device.

    A process claims its cell itself and goes on with it even if this one is killed. What it has to say comes through a
    pipe; how it ended is read from the sweep's folder and its exit code, which are there whatever happens to it.
    """

    def __init__(self, processes: int, command: Sequence[str] = COMMAND):
        self.slots, self.command = processes, tuple(command)

    def open(self, context: Context) -> None:
        self.context = context
        threads = context.options.threads or max(1, min(default_threads(), (os.cpu_count() or 1) // self.slots))
        # Which failed cells are run again is decided by the sweep, and the budget's end is told as a time of day.
        self.options = replace(context.options, budget=None, compile_ahead=False, threads=threads)
        self.user_code = UserCode.of(context.cells)
        self.events: Events = queue.SimpleQueue()
        self.workers: list[_Worker] = []
        done = [cell for cell in context.cells if context.directory.record(cell).exists()]
        self.finished: deque[Cell] = deque(done, maxlen=ENOUGH)

    def has_room(self) -> bool:
        return len(self.workers) < self.slots

    def start(self, task: Task) -> Ended | None:
        environment = dict(os.environ)
        if not task.alone and not any(name in environment for name in MEMORY_VARIABLES):
            environment[MEMORY_VARIABLES[0]] = f"{SHARED_MEMORY / self.slots:.3f}"
        reading, writing = os.pipe()
        # A session of its own: Ctrl-C in a terminal goes to all processes there, and a second signal ends at once.
        process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, env=environment, start_new_session=True, pass_fds=(writing,)
        )
        os.close(writing)
        assignment = Assignment(
            task.cell, self.context.directory, self.options, self.context.ends_at, tuple(self.finished), writing
        )
        assert process.stdin is not None
        try:
            with process.stdin as pipe:
                pickle.dump(self.user_code, pipe)
                pickle.dump(assignment, pipe)
        except BrokenPipeError:  # it has ended already, which is looked into as for any other
            pass
        self.workers.append(_Worker(task.cell, process, reading, self.events))
        return None

    def wait(self) -> list[Ended]:
        while not self.context.stop:
            ended = [worker for worker in self.workers if worker.process.poll() is not None]
            self._pass_on(0.0 if ended else 0.1)
            if ended:
                return [self._end(worker) for worker in ended]
        return []

    def close(self) -> None:
        """Asks all processes to save and end, and waits for them."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGTERM)
        while any(worker.process.poll() is None for worker in self.workers):
            self._pass_on(0.1)
        for worker in self.workers:
            worker.reader.join()
        self._pass_on(0.0)

    def _end(self, worker: _Worker) -> Ended:
        worker.reader.join()
        self._pass_on(0.0)
        self.workers.remove(worker)
        cell, code, directory = worker.cell, worker.process.returncode, self.context.directory
        state = directory.state(cell)
        if state is State.FINISHED:
            self.finished.append(cell)
            self._tell_finished(cell, time.monotonic() - worker.began)
            return Ended(cell, How.FINISHED)
        if code == CANNOT_GO_ON:
            return Ended(cell, How.CANNOT_GO_ON)
        if code == NO_TIME:
            return Ended(cell, How.NO_TIME, missing=worker.missing)
        if state is State.FAILED:
            error = directory.failure(cell) or ""
            return Ended(cell, How.FAILED, error, kind_of(error))
        if code != 0:
            ending = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            error = f"its process ended with {ending}"
            directory.fail(cell, error)
            self.context.observer.cell_failed(cell, error)
            return Ended(cell, How.FAILED, error, Failure.DEVICE)
        return Ended(cell, How.TAKEN if state is State.RUNNING else How.STOPPED)

    def _tell_finished(self, cell: Cell, took: float) -> None:
        try:
            record = RunRecord.load(self.context.directory.record(cell))
        except RunDirectoryError as error:  # another process may have moved it; `narkit records check` looks closer
            self.context.observer.remark(f"{cell.name} is finished, but its record cannot be read: {error}")
        else:
            self.context.observer.cell_finished(cell, record, took)

    def _pass_on(self, seconds: float) -> None:
        """Tells the observer what the processes have said, waiting so long for the first of it."""
        try:
            said = self.events.get(timeout=seconds) if seconds else self.events.get_nowait()
            while True:
                cell, method, arguments = said
                if method == "cell_not_started":  # told by the sweep, when nothing else is left
                    for worker in self.workers:
                        if worker.cell == cell:
                            worker.missing = arguments[0]
                elif method == "remark":
                    self.context.observer.remark(*arguments)
                else:
                    getattr(self.context.observer, method)(cell, *arguments)
                said = self.events.get_nowait()
        except queue.Empty:
            pass


class _Worker:
    """A process, and a thread that reads what it says."""

    def __init__(self, cell: Cell, process: subprocess.Popen, reading: int, events: Events):
        self.cell, self.process, self.missing = cell, process, 0.0
        self.began = time.monotonic()
        self.reader = threading.Thread(target=self._read, args=(reading, events), daemon=True)
        self.reader.start()

    def _read(self, reading: int, events: Events) -> None:
        with open(reading, "rb") as pipe:
            while True:
                try:
                    method, arguments = pickle.load(pipe)
                except (EOFError, pickle.UnpicklingError):  # it has ended, maybe in the midst of a word
                    return
                events.put((self.cell, method, arguments))
