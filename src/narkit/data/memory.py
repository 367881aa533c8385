"""Estimates of the memory that a batch needs, so that one that does not fit is refused before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from narkit import resources
from narkit.errors import MemoryNeedError
from narkit.spec import Algorithm, Stage

SMALL = 2**28  # bytes that are taken to be there without looking
SIZES = (16, 32)  # that lengths are measured at
SPREAD = 1.25  # an estimate may be too large by this factor


def check_memory(what: str, needed: float, advice: str = "choose a smaller size or fewer samples") -> None:
    """Raises if this many bytes are more than are available. `what` says what needs them."""
    if needed < SMALL:
        return
    there = resources.available_memory()
    if there is not None and needed > there:
        raise MemoryNeedError(
            f"{what}: about {resources.gibibytes(needed)} of memory would be needed, {resources.gibibytes(there)} are "
            f"there; {advice}"
        )


def batch_bytes(entry: Algorithm, num_nodes: int, num_samples: int, num_steps: float) -> float:
    """Returns the bytes of a raw batch."""
    total = 0.0
    for probe in entry.spec.values():
        each = math.prod(map(float, probe.shape(num_nodes))) * np.dtype(probe.dtype).itemsize
        total += each * (num_steps if probe.stage is Stage.HINT and not probe.constant else 1)
    return total * num_samples


def check_batch_memory(
    entry: Algorithm, size: int, num_samples: int, lengths: Callable[[Algorithm], tuple[float, float]]
) -> None:
    """Raises if a batch of this nominal size would not fit.

    Lengths of runs are not known before they are run. `lengths` gives those at the two `SIZES`, and they are taken to
    grow as they do there; the estimate is lowered a little, so that nothing that fits is refused for it.
    """
    num_nodes = entry.nodes_of_size(size)
    if batch_bytes(entry, num_nodes, num_samples, float(num_nodes) ** 2) < SMALL:
        return
    what = f"{entry.name}, {num_samples} sample{'s' if num_samples > 1 else ''} of size {size}"
    check_memory(what, batch_bytes(entry, num_nodes, num_samples, 1))
    if size > SIZES[-1]:
        steps = typical_steps(lengths(entry), size)
        check_memory(what, batch_bytes(entry, num_nodes, num_samples, steps) / SPREAD)


def typical_steps(lengths: tuple[float, float], size: int) -> float:
    """Estimates how many steps a run at this size takes, roughly: as the lengths at two small sizes grow."""
    small, large = lengths
    exponent = math.log(max(large / small, 1.0)) / math.log(SIZES[1] / SIZES[0])
    return large * (size / SIZES[1]) ** exponent
