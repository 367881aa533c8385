"""`narkit.train`: a run from its configuration to its record, in a folder that it can be resumed from."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import jax

from narkit import machine
from narkit.compiler import keep_compiled_programs as keep_compiled_programs
from narkit.errors import one_line
from narkit.settings import number, whole_number
from narkit.training.callbacks import Callback, Callbacks
from narkit.training.checkpoint import Checkpoints, CheckpointWriteError
from narkit.training.config import TrainConfig
from narkit.training.evaluation import Scores
from narkit.training.feed import MeasuredLengths
from narkit.training.final_scores import Tested, TestScores
from narkit.training.interruption import Interruption, interruption
from narkit.training.progress import Point
from narkit.training.record import Chosen, RunRecord
from narkit.training.run_directory import MEASURED, TESTED, RunDirectory
from narkit.training.trainer import StoppedTraining, Trainer

PACKAGES = ("narkit", "jax", "jaxlib", "equinox", "optax", "orbax-checkpoint", "numpy", "numba")

KEEP_MEASURED = 2.0  # seconds of measuring that are done again at most


def train(
    config: TrainConfig,
    out: str | os.PathLike | None = None,
    *,
    callbacks: Iterable[Callback] = (),
    threads: int | None = None,
    save_every: float = 30.0,
    devices: int = 1,
) -> RunRecord:
    """Trains all seeds of a configuration and scores what every selection rule chose.

    - `out`: a folder to keep checkpoints, metrics and the record in. If it holds a run with the same configuration,
      that one goes on from its last checkpoint; with another configuration it is refused.
    - `callbacks`: objects of `narkit.Callback`, which follow the run.
    - `threads`: how many make data and compile; by default one per core, at most eight.
    - `save_every`: seconds between checkpoints, at least; with 0 one is written after every validation. There is also
      one at the end, and before a run stops because of Ctrl-C or SIGTERM, which then raises `Interrupted`.
    - `devices`: the number of devices that share the seeds and, where there are fewer seeds, each batch, too.
    """
    save_every = number("save_every", save_every, at_least=0, example=30)
    threads = default_threads() if threads is None else whole_number("threads", threads, at_least=1)
    keep_compiled_programs()
    make_trainer = functools.partial(Trainer, config, threads=threads, devices=devices)
    with interruption() as stop:
        return train_until(stop, config, make_trainer, out, callbacks=callbacks, save_every=save_every)


def default_threads() -> int:
    return min(8, os.cpu_count() or 1)


def train_until(
    stop: Interruption,
    config: TrainConfig,
    make_trainer: Callable[[], Trainer],
    out: str | os.PathLike | None = None,
    *,
    callbacks: Iterable[Callback] = (),
    save_every: float = 30.0,
) -> RunRecord:
    """Runs `train` until `stop` is true, which ends in `Interrupted` after a signal and in `OutOfTime` otherwise.

    `make_trainer` gives a new trainer, whose programs may have been compiled before; it is not called if the folder
    has a record, or cannot be used.
    """
    checked = Callbacks(callbacks)
    if out is None:
        return _RunDriver(make_trainer(), None, checked, save_every, stop).complete()
    directory = RunDirectory(out)
    with directory.locked():
        try:
            directory.create(config)
            if directory.record.exists():
                return RunRecord.load(directory.folder)
            return _RunDriver(make_trainer(), directory, checked, save_every, stop).complete()
        except OSError as error:
            raise CheckpointWriteError(
                f"{out}: could not be written ({one_line(error)}); the last checkpoint is intact"
            ) from error


@dataclasses.dataclass(eq=False)
class _RunDriver(Callback):
    """The driver of one call of `train`: the trainer's first callback, which writes what is to be kept."""

    trainer: Trainer
    directory: RunDirectory | None
    callbacks: Callbacks
    save_every: float
    stop: Interruption

    def __post_init__(self) -> None:
        self.config = self.trainer.config
        self.trainer.callbacks = Callbacks([self, *self.callbacks.members])
        self.trainer.should_stop = lambda: bool(self.stop)
        self.checkpoints = Checkpoints(self.directory.checkpoints) if self.directory else None
        self.saved_at = self.measured_at = time.perf_counter()
        self.peak_before = machine.peak_memory()

    def complete(self) -> RunRecord:
        try:
            self._restore()
            return self._train_and_test()
        except StoppedTraining:
            self._save()
            step = self.trainer.progress.step
            kept = f"saved in {self.directory.folder}" if self.directory else "nothing was kept: no folder was given"
            raise self.stop.error(f"stopped at step {step}; {kept}") from None
        finally:
            if self.checkpoints:
                self.checkpoints.close()
            self.callbacks.call("on_close")

    def _restore(self) -> None:
        if self.checkpoints is None or self.directory is None:
            return
        if measured := self.directory.kept(MEASURED):
            self.trainer.feed.go_on_measuring(MeasuredLengths.from_json(measured))
        snapshot = self.checkpoints.load(self.trainer.arrays_of)
        if snapshot is not None:
            self.trainer.restore(snapshot)
        self.directory.rewrite_metrics(self.config.seeds, self.trainer.progress.curve)

    def _train_and_test(self) -> RunRecord:
        trainer = self.trainer
        if not trainer.finished:
            self.callbacks.call("on_prepare", trainer)
            trainer.prepare(self._keep_measured)
            self.callbacks.call("on_start", trainer)
            self.saved_at = time.perf_counter()
            trainer.run()
            self._save()
        if self.config.test or self.config.scored:
            self.callbacks.call("on_test", trainer)
        test, scored = trainer.test(self._tested(), self._keep_tested)
        folder = self.directory.folder if self.directory else None
        record = make_record(trainer, test, folder, self.peak_before, scored)
        if self.directory:
            record.save(self.directory.record)
            self.directory.forget_kept()
        self.callbacks.call("on_end", record)
        return record

    def _tested(self) -> Tested:
        """Returns the test scores that an earlier process has found."""
        kept = (self.directory.kept(TESTED) if self.directory else None) or []
        return {tuple(network): Scores(**scores) for network, scores in kept}

    def _keep_tested(self, tested: Tested) -> None:
        if self.directory:
            self.directory.keep(TESTED, [[network, dataclasses.asdict(scores)] for network, scores in tested.items()])

    def _keep_measured(self, measured: MeasuredLengths) -> None:
        if self.directory and time.perf_counter() - self.measured_at >= KEEP_MEASURED:
            self.directory.keep(MEASURED, measured.to_json())
            self.measured_at = time.perf_counter()

    def on_step(self, trainer: Trainer) -> None:
        if self.save_every and time.perf_counter() - self.saved_at >= self.save_every:
            self._save()

    def on_point(self, trainer: Trainer, point: Point) -> None:
        if self.directory:
            self.directory.append_metrics(self.config.seeds, point)
        if time.perf_counter() - self.saved_at >= self.save_every:
            self._save()

    def _save(self) -> None:
        if self.checkpoints is None:
            return
        began = time.perf_counter()
        self.checkpoints.save(self.trainer.snapshot())
        self.saved_at = time.perf_counter()
        self.trainer.progress.timings.saving += self.saved_at - began


