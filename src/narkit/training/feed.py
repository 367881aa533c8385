"""Feeds training: which batch comes at which step, stacked over seeds and moved to the device ahead of time."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from narkit.algorithms import ALGORITHMS
from narkit.data.batch import Batch
from narkit.data.splits import SPLITS, load_split
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

    def kind_of_batch(self, step: int) -> tuple[str, int]:
        """The algorithm and nominal size of a step's batch."""
        config = self._config
        algorithm = config.algorithms[step % len(config.algorithms)]
        if config.fixed_training_set:
            return algorithm, SPLITS["train"].size
        return algorithm, TrainingStream(algorithm, 0, config.sizes, config.batch_size).size(
            step // len(config.algorithms)
        )

    def _batch(self, algorithm: str, seed: int, turn: int) -> Batch:
        config = self._config
        if config.fixed_training_set:
            fixed = self._fixed[algorithm]
            chosen = np.random.default_rng([seed, turn]).integers(0, len(fixed), config.batch_size)
            return fixed[chosen]
        return TrainingStream(algorithm, seed, config.sizes, config.batch_size).batch(turn)

    def _capacity(self, algorithm: str, num_nodes: int, longest: int) -> int:
        """Rows of hints to make room for: as many as measured, or more in few stages.

        It depends on the step alone, not on what came before. Room beyond the longest trajectory changes a sum at most
        by rounding, but a resumed run should not even differ by that.
        """
        capacity = self._capacities.get((algorithm, num_nodes), 2)
        while capacity < longest:
            capacity = int(capacity * ROOM) + 1
        return capacity

    def measure(self, turns: int = 64) -> None:
        """Looks at the first batches of a seed to find out how much room trajectories need."""
        config = self._config
        longest: dict[tuple[str, int], int] = {}
        for algorithm in config.algorithms:
            for turn in range(turns):
                batch = self._batch(algorithm, config.seeds[0], turn)
                key = (algorithm, batch.num_nodes)
                longest[key] = max(2, longest.get(key, 0), int(batch.lengths.max()))
        self._capacities = {key: int(rows * ROOM) for key, rows in longest.items()}

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
