"""Memory on a device for batches, kept apart from the working memory of programs.

JAX's allocator gives an array the smallest free block that holds it. A batch that arrives while a program runs would
land behind that program's working memory, which is most of what there is, and stay for some steps. When the program has
ended, the free memory would be in two blocks, and a larger program may fit in neither although there is enough in all.
So blocks for batches are set apart first: as many as there are ever batches at once, each between two small arrays that
stay. They are smaller than any other free block, so batches go there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

GROWTH = 1.3  # batches of longer trajectories may come
SEPARATOR = 2**20  # bytes of an array that stays; a smaller one might find a place elsewhere and separate nothing
LARGEST_SHARE = 0.1  # of the memory that the process may use


def reserve_blocks(batch_bytes: int, count: int) -> list[jax.Array]:
    """Sets apart `count` blocks for batches of this size, which last as long as the arrays that are returned.

    Where memory is not counted (on CPUs), or there is little of it, nothing is set apart.
    """
    limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    size = int(GROWTH * batch_bytes)
    return separators(size, count, _allocate) if count * (size + SEPARATOR) <= LARGEST_SHARE * limit else []


def separators(size: int, count: int, allocate: Callable[[int], Any]) -> list[Any]:
    """Returns small arrays with a free block of `size` bytes before each of them, if all free memory was one block."""
    blocks, between = [], []
    for _ in range(count):
        blocks.append(allocate(size))
        between.append(allocate(SEPARATOR))
    return between


def _allocate(size: int) -> jax.Array:
    return jax.block_until_ready(jax.device_put(np.empty(size, np.uint8)))
