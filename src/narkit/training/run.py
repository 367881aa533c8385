"""`narkit.train`: a run from its configuration to its record, in a folder that it can be resumed from."""

from __future__ import annotations

import datetime
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path

import jax

from narkit import machine
from narkit.compiler import keep_compiled_programs as keep_compiled_programs
from narkit.training.checkpoint import Checkpoints, CheckpointWriteError
from narkit.training.config import TrainConfig
from narkit.training.evaluation import Scores
from narkit.training.interruption import Interruption, interruption
from narkit.training.record import Chosen, RunRecord
from narkit.training.run_directory import RunDirectory
from narkit.training.trainer import StoppedTraining, Trainer

PACKAGES = ("narkit", "jax", "jaxlib", "equinox", "optax", "orbax-checkpoint", "numpy", "numba")


class Observer:
    """Is told how a run goes; every method may be left as it is."""

    def preparing(self, trainer: Trainer) -> None:
        """Programs are about to be compiled."""

    def started(self, trainer: Trainer) -> None:
        """Training begins, at the step that `trainer.progress` says."""

    def step(self, trainer: Trainer) -> None:
        """A step is done, or will be in a moment."""

    def point(self, trainer: Trainer) -> None:
        """A validation is done; it is the last point of `trainer.progress.curve`."""

    def testing(self, trainer: Trainer) -> None:
        """Training is over, the test begins."""


def train(
    config: TrainConfig,
    out: str | os.PathLike | None = None,
    *,
    observer: Observer | None = None,
    threads: int | None = None,
    save_every: float = 30.0,
) -> RunRecord:
    """Trains all seeds of a configuration and scores what every selection rule chose.

    - `out`: a folder to keep checkpoints, metrics and the record in. If it holds a run with the same configuration,
      that one goes on from its last checkpoint; with another configuration it is refused.
    - `observer`: is told how the run goes.
    - `threads`: that make data and compile; by default one per core, at most eight.
    - `save_every`: seconds between checkpoints, at least. They are written after validations, at the end, and before
      a run stops because of Ctrl-C or SIGTERM, which then raises `Interrupted`.
    """
    keep_compiled_programs()
    make_trainer = functools.partial(Trainer, config, threads=threads or default_threads())
    with interruption() as asked:
        return train_until(asked, config, make_trainer, out, observer=observer, save_every=save_every)


def default_threads() -> int:
    return min(8, os.cpu_count() or 1)


def train_until(
    asked: Interruption,
    config: TrainConfig,
    make_trainer: Callable[[], Trainer],
    out: str | os.PathLike | None = None,
    *,
    observer: Observer | None = None,
    save_every: float = 30.0,
) -> RunRecord:
    """`train` until `asked` says to stop, which ends in `Interrupted` after a signal and in `OutOfTime` otherwise.

    `make_trainer` gives a new trainer, whose programs may have been compiled before; it is not called if the folder
    has a record, or cannot be used.
    """
    observer = observer or Observer()
    if out is None:
        return _Run(make_trainer(), None, observer, save_every, asked).complete()
    directory = RunDirectory(out)
    with directory.locked():
        try:
            directory.create(config)
            if directory.record.exists():
                return RunRecord.load(directory.folder)
            return _Run(make_trainer(), directory, observer, save_every, asked).complete()
        except OSError as error:
            raise CheckpointWriteError(
                f"{out}: could not be written ({error}); the last checkpoint is intact"
            ) from error


