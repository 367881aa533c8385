"""Products and sums over time beside plain formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit.fused import over_time
from narkit.fused.over_time import Columns

CAPACITY = 5


def several(stacks: Sequence[Any]) -> tuple[list[tuple[Columns, Columns]], list[Any]]:
    """Products of all kinds, and two sums."""
    first, second, narrow, other, half, wide_half = stacks
    products = [
        (Columns(first, 0, 140), Columns(second, 4, 130)),
        (Columns(first, 3, 128), Columns(second, 1, 40)),  # not aligned
        (Columns(narrow, 0, 15), Columns(second, 0, 300)),
        (Columns(second, 8, 256), Columns(narrow, 2, 9)),  # the narrow one on the right
        (Columns(other, 0, 12), Columns(other, 0, 12)),
        (Columns(half, 0, 128), Columns(wide_half, 0, 130)),
        (Columns(half, 0, 64), Columns(half, 64, 64)),
    ]
    return products, [Columns(first, 0, 140), Columns(other, 0, 12)]


def only_sums(stacks: Sequence[Any]) -> tuple[list[tuple[Columns, Columns]], list[Any]]:
    return [], [Columns(stacks[3], 0, 12)]


def reference(
    products: Sequence[tuple[Columns, Columns]], sums: Sequence[Columns], num_steps: int
) -> tuple[list[Array], list[Array]]:
    """Products and sums by plain formulas, in float32."""

    def columns(of: Columns) -> Array:
        return of.stack[:num_steps, :, of.start : of.start + of.width].astype(jnp.float32)

    highest = jax.lax.Precision.HIGHEST
    made = [jnp.einsum("trm,trn->mn", columns(x), columns(y), precision=highest) for x, y in products]
    return made, [columns(of).sum((0, 1)) for of in sums]


def assert_equal_to_plain(make: Any, num_steps: int, seeds: int | None = None, scale: int = 1) -> None:
    """`make(stacks)` says which products and sums. There are `scale` times 24 to 70 rows per step.

    Factors are small whole numbers, whose products and sums are exact in any order. Rows of steps that were not run are
    not numbers.
    """
    rng = np.random.default_rng(0)
    lead = () if seeds is None else (seeds,)

    def stack(rows: int, columns: int, dtype: Any = jnp.float32) -> np.ndarray:
        return rng.integers(-4, 5, (*lead, CAPACITY, scale * rows, columns)).astype(dtype)

    sizes = [(40, 140), (40, 300), (40, 15), (70, 12)]
    stacks = [stack(rows, columns) for rows, columns in sizes]
    stacks += [stack(24, columns, jnp.bfloat16) for columns in (128, 130)]
    beyond = np.arange(CAPACITY)[:, None, None] >= num_steps
    unused = [np.where(beyond, np.asarray(np.nan, values.dtype), values) for values in stacks]

    def run(stacks):
        products, sums = make(stacks)
        return over_time.evaluate(products, sums, jnp.asarray(num_steps, jnp.int32), jnp.full(2, CAPACITY, jnp.int32))

    def plain(stacks):
        products, sums = make(stacks)
        return reference(products, sums, num_steps)

    have = jax.jit(run if seeds is None else jax.vmap(run))(unused)
    want = jax.jit(plain if seeds is None else jax.vmap(plain))(stacks)
    jax.tree.map(np.testing.assert_array_equal, have, want)
