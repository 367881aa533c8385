"""The time loop equals `jax.lax.scan`, values and gradients, for any number of steps and under `jax.vmap`."""

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narkit.kernels import deferred_gradients, time_loop
from narkit.kernels.deferred_gradients import ReversibleStep

CAPACITY, BATCH, NODES, HIDDEN = 6, 3, 4, 5


def step(params, data, t, carry):
    """A small recurrent network with what networks have: merged products, biases, broadcasts, a nested jit."""
    hidden, first = carry
    inner = jax.nn.relu(jnp.einsum("bnh,hk->bnk", hidden, params["inner"]))
    out = jnp.tanh(inner + params["bias"] + data["x"][t])
    return (out + 0.1 * hidden, jnp.where(t > 1, first, hidden)), {"y": out @ params["out"], "t": t * jnp.ones(())}


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), 6)
        params = {
            "inner": jax.random.normal(keys[0], (HIDDEN, HIDDEN)),
            "bias": jax.random.normal(keys[1], (HIDDEN,)),
            "out": jax.random.normal(keys[2], (HIDDEN, 2)),
        }
        data = {"x": jax.random.normal(keys[3], (CAPACITY, BATCH, NODES, HIDDEN))}
        hidden = jax.random.normal(keys[4], (BATCH, NODES, HIDDEN))
        weights = jax.random.normal(keys[5], (CAPACITY, BATCH, NODES, 2))
        yield params, data, hidden, weights


def with_scan(params, data, hidden, weights, num_steps):
    carry, ys = jax.lax.scan(lambda c, t: step(params, data, t, c), (hidden, hidden), jnp.arange(num_steps))
    return jnp.sum(ys["y"] * weights[:num_steps]) + jnp.sum(carry[0] ** 2) + jnp.sum(carry[1] ** 3)


def with_time_loop(params, data, hidden, weights, num_steps):
    carry, ys = time_loop.time_loop(step, params, data, (hidden, hidden), num_steps, CAPACITY)
    return jnp.sum(ys["y"] * weights) + jnp.sum(carry[0] ** 2) + jnp.sum(carry[1] ** 3)


@pytest.mark.parametrize("largest_factor", [0, 2**19], ids=["all summed inside", "small ones deferred"])
def test_equals_scan(problem, largest_factor, monkeypatch):
    monkeypatch.setattr(deferred_gradients, "LARGEST_FACTOR", largest_factor)
    params, data, hidden, weights = problem
    with jax.enable_x64(True):
        ours = jax.jit(jax.value_and_grad(with_time_loop, (0, 2)))
        for num_steps in (1, 2, CAPACITY):
            want = jax.value_and_grad(with_scan, (0, 2))(params, data, hidden, weights, num_steps)
            have = ours(params, data, hidden, weights, jnp.asarray(num_steps))
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), have, want)
        assert cast(Any, ours)._cache_size() == 1  # the number of steps is no part of the program


def test_a_vmapped_seed_equals_the_seed_alone(problem):
    params, data, hidden, weights = problem
    with jax.enable_x64(True):
        stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, 0.5 * leaf]), params)
        num_steps = jnp.asarray(4)
        gradient = jax.grad(with_time_loop)
        together = jax.vmap(gradient, in_axes=(0, None, None, None, None))(stacked, data, hidden, weights, num_steps)
        for factor, ours in ((1.0, 0), (0.5, 1)):
            alone = gradient(jax.tree.map(partial(jnp.multiply, factor), params), data, hidden, weights, num_steps)
            for name in params:
                np.testing.assert_allclose(together[name][ours], alone[name], rtol=1e-9)


def test_rows_beyond_the_last_step_are_zero(problem):
    params, data, hidden, _ = problem
    with jax.enable_x64(True):
        _, ys = time_loop.time_loop(step, params, data, (hidden, hidden), jnp.asarray(2), CAPACITY)
        assert not np.any(ys["y"][2:])
        assert np.all(np.abs(ys["y"][:2]).sum(axis=(1, 2, 3)) > 0)


def test_what_leaves_the_loop(problem):
    """Weights are finished after the loop, and what the gradient does not read is not saved."""
    params, data, hidden, _ = problem
    with jax.enable_x64(True):
        backward, _ = time_loop._reversible(step, params, data, (hidden, hidden))
        assert isinstance(backward, ReversibleStep)
        deferred = dict(zip(sorted(params), [d is not None for d in backward._deferred], strict=True))
        assert deferred == {"bias": False, "inner": True, "out": True}
        assert len(backward.empty_kept(1)) == 1
