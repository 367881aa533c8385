"""The training data of a configuration: the sizes of its batches, and the processor steps that they take."""

from __future__ import annotations

import statistics

from narkit.algorithms import ALGORITHMS
from narkit.data.lengths import processor_steps
from narkit.data.splits import SPLITS
from narkit.training.config import TrainConfig


def training_sizes(config: TrainConfig) -> tuple[int, ...]:
    """Returns the nominal sizes of one turn through the training data."""
    if config.fixed_training_set:
        return (SPLITS["train"].size,)
    return ALGORITHMS[config.algorithms[0]].training_sizes(config.sizes)


def mean_training_steps(config: TrainConfig) -> float:
    """Returns the processor steps per training step."""
    return statistics.mean(processor_steps(config.algorithms[0], size) for size in training_sizes(config))
