"""The training loop."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from narkit.data.splits import load_split, validation_set
from narkit.training.config import TrainConfig
from narkit.training.evaluation import EvaluationSet, distinct_rows
from narkit.training.feed import Feed
from narkit.training.programs import Programs, TrainState
from narkit.training.selection import Selection

VALIDATION_PART = 128
TEST_PART = 32
IN_FLIGHT = 4  # how many steps the host may be ahead of the device
LOOK_AHEAD = 16


@dataclass
class Point:
    """One validation: the training loss since the last one, and the scores and losses of each set, per seed."""

    step: int
    train_loss: list[float]
    scores: dict[str, list[float]]
    losses: dict[str, list[float]]


@dataclass
class Timings:
    """Where the seconds went."""

    compiling: float = 0.0
    waiting_for_data: float = 0.0
    training: float = 0.0
    validating: float = 0.0
    testing: float = 0.0
    compiled_programs: int = 0


@dataclass
class Progress:
    """Everything of a run that is not on the device."""

    step: int = 0
    curve: list[Point] = field(default_factory=list)
    timings: Timings = field(default_factory=Timings)


class Trainer:
    """Trains all seeds of a configuration, step by step, and keeps what every selection rule chooses.

    `on_point` is called after every validation, `save` too: it gets the trainer and may write a checkpoint.
    """

    def __init__(
        self,
        config: TrainConfig,
        on_point: Callable[[Trainer], None] = lambda trainer: None,
        on_step: Callable[[Trainer, np.ndarray], None] = lambda trainer, losses: None,
        threads: int = 4,
    ):
        self.config = config
        self.programs = Programs(config)
        self.feed = Feed(config)
        self.progress = Progress()
        self.state: TrainState = self.programs.initial_state()
        self.selection = Selection.start(config, self.state.parameters)
        self._seeds = jnp.asarray(config.seeds, jnp.uint32)
        self._on_point, self._on_step = on_point, on_step
        self._threads = threads
        self._validation_sets: dict[str, list[EvaluationSet]] = {}

    def prepare(self) -> None:
        """Makes the validation sets and compiles every program, several at a time."""
        start = time.perf_counter()
        self.feed.measure()
        self._validation_sets = {
            v.name: [
                EvaluationSet.of(validation_set(name, v.size, v.num_samples), VALIDATION_PART)
                for name in self.config.algorithms
            ]
            for v in self.config.validations
        }
        blank = jax.eval_shape(lambda: self.state)
        jobs: list[Callable[[], Any]] = []
        for meal in self.feed.examples():
            jobs.append(lambda meal=meal: self.programs.compile_step(blank, meal.batch, self._seeds))
        for sets in self._validation_sets.values():
            for evaluation in sets:
                jobs.append(lambda part=evaluation.parts[0]: self.programs.compile_prediction(blank.parameters, part))
        with ThreadPoolExecutor(max(1, self._threads)) as pool:
            list(pool.map(lambda job: job(), jobs))
        self.progress.timings.compiled_programs += len(jobs)
        self.progress.timings.compiling += time.perf_counter() - start

    def run(self, until: int | None = None) -> None:
        """Trains to the configured number of steps, or to `until`."""
        until = min(until or self.config.steps, self.config.steps)
        in_flight: deque[jax.Array] = deque()
        losses: list[jax.Array] = []
        timings = self.progress.timings
        with self.feed.ahead(self.progress.step, LOOK_AHEAD, self._threads) as meals:
            began = time.perf_counter()
            while self.progress.step < until:
                asked = time.perf_counter()
                meal = next(meals)
                timings.waiting_for_data += time.perf_counter() - asked
                step = self.progress.step
                self.state, loss = self.programs.train_step(
                    self.state, meal.batch, self._seeds, np.int32(step), np.int32(meal.num_steps)
                )
                losses.append(loss)
                in_flight.append(loss)
                if len(in_flight) > IN_FLIGHT:
                    self._on_step(self, np.asarray(in_flight.popleft()))
                self.progress.step = step + 1
                if self.progress.step % self.config.validate_every == 0 or self.progress.step == self.config.steps:
                    jax.block_until_ready(loss)
                    timings.training += time.perf_counter() - began
                    self._validate(np.mean(np.stack(losses), axis=0))
                    losses.clear()
                    in_flight.clear()
                    began = time.perf_counter()

    def _validate(self, train_loss: np.ndarray) -> None:
        began = time.perf_counter()
        scores, losses = {}, {}
        for name, sets in self._validation_sets.items():
            results = [evaluation.scores(self.programs, self.state.parameters) for evaluation in sets]
            scores[name] = np.mean([[row["score"] for row in rows] for rows, _ in results], axis=0)
            losses[name] = np.mean([loss for _, loss in results], axis=0)
        alive = np.asarray(self.state.diverged_at) < 0
        self.selection.update(self.progress.step, self.state.parameters, scores, losses, alive)
        point = Point(
            self.progress.step,
            train_loss.tolist(),
            {name: values.tolist() for name, values in scores.items()},
            {name: values.tolist() for name, values in losses.items()},
        )
        self.progress.curve.append(point)
        self.progress.timings.validating += time.perf_counter() - began
        self._on_point(self)

    def test(self) -> dict[str, dict[str, list[dict[str, float]]]]:
        """The scores of every rule's choice on the official test split: algorithm -> rule -> per seed."""
        began = time.perf_counter()
        chosen = {rule: np.asarray(values) for rule, values in self.selection.parameters.items()}
        results: dict[str, dict[str, list[dict[str, float]]]] = {}
        for name in self.config.algorithms:
            test = EvaluationSet.of(load_split(name, "test"), TEST_PART)
            results[name] = {}
            for rules, parameters in distinct_rows(chosen):
                scores, _ = test.scores(self.programs, jnp.asarray(parameters))
                results[name] |= {rule: scores for rule in rules}
        self.progress.timings.testing += time.perf_counter() - began
        return results

    def to_json(self) -> dict[str, Any]:
        """Progress and choices, for a record."""
        return {
            "config": self.config.to_json(),
            "progress": asdict(self.progress),
            "selection": {"steps": self.selection.steps, "scores": self.selection.scores},
            "diverged_at": np.asarray(self.state.diverged_at).tolist(),
        }
