"""The training loop."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from narkit.training.batch_memory import reserve_blocks
from narkit.training.callbacks import Callback, Callbacks
from narkit.training.config import TrainConfig
from narkit.training.evaluation import EvaluationSet
from narkit.training.feed import Feed, MeasuredLengths
from narkit.training.final_scores import Tested, TestScores, final_scores, final_sets
from narkit.training.programs import Parameters, Programs, TrainState
from narkit.training.progress import Divergence, Point, Progress, SkippedSteps, Snapshot
from narkit.training.rules import AVERAGED, RAW, Rule, rules, rules_from_json, rules_of_format_2
from narkit.training.selection import Selection, Validated

IN_FLIGHT = 4  # how many steps the host may be ahead of the device
LOOK_AHEAD = 16
TURN = 5e-5  # seconds
MAKING_DATA = 4  # threads at most: two are enough for short trajectories, long ones may need more
COMPILING = "narkit-compile"  # how the names of threads begin that compile


class StoppedTraining(Exception):
    """Raised inside a run when it was asked to stop; everything up to the step that it reached is in its state."""


class Trainer:
    """Trains all seeds of a configuration, step by step, and keeps what every selection rule chooses.

    `latest_loss` has, per seed, the loss of a step shortly before. Its `callbacks` are told of programs, steps and
    validations. When `should_stop` says so, training ends after the current step with `StoppedTraining`.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        callbacks: Iterable[Callback] = (),
        should_stop: Callable[[], bool] = lambda: False,
        threads: int = 4,
        devices: int = 1,
    ):
        self.config, self.callbacks, self.should_stop = config, Callbacks(callbacks), should_stop
        self.programs = Programs(config, devices)
        self.feed = Feed(config, self.programs.placed)
        self.progress = Progress(skipped=[[] for _ in config.seeds])
        self.state: TrainState = self.programs.initial_state()
        self.selection = Selection.start(rules(config), np.asarray(self.state.parameters))
        self.latest_loss = np.full(len(config.seeds), np.nan)
        self._threads = threads
        self._prepared = False
        self._validation_sets: dict[str, list[EvaluationSet]] = {}
        self._losses: list[np.ndarray] = []  # of the steps since the last validation
        self._in_flight: deque[jax.Array] = deque()  # losses of the steps that the device may not have done yet
        self._clock: float | None = None  # when the training began that is not counted yet
        self._largest_batch = 0  # bytes
        self._separators: list[jax.Array] = []  # which keep blocks of memory for batches

    @property
    def finished(self) -> bool:
        """True if nothing is left to train: all steps are done, or no seed was alive at the last validation."""
        step = self.progress.step
        return step >= self.config.steps or (self._is_validated(step) and not self.alive.any())

    @property
    def alive(self) -> np.ndarray:
        return np.asarray(self.state.diverged_at) < 0

    @property
    def diverged(self) -> list[Divergence]:
        ends = zip(self.config.seeds, np.asarray(self.state.diverged_at).tolist(), strict=True)
        return [Divergence(seed, step, *self.feed.kind_of_batch(step)) for seed, step in ends if step >= 0]

    @property
    def skipped(self) -> list[SkippedSteps]:
        """The steps that seeds have skipped, by the kind of batch; also those at whose end a seed was lost."""
        found: dict[tuple[int, str, int], list[int]] = {}
        ends = np.asarray(self.state.diverged_at).tolist()
        for seed, end, steps in zip(self.config.seeds, ends, self.progress.skipped, strict=True):
            for step in steps:
                if end < 0 or step <= end:
                    found.setdefault((seed, *self.feed.kind_of_batch(step)), []).append(step)
        return [SkippedSteps(*kind, steps) for kind, steps in found.items()]

    @property
    def weights(self) -> dict[str, Parameters]:
        """The parameters on the device, raw and, where they are kept, averaged."""
        average = self.state.average
        return {RAW: self.state.parameters} | ({} if average is None else {AVERAGED: average})

    def prepare(self, keep_measured: Callable[[MeasuredLengths], None] = lambda measured: None) -> None:
        """Makes the validation sets and compiles every program, several at a time. A second time does nothing.

        `keep_measured` is given what is known of the lengths of trajectories, now and then.
        """
        if self._prepared:
            return
        start = time.perf_counter()
        self.feed.measure(self.config.steps, self._threads, self._stop_if_asked, keep_measured)
        self._validation_sets = {
            validation.name: [EvaluationSet.of_validation(name, validation) for name in self.config.algorithms]
            for validation in self.config.validations
        }
        shapes, programs = jax.eval_shape(lambda: self.state), self.programs
        examples = [batch.packed for batch in self.feed.examples()]
        self._largest_batch = max(batch.words.nbytes for batch in examples)
        jobs: list[Callable[[], Any]] = [partial(programs.compile_step, shapes, batch) for batch in examples]
        at_the_end = (instances for *_, instances in final_sets(self.config))
        for instances in itertools.chain(*self._validation_sets.values(), at_the_end):
            part = next(instances.parts())
            jobs.append(partial(programs.compile_prediction, shapes.parameters, part, instances.with_hints))
        self._compile(jobs)
        self._prepared = True
        self.progress.timings.compiled_programs += len(jobs)
        self.progress.timings.compiling += time.perf_counter() - start

    def _compile(self, jobs: list[Callable[[], Any]]) -> None:
        """Runs all jobs, several at a time. When it is to stop, it does not wait for those that still run."""
        pool = ThreadPoolExecutor(max(1, self._threads), thread_name_prefix=COMPILING)
        self.callbacks.call("on_compile", self, 0, len(jobs))
        try:
            waiting = {pool.submit(job) for job in jobs}
            while waiting:
                self._stop_if_asked()
                done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                if done:
                    self.callbacks.call("on_compile", self, len(jobs) - len(waiting), len(jobs))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def run(self) -> None:
        """Trains to the end."""
        timings, in_flight = self.progress.timings, self._in_flight
        self._separators = reserve_blocks(self._largest_batch, LOOK_AHEAD + MAKING_DATA + IN_FLIGHT)
        with short_turns(), self.feed.ahead(self.progress.step, LOOK_AHEAD, min(self._threads, MAKING_DATA)) as batches:
            self._clock = time.perf_counter()
            while not self.finished:
                if self.should_stop():
                    self._wait_for_device()
                    raise StoppedTraining
                asked = time.perf_counter()
                batch = next(batches)
                if is_idle(in_flight):
                    timings.waiting_for_data += time.perf_counter() - asked
                self.state, loss = self.programs.train_step(self.state, batch.packed)
                self.progress.step += 1
                in_flight.append(loss)
                self._take_losses(but=IN_FLIGHT)
                self.callbacks.call("on_step", self)
                if self._is_validated(self.progress.step):
                    self._wait_for_device()
                    self._validate()
                if self._clock is None:
                    self._clock = time.perf_counter()
            self._clock = None

    def _wait_for_device(self) -> None:
        """Waits until every step is done, and counts the time of training up to here."""
        self._take_losses()
        if self._clock is not None:
            self.progress.timings.training += time.perf_counter() - self._clock
            self._clock = None

    def _take_losses(self, but: int = 0) -> None:
        """Waits for the losses of all steps but the last ones. None stays on the device for longer than it must."""
        while len(self._in_flight) > but:
            step = self.progress.step - len(self._in_flight)
            self.latest_loss = np.asarray(self._in_flight.popleft())
            self._losses.append(self.latest_loss)
            if self.config.skipped_steps:
                for seed in np.flatnonzero(np.isnan(self.latest_loss)):
                    self.progress.skipped[seed].append(step)

    def _is_validated(self, step: int) -> bool:
        return step % self.config.validate_every == 0 or step == self.config.steps

    def _validate(self) -> None:
        began = time.perf_counter()
        losses = np.stack(self._losses)
        train_loss = mean_loss(losses) if self.config.skipped_steps else np.mean(losses, axis=0)
        self._losses.clear()
        validated = {kind: self._validated(parameters) for kind, parameters in self.weights.items()}
        self.selection.update(self.progress.step, validated, self.alive)
        measured = [
            {name: values.tolist() for name, values in part.items()}
            for found in validated.values()
            for part in (found.scores, found.losses)
        ]
        point = Point(self.progress.step, train_loss.tolist(), *measured)
        self.progress.curve.append(point)
        self.progress.timings.validating += time.perf_counter() - began
        self.callbacks.call("on_point", self, point)

    def _validated(self, parameters: Parameters) -> Validated:
        """Returns the scores and losses of all sets; with several algorithms, the mean over them."""
        scores, losses = {}, {}
        for name, sets in self._validation_sets.items():
            results = [evaluation.scores(self.programs, parameters) for evaluation in sets]
            scores[name] = np.mean([[row.outputs["score"] for row in rows] for rows in results], axis=0)
            losses[name] = np.mean([[row.loss for row in rows] for rows in results], axis=0)
        return Validated(np.asarray(parameters), scores, losses)

    def test(
        self, known: Tested | None = None, keep: Callable[[Tested], None] = lambda tested: None
    ) -> tuple[TestScores, dict[str, TestScores]]:
        """Scores every rule's choice at the end of the run, see `final_scores`."""
        began = time.perf_counter()
        found = final_scores(self.programs, self.selection, known or {}, keep, self._stop_if_asked)
        self.progress.timings.testing += time.perf_counter() - began
        return found

    def _stop_if_asked(self) -> None:
        if self.should_stop():
            raise StoppedTraining

    def snapshot(self) -> Snapshot:
        """Returns the run as it is now, once all steps are done that the device was handed."""
        self._wait_for_device()
        selection = self.selection
        arrays = {
            "state": _by_path(self.state),
            "selection": {rule: values.copy() for rule, values in selection.parameters.items()},
        }
        progress = self.progress.to_json() | {
            "rules": {name: rule.to_json() for name, rule in selection.rules.items()},
            "losses_since_validation": [loss.tolist() for loss in self._losses],
            "selection": {"steps": selection.steps, "scores": selection.scores, "losses": selection.losses},
        }
        return Snapshot(arrays, progress)

    def arrays_of(self, progress: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arrays that a snapshot with this progress has, as they are here: shapes and types count."""
        parameters = np.asarray(self.state.parameters)
        return {"state": _by_path(self.state), "selection": dict.fromkeys(rules_of_snapshot(progress), parameters)}

    def restore(self, snapshot: Snapshot) -> None:
        """Goes on from a snapshot of a run with the same configuration, by the rules that it began with."""
        stored = snapshot.arrays["state"]
        leaves = [jnp.asarray(stored[path], leaf.dtype) for path, leaf in _by_path(self.state).items()]
        self.state = self.programs.placed(jax.tree.unflatten(jax.tree.structure(self.state), leaves))
        progress = snapshot.progress
        chosen = snapshot.arrays["selection"]
        found = rules_of_snapshot(progress)
        self.selection = Selection(found, {rule: np.array(chosen[rule]) for rule in found}, **progress["selection"])
        restored = Progress.from_json({"skipped": self.progress.skipped, **progress})
        before = self.progress.timings
        restored.timings.compiling_ahead += before.compiling_ahead  # programs that wait for this run
        restored.timings.compiled_programs += before.compiled_programs
        self.progress = restored
        dtype = self.state.parameters.dtype
        self._losses = [np.asarray(loss, dtype) for loss in progress["losses_since_validation"]]


def rules_of_snapshot(progress: Mapping[str, Any]) -> dict[str, Rule]:
    """Returns the rules that a run began with, which may not be those that it would get today."""
    if "rules" in progress:
        return rules_from_json(progress["rules"])
    return rules_of_format_2(progress["selection"]["steps"])


def mean_loss(losses: np.ndarray) -> np.ndarray:
    """Returns the mean over steps, of each seed; skipped ones do not count."""
    counts = ~np.isnan(losses)
    total = np.sum(np.where(counts, losses, 0), axis=0)
    return np.where(counts.any(axis=0), total / np.maximum(counts.sum(axis=0), 1), np.nan)


def is_idle(in_flight: deque[Any]) -> bool:
    """Returns whether the device has done all steps that it was handed. Only then does it wait for the host."""
    return not in_flight or in_flight[-1].is_ready()


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """Lets Python's threads take turns more often.

    A thread that hands steps to the device waits for the interpreter after every call into JAX, as long as a turn of
    the threads that make data and trace programs takes: by default 5 ms, more than a step.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _by_path(tree: Any) -> dict[str, np.ndarray]:
    """Returns the leaves of a tree by their path, in order."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}
