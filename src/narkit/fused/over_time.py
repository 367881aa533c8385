"""Products and sums over what a loop over time has stacked: all of them in a few launches, whatever their number.

Left to a library, each is a launch of its own, or three where a factor is a part of a stack and the sum is cut into
parts; all rows are read, those of steps that were not run included; and factors of few columns, which are not aligned,
take several times as long as it takes to read them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Int

from narkit.fused import launch

BLOCKS_PER_SEED = 256
"""How many blocks a launch is cut into, roughly: so many that the last ones, which leave cores idle, are few."""

SHORTEST_PART = 128  # rows
MOST_NARROW = 32  # columns
THREADS = 256
TILE = 128  # columns of a tile, and its rows unless the left factor is narrow
NARROW_TILE = 16


@dataclass(frozen=True)
class Columns:
    """Some columns of a stack: (step, row, column).

    `by_sample` says that the rows of a step are those of the samples, one after the other, with as many rows each.
    """

    stack: Array
    start: int
    width: int
    by_sample: bool = False

    @property
    def is_aligned(self) -> bool:
        """True if they begin at a multiple of sixteen bytes in all rows."""
        size = self.stack.dtype.itemsize
        return self.start * size % 16 == 0 and self.stack.shape[2] * size % 16 == 0


@dataclass(frozen=True)
class _Job:
    """A product or, without a left factor, a sum."""

    left: Columns | None
    right: Columns

    @property
    def shape(self) -> tuple[int, int]:
        return (1 if self.left is None else self.left.width), self.right.width

    @property
    def rows(self) -> int:
        return self.right.stack.shape[1]

    @property
    def by_sample(self) -> bool:
        return self.right.by_sample and (self.left is None or self.left.by_sample)

    @property
    def narrow(self) -> bool:
        return self.shape[0] <= MOST_NARROW

    @property
    def tiles(self) -> int:
        height = NARROW_TILE if self.narrow else TILE
        return -(-self.shape[0] // height) * -(-self.shape[1] // TILE)


@dataclass(frozen=True)
class _Parts:
    """A job that is cut into parts, and where these are among the launch's `values`."""

    job: _Job
    count: int
    at: int
    values: Array


def fits(width: int, start: int, total: int, dtype: jnp.dtype) -> bool:
    """Returns whether the kernels can read such columns of a stack."""
    if dtype == jnp.bfloat16:  # copied four bytes at a time, or sixteen
        return width % 2 == start % 2 == total % 2 == 0
    return dtype == jnp.float32


def evaluate(
    products: Sequence[tuple[Columns, Columns]],
    sums: Sequence[Columns],
    num_steps: Int[Array, ""],
    last: Int[Array, " sample"],
) -> tuple[list[Array], list[Array]]:
    """Returns the products `x^T y`, and the sums over steps and rows, over the first `num_steps` steps of stacks.

    Factors of a product are both float32 (and rounded to TF32) or both bfloat16. What is summed is float32, all columns
    of a stack, a multiple of four. All have the same number of steps.

    Beyond a sample's `last` step its rows count for nothing: those of one factor, and of what is summed, are zero, the
    others finite. Most of them are not read.
    """
    # The factor that has few columns, if one has, comes first.
    flipped = [y.width <= MOST_NARROW and y.width < x.width for x, y in products]
    jobs = [_Job(y, x) if flip else _Job(x, y) for (x, y), flip in zip(products, flipped, strict=True)]
    jobs += [_Job(None, columns) for columns in sums]
    if not jobs:
        return [], []
    kinds: dict[tuple, list[int]] = {}
    for i, job in enumerate(jobs):
        kind = ("sum",) if job.left is None else (str(job.right.stack.dtype), job.narrow)
        kinds.setdefault(kind, []).append(i)
    parts: dict[int, _Parts] = {}
    for chosen in kinds.values():
        parts |= dict(zip(chosen, _in_parts([jobs[i] for i in chosen], num_steps, last), strict=True))
    results = _added([parts[i] for i in range(len(jobs))], num_steps)
    made = [result.T if flip else result for result, flip in zip(results, flipped, strict=False)]
    return made, [result[0] for result in results[len(products) :]]


