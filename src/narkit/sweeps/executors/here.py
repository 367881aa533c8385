"""Cells in this process, one after the other; on a GPU the next one is compiled while one trains."""

from __future__ import annotations

import gc
import threading
import time
from concurrent import futures

import jax

from narkit.sweeps.cell_run import missing_seconds, run_cell
from narkit.sweeps.cells import Cell, Claim
from narkit.sweeps.executor import CellOutcome, Context, Ended, Executor, Task
from narkit.sweeps.plan import Predictor
from narkit.training.interruption import Interruption
from narkit.training.run import default_threads, keep_compiled_programs
from narkit.training.trainer import COMPILING, Trainer


class Here(Executor):
    """This process. What it loses, such as the device, is lost for all cells."""

    slots = 1
    isolated = False
    waiting: _Waiting | None = None  # claimed, and next

    def open(self, context: Context) -> None:
        keep_compiled_programs()
        self.context, self.options = context, context.options
        wanted = context.options.compile_ahead
        self.compile_ahead = jax.default_backend() != "cpu" if wanted is None else wanted
        self.predictor = Predictor.from_records(context.directory, context.cells)
        self.is_running = self.may_compile = False
        self.current_ends = time.monotonic()  # as predicted

    def has_room(self) -> bool:
        return self.waiting is None and (not self.is_running or (self.may_compile and self.compile_ahead))

    def start(self, task: Task) -> Ended | None:
        starts_in = max(0.0, self.current_ends - time.monotonic()) if self.is_running else 0.0
        if (missing := self._missing_seconds(task.cell, starts_in)) > 0:
            return Ended(task.cell, CellOutcome.NO_TIME, missing=missing)
        claim = self.context.directory.claim(task.cell)
        if claim is None:
            return Ended(task.cell, CellOutcome.TAKEN)
        # Few threads: those that make data for the cell in hand need the processor more.
        threads = max(1, (self.options.threads or default_threads()) // 3)
        self.waiting = (
            _CompiledAhead(task.cell, claim, threads, self.options.devices)
            if self.is_running
            else _Waiting(task.cell, claim)
        )
        return None

    def wait(self) -> list[Ended]:
        assert self.waiting is not None
        waiting, self.waiting = self.waiting, None
        cell, stop, directory = waiting.cell, self.context.stop, self.context.directory
        compiled = isinstance(waiting, _CompiledAhead)
        if (missing := self._missing_seconds(cell, 0.0, compiled)) > 0:  # the cell before it took longer than predicted
            waiting.give_up()
            return [Ended(cell, CellOutcome.NO_TIME, missing=missing)]
        self.is_running, self.may_compile = True, False
        predicted = self.predictor.predict(cell, directory.step(cell))
        self.current_ends = time.monotonic() + (predicted.seconds if predicted.is_known else 0.0)
        try:
            ended = run_cell(
                *(cell, directory, waiting.claim),
                options=self.options,
                stop=stop,
                observer=self.context.observer,
                predictor=self.predictor,
                make_trainer=(lambda: waiting.trainer(stop)) if isinstance(waiting, _CompiledAhead) else None,
                training=self._training,
            )
        finally:
            self.is_running = False
            if self.waiting is None:  # on the CPU a process that keeps hundreds of programs runs out of memory mappings
                jax.clear_caches()
            gc.collect()
        return [ended]

    def close(self) -> list[Ended]:
        if self.waiting is not None:
            self.waiting.give_up()
        return []

    def _missing_seconds(self, cell: Cell, starts_in: float, compiled: bool = False) -> float:
        if not self.options.whole_cells:
            return 0.0
        context = self.context
        return missing_seconds(cell, context.directory, self.predictor, context.stop, starts_in, compiled)

    def _training(self) -> None:
        """Notes that the cell in hand trains: now the next one may be compiled."""
        self.may_compile = True
        if not self.context.stop:
            self.context.more()


class _Waiting:
    """A cell that is claimed and not begun."""

    def __init__(self, cell: Cell, claim: Claim):
        self.cell, self.claim = cell, claim

    def give_up(self) -> None:
        """Lets others have the cell."""
        self.claim.release()


class _CompiledAhead(_Waiting):
    """A waiting cell whose programs are compiled on a thread while another cell trains."""

    def __init__(self, cell: Cell, claim: Claim, threads: int, devices: int):
        super().__init__(cell, claim)
        self._threads, self._devices = threads, devices
        self._cancelled = threading.Event()
        self._made: futures.Future[Trainer] = futures.Future()
        threading.Thread(target=self._prepare, name=f"{COMPILING}-{cell.name}", daemon=True).start()

    def _prepare(self) -> None:
        try:
            stop = self._cancelled.is_set
            trainer = Trainer(self.cell.config, should_stop=stop, threads=self._threads, devices=self._devices)
            trainer.prepare()
            self._made.set_result(trainer)
        except BaseException as error:  # raised again where the cell runs, which waits for one or the other
            self._made.set_exception(error)

    def trainer(self, stop: Interruption) -> Trainer:
        """Returns the trainer as soon as it is ready. Waiting for it counts as compiling, the time before does not."""
        began = time.perf_counter()
        while not self._made.done() and not stop:
            futures.wait([self._made], timeout=0.1)
        if not self._made.done():
            raise stop.error("stopped while it was compiled")
        trainer = self._made.result()
        timings = trainer.progress.timings
        waited = time.perf_counter() - began
        timings.compiling_ahead, timings.compiling = max(0.0, timings.compiling - waited), waited
        return trainer

    def give_up(self) -> None:
        """Begins no further programs; those that are being compiled cannot be stopped. Lets others have the cell."""
        self._cancelled.set()
        super().give_up()
