"""Products and sums over the steps that a loop has run equal the plain formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narkit.fused import over_time
from narkit.fused.over_time import Columns

from .emulation import emulated, needs_compiler
from .plain_over_time import CAPACITY, assert_equal_to_plain, only_sums, reference, several

LAST = jnp.full(3, CAPACITY, jnp.int32)


@needs_compiler
@pytest.mark.parametrize("num_steps", [0, 1, 3, CAPACITY])
def test_equals_the_plain_formulas(num_steps):
    with emulated():
        assert_equal_to_plain(several, num_steps)


@needs_compiler
def test_seeds_side_by_side(monkeypatch):
    monkeypatch.setattr(over_time, "SHORTEST_PART", 32)
    with emulated():
        assert_equal_to_plain(several, 4, seeds=2)


@needs_compiler
def test_parts_are_added_up(monkeypatch):
    monkeypatch.setattr(over_time, "SHORTEST_PART", 32)
    monkeypatch.setattr(over_time, "BLOCKS_PER_SEED", 1000)
    with emulated():
        assert_equal_to_plain(several, 4)


@needs_compiler
def test_only_sums():
    with emulated():
        assert_equal_to_plain(only_sums, 2)


@needs_compiler
def test_factors_are_rounded_to_tf32():
    rng = np.random.default_rng(1)
    x, y = (jnp.asarray(rng.normal(size=(CAPACITY, 30, width)), np.float32) for width in (20, 50))
    products = [(Columns(x, 0, 20), Columns(y, 0, 50)), (Columns(y, 0, 50), Columns(y, 0, 50))]
    with emulated():
        (have, square), _ = over_time.evaluate(products, [], jnp.asarray(CAPACITY, jnp.int32), LAST)
    (want, squared), _ = reference(products, [], CAPACITY)
    # Each summand is off by up to 2 * 2^-11 of itself, and 150 of about one are summed.
    np.testing.assert_allclose(have, want, atol=0.03)
    np.testing.assert_allclose(square, squared, atol=0.03, rtol=1e-3)
    assert np.abs(have - want).max() > 1e-6


@needs_compiler
@pytest.mark.parametrize(("each", "beyond"), [(32, np.nan), (7, 0)], ids=["whole chunks", "parts of chunks"])
def test_samples_that_have_ended_count_for_nothing(each: int, beyond: float) -> None:
    """Where they fill chunks of rows they are not read; else they are zero."""
    rng = np.random.default_rng(2)
    last = np.array([0, 4, 2, 0])
    over = np.repeat(np.arange(CAPACITY)[:, None] > last, each, axis=1)[..., None]

    def columns(width: int, dtype=np.float32) -> tuple[Columns, Columns]:
        values = rng.integers(-4, 5, (CAPACITY, len(last) * each, width))
        stacks = (jnp.asarray(np.where(over, filler, values), dtype) for filler in (beyond, 0))
        first, second = (Columns(stack, 0, width, by_sample=True) for stack in stacks)
        return first, second

    factors = [(columns(128, dtype), columns(130, dtype)) for dtype in (np.float32, jnp.bfloat16)]
    factors.append((columns(12), columns(140)))
    summed = columns(140)
    with emulated():
        steps = jnp.asarray(CAPACITY, jnp.int32)
        have = over_time.evaluate([(x[0], y[0]) for x, y in factors], [summed[0]], steps, jnp.asarray(last, jnp.int32))
    want = reference([(x[1], y[1]) for x, y in factors], [summed[1]], CAPACITY)
    jax.tree.map(np.testing.assert_array_equal, have, want)


def test_nothing_to_do():
    assert over_time.evaluate([], [], jnp.zeros((), jnp.int32), LAST) == ([], [])
