"""Keeps batches on a device apart from the working memory of programs.

JAX's allocator gives an array the smallest free piece that holds it. A batch that arrives while a program runs would
land behind that program's working memory, which is most of what there is, and stay for some steps. When the program has
ended, what is free would be in two pieces, and a larger program may fit in neither although there is enough in all. So
rooms for batches are made first: as many pieces, each between two small arrays that stay, as batches are ever there at
once. They are smaller than any other free piece, so batches go there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

GROWTH = 1.3  # batches of longer trajectories may come
WALL = 2**20  # bytes of an array that stays; smaller ones might find a place elsewhere, and walls would be missing
LARGEST_SHARE = 0.1  # of the memory that the process may use


def make_rooms(batch_bytes: int, count: int) -> list[jax.Array]:
    """Makes so many rooms for batches of this size. They last as long as the arrays that are returned.

    Where memory is not counted (on CPUs), or there is little of it, there are none.
    """
    limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    size = int(GROWTH * batch_bytes)
    return build_walls(size, count, _allocate) if count * (size + WALL) <= LARGEST_SHARE * limit else []


def build_walls(size: int, count: int, allocate: Callable[[int], Any]) -> list[Any]:
    """Arrays with a free piece of this many bytes before each of them, where all else that is free is in one piece."""
    rooms, walls = [], []
    for _ in range(count):
        rooms.append(allocate(size))
        walls.append(allocate(WALL))
    return walls


def _allocate(size: int) -> jax.Array:
    return jax.block_until_ready(jax.device_put(np.empty(size, np.uint8)))
