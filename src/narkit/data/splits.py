"""Fixed sets of trajectories: the official splits, sets like them at any size, and validation sets.

The published benchmark draws its samples one after the other from one NumPy `RandomState`. Its samplers, run here as
plain Python (see `narkit.algorithms.randomness`), make the same draws in the same order, so these are its very samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from narkit.algorithms.instances import Distribution
from narkit.data.batch import Batch
from narkit.data.execution import FIRST_VALIDATION_STEP, check_size, run_instances, sample_step
from narkit.errors import InstanceError, UnknownNameError
from narkit.settings import whole_number
from narkit.spec import ALGORITHMS


@dataclass(frozen=True)
class Split:
    """The way in which the benchmark draws one of its splits."""

    num_samples: int
    size: int
    seed: int
    multiplied: bool  # whether algorithms with few outputs per sample get more samples


SPLITS = {
    "train": Split(num_samples=1000, size=16, seed=1, multiplied=False),
    "val": Split(num_samples=32, size=16, seed=2, multiplied=True),
    "test": Split(num_samples=32, size=64, seed=3, multiplied=True),
}


def load_split(algorithm: str, split: str) -> Batch:
    """Returns an official split of CLRS-30, `"train"`, `"val"` or `"test"`: the published samples, as a raw batch.

    String matchers have 20, 20 and 80 nodes: the published data counts the size without the needle.
    """
    entry = ALGORITHMS[algorithm]
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    drawn = SPLITS[split]
    num_samples = drawn.num_samples * (entry.multiplier if drawn.multiplied else 1)
    return benchmark_set(algorithm, drawn.size, num_samples, drawn.seed)


def benchmark_set(algorithm: str, size: int, num_samples: int, seed: int) -> Batch:
    """Returns a raw batch from the benchmark's distribution at any size: a test split of another size or seed.

    The seed is NumPy's; 1, 2 and 3 are those of the official splits.
    """
    entry = ALGORITHMS[algorithm]
    check_size(entry, size, num_samples)
    if not 0 <= whole_number("seed", seed) < 2**32:
        raise InstanceError(f"{algorithm}: expected a seed from 0 to 2^32 - 1, got {seed}")
    rng = np.random.RandomState(seed)
    distribution = Distribution(np.array([entry.densities.official]), longest_needle=0)
    instances = [entry.sampler(rng, size, distribution) for _ in range(num_samples)]
    stacked = {
        name: np.ascontiguousarray(np.stack(values), argument.dtype)
        for (name, argument), values in zip(entry.arguments.items(), zip(*instances, strict=True), strict=True)
    }
    return run_instances(entry, stacked)


def validation_set(algorithm: str, size: int, num_samples: int, seed: int = 0) -> Batch:
    """Returns samples from the training distribution that no training stream contains, as a transformed batch.

    Sets of different sizes and seeds are drawn independently of each other.
    """
    return sample_step(ALGORITHMS[algorithm], size, num_samples, seed, FIRST_VALIDATION_STEP + size)
