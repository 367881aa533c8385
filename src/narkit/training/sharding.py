"""One run on several devices: its seeds are shared out among them, and where there are fewer seeds, each batch, too.

Seeds never speak to each other, so sharing them out costs nothing. The samples of a batch meet in the gradient, which
the devices then sum up. Numbers are those of one device to rounding, since sums are taken in another order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from narkit.fused import availability
from narkit.models.network import DeviceBatch
from narkit.training.config import TrainConfig

SEED, BATCH = "seed", "batch"


class DevicesError(ValueError):
    """A number of devices that a run cannot be shared out among."""


def shares(config: TrainConfig, devices: int) -> tuple[int, int]:
    """Returns into how many parts the seeds are shared out, and into how many each batch."""
    if devices < 1:
        raise DevicesError(f"devices: expected at least 1, got {devices}")
    num_seeds = len(config.seeds)
    over_seeds = math.gcd(num_seeds, devices)
    over_batch = devices // over_seeds
    if config.batch_size % over_batch:
        raise DevicesError(
            f"devices: {devices} devices would share {num_seeds} seeds out in {over_seeds} parts and each batch in "
            f"{over_batch}, but a batch has {config.batch_size} samples; expected a number that divides the "
            f"{num_seeds} seeds, or {over_seeds} times one that divides {config.batch_size}"
        )
    return over_seeds, over_batch


@dataclass(frozen=True)
class Shards:
    """The shardings of a run's arrays: seeds along one axis of a grid of devices, samples along the other."""

    mesh: Mesh

    @classmethod
    def over(cls, config: TrainConfig, devices: int) -> Shards | None:
        """Shares a run out over this many devices of this process; None for one."""
        over_seeds, over_batch = shares(config, devices)
        if devices == 1:
            return None
        there = jax.local_devices()
        if len(there) < devices:
            raise DevicesError(f"devices: expected at most {len(there)}, which this process has, got {devices}")
        if availability.mode() is availability.Mode.FUSED:
            raise DevicesError(
                f"devices: expected 1 with fused kernels, got {devices}: a fused kernel computes all seeds and samples "
                f"in one launch, which XLA cannot divide; {availability.ENVIRONMENT}=plain does without them"
            )
        return cls(Mesh(np.array(there[:devices]).reshape(over_seeds, over_batch), (SEED, BATCH)))

    @property
    def by_seed(self) -> NamedSharding:
        """The sharding of arrays with a leading seed axis."""
        return NamedSharding(self.mesh, PartitionSpec(SEED))

    @property
    def everywhere(self) -> NamedSharding:
        """The sharding of arrays that every device has."""
        return NamedSharding(self.mesh, PartitionSpec())

    def share_out(self, batch: DeviceBatch, *, with_seeds: bool) -> DeviceBatch:
        """Returns the batch within a program, its samples shared out, if they can be in equal parts."""
        parts = self.mesh.shape[BATCH]
        if parts == 1 or batch.lengths.shape[-1] % parts:
            return batch
        before = (SEED,) if with_seeds else ()

        def place(values: Any, *axes: str | None) -> Any:
            return jax.lax.with_sharding_constraint(values, NamedSharding(self.mesh, PartitionSpec(*before, *axes)))

        return DeviceBatch(
            batch.algorithm,
            {name: place(values, BATCH) for name, values in batch.inputs.items()},
            {name: place(values, None, BATCH) for name, values in batch.hints.items()},
            {name: place(values, BATCH) for name, values in batch.outputs.items()},
            place(batch.lengths, BATCH),
        )