class _Run:
    """One call of `train`."""

    def __init__(
        self,
        trainer: Trainer,
        directory: RunDirectory | None,
        observer: Observer,
        save_every: float,
        asked: Interruption,
    ):
        self.config, self.directory, self.observer = trainer.config, directory, observer
        self.save_every, self.asked = save_every, asked
        self.trainer = trainer
        trainer.tell(on_point=self._on_point, on_step=observer.step, should_stop=lambda: bool(asked))
        self.checkpoints = Checkpoints(directory.checkpoints) if directory else None
        self.saved_at = time.perf_counter()
        self.peak_before = machine.peak_memory()

    def complete(self) -> RunRecord:
        try:
            self._restore()
            return self._train_and_test()
        except StoppedTraining:
            self._save()
            step = self.trainer.progress.step
            kept = f"saved in {self.directory.folder}" if self.directory else "nothing was kept: no folder was given"
            raise self.asked.error(f"stopped at step {step}; {kept}") from None
        finally:
            if self.checkpoints:
                self.checkpoints.close()

    def _restore(self) -> None:
        if self.checkpoints is None or self.directory is None:
            return
        snapshot = self.checkpoints.load(self.trainer.arrays_of)
        if snapshot is not None:
            self.trainer.restore(snapshot)
        self.directory.rewrite_metrics(self.config.seeds, self.trainer.progress.curve)

    def _train_and_test(self) -> RunRecord:
        trainer = self.trainer
        if not trainer.finished:
            self.observer.preparing(trainer)
            trainer.prepare()
            self.observer.started(trainer)
            trainer.run()
            self._save()
        test = {}
        if self.config.test:
            self.observer.testing(trainer)
            test = trainer.test()
        record = make_record(trainer, test, self.directory.folder if self.directory else None, self.peak_before)
        if self.directory:
            record.save(self.directory.record)
        return record

    def _on_point(self, trainer: Trainer) -> None:
        if self.directory:
            self.directory.append_metrics(self.config.seeds, trainer.progress.curve[-1])
        if time.perf_counter() - self.saved_at >= self.save_every:
            self._save()
        self.observer.point(trainer)

    def _save(self) -> None:
        if self.checkpoints is None:
            return
        began = time.perf_counter()
        self.checkpoints.save(self.trainer.snapshot())
        self.saved_at = time.perf_counter()
        self.trainer.progress.timings.saving += self.saved_at - began


def _how_it_ran(trainer: Trainer) -> dict[str, str]:
    """What else decides about numbers: whether kernels were fused, the flags of XLA, and the precision of products."""
    found = {"kernels": "plain" if trainer.programs.acceleration.form is None else "fused"}
    if flags := os.environ.get("XLA_FLAGS"):
        found["XLA_FLAGS"] = flags
    if precision := jax.config.jax_default_matmul_precision:  # type: ignore[attr-defined]
        found["matmul_precision"] = str(precision)
    return found


def make_record(
    trainer: Trainer,
    test: dict[str, dict[str, list[Scores]]],
    directory: Path | None = None,
    peak_before: int | None = None,
) -> RunRecord:
    """The record of a finished run; `peak_before` is the peak of memory when it began."""
    outputs, hints = (
        {
            algorithm: {rule: [getattr(scores, part) for scores in seeds] for rule, seeds in rules.items()}
            for algorithm, rules in test.items()
        }
        for part in ("outputs", "hints")
    )
    peak = machine.peak_memory()
    timings, chosen = trainer.progress.timings, trainer.selection
    commit = machine.commit()
    return RunRecord(
        config=trainer.config,
        rules=dict(chosen.rules),
        selected={rule: Chosen(chosen.steps[rule], chosen.scores[rule]) for rule in chosen.parameters},
        test=outputs,
        test_hints=hints,
        curve=trainer.progress.curve,
        diverged=trainer.diverged,
        skipped=trainer.skipped,
        steps=trainer.progress.step,
        parameters=trainer.state.parameters.shape[1],
        timings=timings,
        waiting_share=timings.waiting_for_data / max(timings.training, 1e-9),
        compiling_share=timings.compiling / max(timings.total, 1e-9),
        versions=machine.versions(*PACKAGES) | _how_it_ran(trainer),
        fast_path=trainer.programs.acceleration.report,
        commit=None if commit == "unknown" else commit,
        device=machine.device_name(),
        peak_memory=peak,
        measured={
            "test": bool(outputs),
            "test_hints": any(scores for rules in hints.values() for seeds in rules.values() for scores in seeds),
            "peak_memory": peak is not None and (peak_before is None or peak > peak_before),
        },
        finished_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        _directory=directory,
        _choices=dict(chosen.parameters),
    )