def _how_it_ran(trainer: Trainer) -> dict[str, str]:
    """Returns what else decides about numbers: whether kernels were fused, the flags of XLA, the precision of products,
    and among how many devices sums were divided."""
    found = {"kernels": "plain" if trainer.programs.acceleration.form is None else "fused"}
    if trainer.programs.shards is not None:
        found["devices"] = str(trainer.programs.shards.mesh.size)
    if flags := os.environ.get("XLA_FLAGS"):
        found["XLA_FLAGS"] = flags
    if precision := jax.config.jax_default_matmul_precision:  # type: ignore[attr-defined]
        found["matmul_precision"] = str(precision)
    return found


def make_record(
    trainer: Trainer,
    test: TestScores,
    directory: Path | None = None,
    peak_before: int | None = None,
    scored: Mapping[str, TestScores] | None = None,
) -> RunRecord:
    """Makes the record of a finished run; `peak_before` is the peak of memory when it began."""
    outputs, hints = _part_of(test, "outputs"), _part_of(test, "hints")
    peak = machine.peak_memory()
    timings, chosen = trainer.progress.timings, trainer.selection
    commit = machine.commit()
    return RunRecord(
        config=trainer.config,
        rules=dict(chosen.rules),
        selected={rule: Chosen(chosen.steps[rule], chosen.scores[rule]) for rule in chosen.parameters},
        test=outputs,
        test_hints=hints,
        scored={name: _part_of(found, "outputs") for name, found in (scored or {}).items()},
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


def _part_of(test: TestScores, part: str) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Returns the scores of outputs or of hints: algorithm -> rule -> per seed."""
    return {
        algorithm: {rule: [getattr(scores, part) for scores in seeds] for rule, seeds in rules.items()}
        for algorithm, rules in test.items()
    }