def _in_parts(jobs: Sequence[_Job], num_steps: Array, last: Array) -> list[_Parts]:
    """Runs jobs of a kind in one launch. Every part has about as many rows, so that all blocks take as long."""
    capacity = jobs[0].right.stack.shape[0]
    work = sum(job.tiles * job.rows * capacity for job in jobs)
    length = max(SHORTEST_PART, -(-work // BLOCKS_PER_SEED))
    counts = [-(-job.rows * capacity // length) for job in jobs]
    ends = list(itertools.accumulate(count * math.prod(job.shape) for job, count in zip(jobs, counts, strict=True)))
    starts = [0, *ends[:-1]]
    stacks, table, block = _Inputs(), [], 0
    for job, count, at in zip(jobs, counts, starts, strict=True):
        left = job.right if job.left is None else job.left
        names = (stacks.name(left.stack), stacks.name(job.right.stack))
        each = job.rows // len(last) if job.by_sample else 0
        table.append(_entry(names, (left.start, left.stack.shape[2]), job, (each, count, block, at)))
        block += job.tiles * count
    macros = {"INPUTS": stacks.parameters, "JOBS": len(jobs), "TABLE": ", ".join(table), "ALL_PARTS": ends[-1]}
    macros["SAMPLES"] = len(last)
    if jobs[0].left is None:
        name, shared = "sums_over_time", 16 * THREADS
    else:
        # As in over_time.cu: four stages, each with rows of both factors.
        name, narrow = "products_over_time", jobs[0].narrow
        sides = {"LEFT": [job.left for job in jobs if job.left is not None], "RIGHT": [job.right for job in jobs]}
        macros |= {"IS_NARROW": int(narrow), "IS_HALF": int(jobs[0].right.stack.dtype == jnp.bfloat16)}
        macros |= {f"{side}_ALIGNED": int(all(x.is_aligned for x in factors)) for side, factors in sides.items()}
        shared = 4 * 16 * 4 * ((NARROW_TILE if narrow else TILE) + 8 + TILE + 8)
    kernel = launch.Kernel("over_time.cu", name, tuple(macros.items()), (block, 1), shared, threads=THREADS)
    rows = launch.Rows((), (), capacity, ends=True)
    (values,) = kernel(*stacks.arrays, num_steps, last, outputs=launch.in_float32((ends[-1],)), rows=rows)
    return [_Parts(job, count, at, values) for job, count, at in zip(jobs, counts, starts, strict=True)]


def _added(parts: Sequence[_Parts], num_steps: Array) -> list[Array]:
    """Adds the parts of all jobs up, in one launch and always in the same order."""
    capacity = parts[0].job.right.stack.shape[0]
    inputs, table, block = _Inputs(), [], 0
    for part in parts:
        name = inputs.name(part.values)
        table.append(_entry((name, name), (0, part.values.size), part.job, (0, part.count, block, part.at)))
        block += -(-math.prod(part.job.shape) // THREADS)
    names = [f"r{i}" for i in range(len(parts))]
    macros = {
        "INPUTS": inputs.parameters,
        "OUTPUTS": ", ".join(f"float* {name}" for name in names),
        "RESULTS": ", ".join(names),
        "JOBS": len(parts),
        "TABLE": ", ".join(table),
    }
    kernel = launch.Kernel("over_time.cu", "add_parts", tuple(macros.items()), (block, 1), 0, threads=THREADS)
    outputs = launch.in_float32(*(part.job.shape for part in parts))
    return kernel(*inputs.arrays, num_steps, outputs=outputs, rows=launch.Rows((), (), capacity))


class _Inputs:
    """Arrays that a kernel reads, each once, and the names that it calls them by."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def name(self, array: Array) -> str:
        at = next((i for i, known in enumerate(self.arrays) if known is array), None)
        if at is None:
            at = len(self.arrays)
            self.arrays.append(array)
        return f"s{at}"

    @property
    def parameters(self) -> str:
        return "".join(f"const char* s{i}, " for i in range(len(self.arrays)))


def _entry(names: tuple[str, str], on_left: tuple[int, int], job: _Job, place: tuple[int, int, int, int]) -> str:
    """Returns a `Job` of over_time.cu as text."""
    (height, width), right = job.shape, job.right
    numbers = (*on_left, height, right.start, right.stack.shape[2], width, job.rows, *place)
    return f"{{{', '.join([*names, *map(str, numbers)])}}}"
