"""Feeds training: which batch comes at which step, stacked over seeds and moved to the device ahead of time."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from narkit.algorithms import ALGORITHMS
from narkit.data.batch import Batch
from narkit.data.splits import load_split
from narkit.data.stream import Ahead, TrainingStream
from narkit.data.transforms import transform
from narkit.models.network import DeviceBatch
from narkit.training.config import TrainConfig
from narkit.training.programs import stack_batches

ROOM = 1.25  # how many more rows than the longest trajectory seen so far; more than needed costs only memory


@dataclass(frozen=True)
class Meal:
    """What one training step eats."""

    batch: DeviceBatch
    num_steps: int  # how many processor steps the longest sample of all seeds needs


class Feed:
    """The training data of a run: a pure function of the step, whichever thread makes it and wherever it resumes."""

    def __init__(self, config: TrainConfig):
        self._config = config
        self._capacities: dict[tuple[str, int], int] = {}
        self._fixed = {name: self._official(name) for name in config.algorithms} if config.fixed_training_set else {}

    def _official(self, name: str) -> Batch:
        return transform(load_split(name, "train"), random_positions=self._config.random_positions)

    def meal(self, step: int) -> Meal:
        config = self._config
        algorithm = config.algorithms[step % len(config.algorithms)]
        turn = step // len(config.algorithms)
        batches = [self._batch(algorithm, seed, turn) for seed in config.seeds]
        longest = max(int(batch.lengths.max()) for batch in batches)
        batch = stack_batches(batches, self._capacity(algorithm, batches[0].num_nodes, longest))
        return Meal(jax.device_put(batch), max(1, longest - 1))

    def _batch(self, algorithm: str, seed: int, turn: int) -> Batch:
        config = self._config
        if config.fixed_training_set:
            fixed = self._fixed[algorithm]
            chosen = np.random.default_rng([seed, turn]).integers(0, len(fixed), config.batch_size)
            return fixed[chosen]
        return TrainingStream(algorithm, seed, config.sizes, config.batch_size).batch(turn)

    def _capacity(self, algorithm: str, num_nodes: int, longest: int) -> int:
        """Rows of hints to make room for. It only grows, so that few programs are compiled."""
        key = (algorithm, num_nodes)
        if longest > self._capacities.get(key, 0):
            self._capacities[key] = max(2, int(longest * ROOM))
        return self._capacities[key]

    def measure(self, steps: int = 64) -> None:
        """Looks at the first batches of a seed to find out how much room trajectories need."""
        config = self._config
        for algorithm in config.algorithms:
            for turn in range(steps):
                batch = self._batch(algorithm, config.seeds[0], turn)
                self._capacity(algorithm, batch.num_nodes, int(batch.lengths.max()))

    def examples(self) -> list[Meal]:
        """One meal for every program that training will need."""
        config = self._config
        turns = 1 if config.fixed_training_set else len(config.sizes)
        count = turns * len(config.algorithms)
        fixed = [ALGORITHMS[name].training_size_is_fixed for name in config.algorithms]
        return [
            self.meal(step)
            for step in range(count)
            if step < len(config.algorithms) or not fixed[step % len(config.algorithms)]
        ]

    def ahead(self, start: int, look_ahead: int, threads: int) -> Ahead[Meal]:
        return Ahead(self.meal, start, look_ahead, threads)
