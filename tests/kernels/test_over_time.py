"""Products and sums over the steps that a loop has run equal the plain formulas."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narkit.kernels.fused import over_time
from narkit.kernels.fused.over_time import Columns

from .emulation import emulated, needs_compiler

CAPACITY = 5


def stack(rng, rows, columns, dtype: Any = np.float32, seeds=()):
    """Small whole numbers, whose products and sums are exact. Rows of steps that are not run are not numbers."""
    return jnp.asarray(rng.integers(-4, 5, (*seeds, CAPACITY, rows, columns)), dtype)


def check(make, num_steps, seeds=None):
    """`make(stacks)` gives the arguments of `evaluate` without the number of steps."""
    rng = np.random.default_rng(0)
    sizes = [(40, 140), (40, 300), (40, 15), (70, 12), (24, 128), (24, 130)]
    halves = [False] * 4 + [True] * 2
    stacks = [
        stack(rng, rows, columns, jnp.bfloat16 if half else np.float32, () if seeds is None else (seeds,))
        for (rows, columns), half in zip(sizes, halves, strict=True)
    ]
    beyond = jnp.arange(CAPACITY)[:, None, None] >= num_steps
    unused = [jnp.where(beyond, jnp.asarray(np.nan, values.dtype), values) for values in stacks]
    steps = jnp.asarray(num_steps, jnp.int32)

    def run(stacks):
        products, sums = make(stacks)
        return over_time.evaluate(products, sums, steps)

    def plain(stacks):
        products, sums = make(stacks)
        return over_time.reference(products, sums, num_steps)

    with emulated():
        have = jax.jit(run if seeds is None else jax.vmap(run))(unused)
    want = (plain if seeds is None else jax.vmap(plain))(stacks)
    jax.tree.map(np.testing.assert_array_equal, have, want)


def several(stacks):
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
    return products, [first, other]


@needs_compiler
@pytest.mark.parametrize("num_steps", [0, 1, 3, CAPACITY])
def test_equals_the_plain_formulas(num_steps):
    check(several, num_steps)


@needs_compiler
def test_seeds_side_by_side(monkeypatch):
    monkeypatch.setattr(over_time, "SHORTEST_PART", 32)
    check(several, 4, seeds=2)


@needs_compiler
def test_parts_are_added_up(monkeypatch):
    monkeypatch.setattr(over_time, "SHORTEST_PART", 32)
    monkeypatch.setattr(over_time, "BLOCKS_PER_SEED", 1000)
    check(several, 4)


@needs_compiler
def test_only_sums():
    check(lambda stacks: ([], [stacks[3]]), 2)


@needs_compiler
def test_factors_are_rounded_to_tf32():
    rng = np.random.default_rng(1)
    x, y = (jnp.asarray(rng.normal(size=(CAPACITY, 30, width)), np.float32) for width in (20, 50))
    products = [(Columns(x, 0, 20), Columns(y, 0, 50)), (Columns(y, 0, 50), Columns(y, 0, 50))]
    with emulated():
        (have, square), _ = over_time.evaluate(products, [], jnp.asarray(CAPACITY, jnp.int32))
    (want, squared), _ = over_time.reference(products, [], CAPACITY)
    scale = np.sqrt(CAPACITY * 30)
    np.testing.assert_allclose(have, want, atol=2e-3 * scale)
    np.testing.assert_allclose(square, squared, atol=2e-3 * scale, rtol=1e-3)
    assert np.abs(have - want).max() > 1e-6


def test_nothing_to_do():
    assert over_time.evaluate([], [], jnp.zeros((), jnp.int32)) == ([], [])
