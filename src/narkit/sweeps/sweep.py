"""Sweeps: a grid of runs that survives interruptions, can be done in slices, and by several processes."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import jax
import numpy as np

from narkit.models.serialization import save
from narkit.sweeps.cells import Cell, Claim, SweepDirectory
from narkit.sweeps.failures import Failure, kind_of
from narkit.sweeps.plan import Predictor
from narkit.sweeps.systems import main_rule
from narkit.training.callbacks import Callback
from narkit.training.checkpoint import CheckpointWriteError
from narkit.training.interruption import Interrupted, Interruption, OutOfTime, interruption
from narkit.training.record import RunRecord, Weights
from narkit.training.run import default_threads, keep_compiled_programs, train_until
from narkit.training.trainer import COMPILING, Trainer

SPARE_SECONDS = 5.0  # of a budget, kept for saving
SPARE_SHARE = 1.15  # a cell is taken to need this much more than predicted
WEIGHTS_DTYPE = "bfloat16"


class SweepObserver(Callback):
    """Is told how a sweep goes, and as a callback of runs how a cell goes; every method may stay as it is."""

    def cell_begins(self, cell: Cell, step: int) -> None:
        """A cell is about to run, from this step on."""

    def cell_finished(self, cell: Cell, record: RunRecord, took: float) -> None:
        """Its record has been written."""

    def cell_failed(self, cell: Cell, error: str) -> None:
        """It is marked as failed; the sweep goes on."""

    def cell_stopped(self, cell: Cell, message: str) -> None:
        """A signal or the end of the budget has stopped it; everything is saved."""

    def cell_not_started(self, cell: Cell, missing: float) -> None:
        """With whole cells only: the budget is predicted to be so many seconds too short for it."""


@dataclass(frozen=True)
class SweepOptions:
    """How to run the cells; none of it changes what a record says."""

    budget: float | None = None  # seconds
    whole_cells: bool = False  # start no cell that is predicted not to fit into the budget
    retry_failed: bool = False
    compile_ahead: bool | None = None  # compile the next cell while one trains; None: on accelerators
    weights: frozenset[str] | None = None  # systems whose weights are kept; None: all
    threads: int | None = None
    save_every: float = 30.0


@dataclass
class Outcome:
    """How a sweep ended."""

    finished: list[Cell] = field(default_factory=list)  # by this process
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
    preset: str,
    options: SweepOptions | None = None,
    observer: SweepObserver | None = None,
) -> Outcome:
    """Runs all cells that are neither finished, nor failed, nor in the hands of another process.

    A disk that cannot be written to ends the sweep with `CheckpointWriteError`: no other cell would fare better, and
    what is written is intact. Any other error fails its cell only.
    """
    options = options or SweepOptions()
    directory.check(cells)
    keep_compiled_programs()
    with budgeted(options.budget) as asked:
        return _Sweep(list(cells), directory, preset, options, observer or SweepObserver(), asked).complete()


def budgeted(budget: float | None) -> AbstractContextManager[Interruption]:
    """An interruption when a budget is nearly spent, with time left for saving."""
    seconds = float("inf") if budget is None else budget
    return interruption(max(0.9 * seconds, seconds - SPARE_SECONDS))


class _Ahead:
    """A cell that is claimed, and whose programs are compiled on a thread while another cell trains."""

    def __init__(self, cell: Cell, claim: Claim, threads: int):
        self.cell, self.claim = cell, claim
        self._threads = threads
        self._cancelled = threading.Event()
        self._trainer: Trainer | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._prepare, name=f"{COMPILING}-{cell.name}", daemon=True)
        self._thread.start()

    def _prepare(self) -> None:
        try:
            trainer = Trainer(self.cell.config, threads=self._threads, should_stop=self._cancelled.is_set)
            trainer.prepare()
            self._trainer = trainer
        except Exception as error:  # raised again where the cell runs
            self._error = error

    def trainer(self, asked: Interruption) -> Trainer:
        """The trainer, as soon as it is ready. The time until then counts as compiling, the time before does not."""
        began = time.perf_counter()
        while self._thread.is_alive() and not asked:
            self._thread.join(0.1)
        if self._thread.is_alive():
            raise asked.error("stopped while it was compiled")
        if self._error is not None:
            raise self._error
        assert self._trainer is not None
        timings = self._trainer.progress.timings
        waited = time.perf_counter() - began
        timings.compiling_ahead, timings.compiling = max(0.0, timings.compiling - waited), waited
        return self._trainer

    def give_up(self) -> None:
        """Lets others have the cell. Programs that are being compiled cannot be stopped; no further ones are begun."""
        self._cancelled.set()
        self.claim.release()


class _Begun(Callback):
    """Has the next cell compiled once training has begun."""

    def __init__(self, begun: Callable[[], None]):
        self._begun = begun

    def on_start(self, trainer: Trainer) -> None:
        self._begun()

    def on_test(self, trainer: Trainer) -> None:
        self._begun()


class _Sweep:
    """One call of `run_sweep`."""

    def __init__(
        self,
        cells: list[Cell],
        directory: SweepDirectory,
        preset: str,
        options: SweepOptions,
        observer: SweepObserver,
        asked: Interruption,
    ):
        self.cells, self.directory, self.preset = cells, directory, preset
        self.options, self.observer, self.asked = options, observer, asked
        self.threads = options.threads or default_threads()
        self.compile_ahead = jax.default_backend() != "cpu" if options.compile_ahead is None else options.compile_ahead
        self.predictor = Predictor.from_records(directory, cells)
        self.ahead: _Ahead | None = None
        self.current_ends = time.monotonic()  # as predicted
        self.tried: set[str] = set()  # cells that this process has begun, finished or not
        self.too_long: list[Cell] = []  # cells that do not fit into what is left of the budget
        self.outcome = Outcome()

    def complete(self) -> Outcome:
        self._clean_up()
        try:
            while not (self.asked or self.outcome.device_lost) and (taken := self._next()) is not None:
                self._run(*taken)
        finally:
            if self.ahead is not None:
                self.ahead.give_up()
        self.outcome.signal_number = self.asked.signal_number
        self.outcome.out_of_time = bool(self.asked) and self.asked.signal_number is None
        return self.outcome

    def _clean_up(self) -> None:
        """Removes what a process left that was killed after it had written a record."""
        for cell in self.cells:
            if self.directory.record(cell).exists() and self.directory.has_left_overs(cell):
                self.directory.claim(cell)

    def _next(self) -> tuple[Cell, Claim, _Ahead | None] | None:
        if self.ahead is not None:
            ahead, self.ahead = self.ahead, None
            if self._missing_seconds(ahead.cell, 0.0, compiled=True) <= 0:
                return ahead.cell, ahead.claim, ahead
            ahead.give_up()  # the cell before it took longer than predicted
        taken = self._claim_next(0.0)
        if taken is not None:
            return *taken, None
        for cell in self.too_long:
            self.outcome.not_started.append(cell)
            self.observer.cell_not_started(cell, self._missing_seconds(cell, 0.0))
        return None

    def _claim_next(self, starts_in: float) -> tuple[Cell, Claim] | None:
        """The first cell that is free and, where only whole cells are wanted, fits into the time."""
        self.too_long = []
        for cell in self.cells:
            if cell.name in self.tried or self.directory.record(cell).exists():
                continue
            if self.directory.failure(cell) is not None and not self.options.retry_failed:
                continue
            if self._missing_seconds(cell, starts_in) > 0:
                self.too_long.append(cell)
                continue
            claim = self.directory.claim(cell)
            if claim is not None:
                return cell, claim
        return None

    def _missing_seconds(self, cell: Cell, starts_in: float, compiled: bool = False) -> float:
        """How much longer the budget would have to be for a cell, where only whole ones are wanted."""
        if not self.options.whole_cells:
            return 0.0
        predicted = self.predictor.predict(cell, self.directory.step(cell))
        needed = predicted.seconds - (predicted.compiling if compiled else 0.0)
        return SPARE_SHARE * needed - (self.asked.deadline - time.monotonic() - starts_in)

    def _begin_ahead(self) -> None:
        if not self.compile_ahead or self.ahead is not None or self.asked:
            return
        taken = self._claim_next(max(0.0, self.current_ends - time.monotonic()))
        if taken is not None:
            # Few threads: those that make data for the cell in hand need the processor more.
            self.ahead = _Ahead(*taken, max(1, self.threads // 3))

    def _run(self, cell: Cell, claim: Claim, ahead: _Ahead | None) -> None:
        self.tried.add(cell.name)
        step = self.directory.step(cell)
        self.observer.cell_begins(cell, step)
        began = time.monotonic()
        self.current_ends = began + self.predictor.predict(cell, step).seconds
        try:
            self.directory.forget_failure(cell)
            record = self._train(cell, ahead)
            record = finish_cell(self.directory, cell, record, self.preset, self._keeps_weights(cell))
        except (Interrupted, OutOfTime) as stop:
            claim.release()
            self.observer.cell_stopped(cell, str(stop))
        except (CheckpointWriteError, OSError):
            claim.release()
            raise
        except Exception as error:
            self.directory.fail(cell, traceback.format_exc())
            claim.release()
            self.outcome.failed.append(cell)
            self.outcome.device_lost = kind_of(str(error)) is Failure.DEVICE
            self.observer.cell_failed(cell, f"{type(error).__name__}: {error}")
        else:
            claim.finish()
            self.outcome.finished.append(cell)
            self.predictor.learn(record)
            self.observer.cell_finished(cell, record, time.monotonic() - began)
        self._let_go()

    def _train(self, cell: Cell, ahead: _Ahead | None) -> RunRecord:
        def make_trainer() -> Trainer:
            return Trainer(cell.config, threads=self.threads) if ahead is None else ahead.trainer(self.asked)

        return train_until(
            self.asked,
            cell.config,
            make_trainer,
            self.directory.run(cell),
            callbacks=[self.observer, _Begun(self._begin_ahead)],
            save_every=self.options.save_every,
        )

    def _keeps_weights(self, cell: Cell) -> bool:
        return self.options.weights is None or cell.system in self.options.weights

    def _let_go(self) -> None:
        """Frees the programs of a cell; on the CPU a process that keeps hundreds runs out of memory mappings."""
        if self.ahead is None:
            jax.clear_caches()
        gc.collect()


def finish_cell(directory: SweepDirectory, cell: Cell, record: RunRecord, preset: str, keep_weights: bool) -> RunRecord:
    """Writes the weights and then the record, each whole or not at all: where there is a record, all is there."""
    path = directory.record(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = None
    if keep_weights:
        rule = main_rule(cell.config)
        seed = best_seed(record, rule)
        file = directory.weights(cell)
        save(record.reasoner(rule, seed), file, dtype=WEIGHTS_DTYPE)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        weights = Weights(file.name, rule, seed, WEIGHTS_DTYPE, digest)
    complete = dataclasses.replace(record, preset=preset, weights=weights)
    complete.save(path)
    return complete


def best_seed(record: RunRecord, rule: str) -> int:
    """The seed that validates best under a rule; of equal ones that with the lowest validation loss, then the first.

    Never by test: the score of the best seed on the test split is not an honest one.
    """
    chosen = record.selected[rule]
    points = {point.step: point for point in record.curve}
    weights, validation = record.rules[rule].weights, record.rules[rule].validation or record.config.validations[0].name
    losses = [
        points[step].of(weights)[1][validation][row] if step in points else None
        for row, step in enumerate(chosen.steps)
    ]
    keys = [
        (-score, np.inf if loss is None or not np.isfinite(loss) else loss, row)
        for row, (score, loss) in enumerate(zip(chosen.scores, losses, strict=True))
    ]
    return record.config.seeds[min(keys)[-1]]
