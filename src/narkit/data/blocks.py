"""Arrays of zeros that lie in one piece of memory."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

ALIGNMENT = 64  # bytes: a line of a CPU's cache


def zeros_in_one_block(layouts: Iterable[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
    """Returns an array of zeros for each shape and type, all of them parts of one, which lives as long as any of them.

    Fresh memory is handed out a page at a time when it is first touched, which costs more than what is then written,
    unless it is so much that NumPy asks for huge pages. This is for memory that is soon given up.
    """
    layouts = list(layouts)
    starts = [0]
    for shape, dtype in layouts:
        starts.append(starts[-1] + -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT)
    block = np.zeros(starts[-1], np.uint8)
    return [np.ndarray(shape, dtype, block, start) for (shape, dtype), start in zip(layouts, starts, strict=False)]
