"""Several cells at a time, each in a process of its own: together they fill a device that one leaves idle.

Nothing here may start JAX's backend: it would take memory of the device for a process that computes nothing.
"""

from __future__ import annotations

import contextlib
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

from narkit.sweeps.cells import Cell, SweepDirectory
from narkit.sweeps.executor import CellOutcome, Context, Ended, Executor, Failure, SweepOptions, Task
from narkit.sweeps.user_code import UserCode
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
COMMAND = (sys.executable, "-m", "narkit.sweeps.executors.worker")
ENOUGH = 7  # finished cells that predictions learn from

ENDED = "ended"  # what a process says at last, with an `Ended`

Events = queue.SimpleQueue[tuple[Cell, str, tuple[Any, ...]]]
"""The messages of processes: the cell, the method of the observer to call, and its arguments."""


@dataclass(frozen=True)
class Assignment:
    """The task of a process: a cell, and the options of its run."""

    cell: Cell
    directory: SweepDirectory
    options: SweepOptions
    ends_at: float | None  # the budget's end, as `time.time` has it: what loading JAX takes counts
    finished: tuple[Cell, ...]  # some of the sweep, which tell how long cells take on this device
    events: int  # the file descriptor that it tells its progress to, and at last how the cell ended


class Processes(Executor):
    """Processes on this machine, which share its device.

    A process claims its cell itself and goes on with it even if this one is killed. What it has to say comes through a
    pipe, at last how its cell ended. If it dies before that, the sweep's folder and its exit code tell.
    """

    def __init__(self, processes: int, command: Sequence[str] = COMMAND):
        self.slots, self.command = processes, tuple(command)
        self.workers: list[_Worker] = []
        self.events: Events = queue.SimpleQueue()

    def open(self, context: Context) -> None:
        self.context = context
        threads = context.options.threads or max(1, min(default_threads(), (os.cpu_count() or 1) // self.slots))
        self.options = replace(context.options, threads=threads)
        self.user_code = UserCode.of(context.cells)
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
        # If nobody reads this, it has ended already, which is looked into as for any other.
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pickle.dump(self.user_code, pipe)
            pickle.dump(assignment, pipe)
        self.workers.append(_Worker(task.cell, process, reading, self.events))
        return None

    def wait(self) -> list[Ended]:
        while not self.context.stop:
            ended = [worker for worker in self.workers if worker.process.poll() is not None]
            self._pass_on(0.0 if ended else 0.1)
            if ended:
                return [self._end(worker) for worker in ended]
        return []

    def close(self) -> list[Ended]:
        """Asks all processes to save and end, and waits for them."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGTERM)
        while any(worker.process.poll() is None for worker in self.workers):
            self._pass_on(0.1)
        for worker in self.workers:
            worker.reader.join()
        self._pass_on(0.0)
        return [worker.ended for worker in self.workers if worker.ended is not None]

    def _end(self, worker: _Worker) -> Ended:
        worker.reader.join()
        self._pass_on(0.0)
        self.workers.remove(worker)
        ended = worker.ended or self._without_a_word(worker)
        if ended.how is CellOutcome.FINISHED:
            self.finished.append(worker.cell)
        return ended

    def _without_a_word(self, worker: _Worker) -> Ended:
        """Returns the end of a cell whose process could not report it any more."""
        cell, code, directory = worker.cell, worker.process.returncode, self.context.directory
        if directory.record(cell).exists():
            return Ended(cell, CellOutcome.FINISHED, took=time.monotonic() - worker.began)
        ending = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        error = f"its process ended with {ending}"
        directory.fail(cell, error)
        return Ended(cell, CellOutcome.FAILED, error, Failure.DEVICE)

    def _pass_on(self, seconds: float) -> None:
        """Tells the observer what the processes have said, waiting so long for the first of it."""
        with contextlib.suppress(queue.Empty):
            while True:
                cell, method, arguments = self.events.get(timeout=seconds)
                getattr(self.context.observer, method)(cell, *arguments)
                seconds = 0.0


class _Worker:
    """A process, and a thread that reads what it says."""

    def __init__(self, cell: Cell, process: subprocess.Popen, reading: int, events: Events):
        self.cell, self.process = cell, process
        self.ended: Ended | None = None  # as it has said
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
                if method == ENDED:
                    (self.ended,) = arguments
                else:
                    events.put((self.cell, method, arguments))
