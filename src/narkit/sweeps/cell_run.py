"""The run of one cell, from its claim to its record: the same wherever it runs."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np

from narkit.models.serialization import save
from narkit.sweeps.cells import Cell, Claim, SweepDirectory
from narkit.sweeps.executor import CellOutcome, CellProgress, Ended, SweepObserver, SweepOptions, kind_of
from narkit.sweeps.manifest import file_digest
from narkit.sweeps.plan import Predictor
from narkit.sweeps.systems import main_rule
from narkit.training.callbacks import Callback
from narkit.training.checkpoint import CheckpointWriteError
from narkit.training.interruption import Interrupted, Interruption, OutOfTime, interruption
from narkit.training.progress import Point
from narkit.training.record import RunRecord, Weights
from narkit.training.run import default_threads, train_until
from narkit.training.trainer import Trainer

SPARE_SECONDS = 5.0  # of a budget, kept for saving
SPARE_SHARE = 1.15  # a cell is taken to need this much more than predicted
WEIGHTS_DTYPE = "bfloat16"
BETWEEN_STEPS = 0.5  # seconds between two reports of progress


def budgeted(ends_at: float | None) -> AbstractContextManager[Interruption]:
    """Interrupts shortly before a budget ends, with time left for saving; the end is as `time.time` has it."""
    seconds = math.inf if ends_at is None else max(0.0, ends_at - time.time())
    return interruption(max(0.9 * seconds, seconds - SPARE_SECONDS))


def run_cell(
    cell: Cell,
    directory: SweepDirectory,
    claim: Claim,
    *,
    options: SweepOptions,
    stop: Interruption,
    observer: SweepObserver,
    predictor: Predictor,
    make_trainer: Callable[[], Trainer] | None = None,
    training: Callable[[], None] = lambda: None,
) -> Ended:
    """Runs a claimed cell to its end, or until `stop` is true, and gives the claim back.

    `make_trainer` may give one whose programs have been compiled before, and `training` is called when training begins.
    A disk that cannot be written to raises `CheckpointWriteError` or `OSError`: no other cell would fare better, and
    what is written is intact. Any other error fails the cell.
    """
    step, began = directory.step(cell), time.monotonic()
    predicted = predictor.predict(cell, step)
    observer.cell_begins(cell, step, predicted.seconds if predicted.is_known else None)

    threads = options.threads or default_threads()
    new_trainer = functools.partial(Trainer, cell.config, threads=threads, devices=options.devices)
    try:
        directory.forget_failure(cell)
        record = train_until(
            stop,
            cell.config,
            make_trainer or new_trainer,
            directory.run(cell),
            callbacks=[_Reporter(cell, observer, training)],
            save_every=options.save_every,
        )
        keeps_weights = options.weights is None or cell.system.name in options.weights
        record = finish_cell(directory, cell, record, keeps_weights)
    except (Interrupted, OutOfTime) as stopped:
        claim.release()
        return Ended(cell, CellOutcome.STOPPED, str(stopped))
    except (CheckpointWriteError, OSError):
        claim.release()
        raise
    except Exception as error:
        directory.fail(cell, traceback.format_exc())
        claim.release()
        text = f"{type(error).__name__}: {error}"
        return Ended(cell, CellOutcome.FAILED, text, kind_of(text))
    claim.finish()
    predictor.learn(record)
    return Ended(cell, CellOutcome.FINISHED, took=time.monotonic() - began)


def run_assigned(
    cell: Cell,
    directory: SweepDirectory,
    options: SweepOptions,
    stop: Interruption,
    observer: SweepObserver,
    finished: Sequence[Cell] = (),
) -> Ended:
    """Claims and runs the one cell that this process was started for, by `run_cell`.

    Cells that are finished in the folder tell how long others take on this device.
    """
    predictor = Predictor.from_records(directory, finished)
    if options.whole_cells and (missing := missing_seconds(cell, directory, predictor, stop)) > 0:
        return Ended(cell, CellOutcome.NO_TIME, missing=missing)
    claim = directory.claim(cell)
    if claim is None:
        return Ended(cell, CellOutcome.TAKEN)
    return run_cell(cell, directory, claim, options=options, stop=stop, observer=observer, predictor=predictor)


def missing_seconds(
    cell: Cell,
    directory: SweepDirectory,
    predictor: Predictor,
    stop: Interruption,
    starts_in: float = 0.0,
    compiled: bool = False,
) -> float:
    """Returns the seconds that the budget lacks for a cell to fit into it whole; not above zero if it fits.

    On a device of which nothing is known yet a cell is taken to fit; a budget that ends before it saves it.
    """
    predicted = predictor.predict(cell, directory.step(cell))
    if not predicted.is_known:
        return 0.0
    needed = predicted.seconds - (predicted.compiling if compiled else 0.0)
    return SPARE_SHARE * needed - (stop.deadline - time.monotonic() - starts_in)


class _Reporter(Callback):
    """Tells the observer of a sweep how a run goes."""

    def __init__(self, cell: Cell, observer: SweepObserver, training: Callable[[], None]):
        self._cell, self._observer, self._training = cell, observer, training
        self._reported_at = 0.0

    def on_prepare(self, trainer: Trainer) -> None:
        self._report("compiling", trainer)

    def on_start(self, trainer: Trainer) -> None:
        self._report("training", trainer)
        self._training()

    def on_step(self, trainer: Trainer) -> None:
        if time.monotonic() - self._reported_at >= BETWEEN_STEPS:
            self._report("training", trainer)

    def on_point(self, trainer: Trainer, point: Point) -> None:
        self._report("training", trainer)

    def on_test(self, trainer: Trainer) -> None:
        self._report("testing", trainer)
        self._training()

    def _report(self, phase: str, trainer: Trainer) -> None:
        self._reported_at = time.monotonic()
        self._observer.cell_progress(self._cell, progress_of(trainer, phase))


def progress_of(trainer: Trainer, phase: str) -> CellProgress:
    """Returns the place of a run as plain numbers. A diverged seed counts neither in the loss nor in the scores."""
    finite = np.isfinite(trainer.latest_loss)
    scores = trainer.progress.curve[-1].scores if trainer.progress.curve and finite.any() else {}
    return CellProgress(
        phase,
        trainer.progress.step,
        trainer.config.steps,
        float(trainer.latest_loss[finite].mean()) if finite.any() else None,
        {name: float(np.array(values)[finite].mean()) for name, values in scores.items()},
    )


def finish_cell(directory: SweepDirectory, cell: Cell, record: RunRecord, keep_weights: bool) -> RunRecord:
    """Writes the weights and then the record, each whole or not at all: where there is a record, all is there."""
    path = directory.record(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = None
    if keep_weights:
        rule = main_rule(cell.config, cell.system)
        seed = best_seed(record, rule)
        file = directory.weights(cell)
        save(record.reasoner(rule, seed), file, dtype=WEIGHTS_DTYPE)
        weights = Weights(file.name, rule, seed, WEIGHTS_DTYPE, file_digest(file))
    system = cell.system.training if cell.system.training != cell.config.processor else None
    complete = dataclasses.replace(record, preset=cell.system.preset, system=system, weights=weights)
    complete.save(path)
    return complete


def best_seed(record: RunRecord, rule: str) -> int:
    """Returns the seed that validates best under a rule; of equal ones the lowest validation loss wins, then the first.

    Never by test: the score of the best seed on the test split is not an honest one.
    """
    chosen = record.selected[rule]
    points = {point.step: point for point in record.curve}
    weights, validation = record.rules[rule].weights, record.rules[rule].validation or record.config.validations[0].name
    keys = []
    for row, (step, score) in enumerate(zip(chosen.steps, chosen.scores, strict=True)):
        loss = points[step].of(weights)[1][validation][row] if step in points else None
        keys.append((-score, np.inf if loss is None or not np.isfinite(loss) else loss, row))
    return record.config.seeds[min(keys)[-1]]
