"""The time loop equals `jax.lax.scan`, values and gradients, for any number of steps and under `jax.vmap`."""

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narkit.fused import loop
from narkit.fused.loop import FUSED_LOOP
from narkit.fused.stack_allocation import allocate_stacks
from narkit.loops import deferred_gradients, time_loop
from narkit.loops.backend import PLAIN, Stack
from narkit.loops.deferred_gradients import ReversibleStep
from narkit.loops.traced_program import sum_of_rows

from ..fused.emulation import emulated, needs_compiler

CAPACITY, BATCH, NODES, HIDDEN = 6, 3, 4, 5
LAST = np.array([0, 5, 3])  # the steps of which samples give out what they have


def step(params, data, t, carry):
    """A small recurrent network with what networks have: merged products, biases, broadcasts, a nested jit, a weight
    that is read twice, and products with a constant beside the values."""
    hidden, first = carry
    inner = jax.nn.relu(jnp.einsum("bnh,hk->bnk", hidden, params["inner"]))
    inner = inner + with_one(hidden) @ params["shared"]
    out = jnp.tanh(inner + params["bias"] + data["x"][t])
    out = out + 0.1 * with_one(out) @ params["shared"]
    twice = 2.0 * out
    y = {"y": out @ params["out"], "t": t * jnp.ones(()), "part": twice[..., 1:3]}
    return (out + 0.1 * hidden, jnp.where(t > 1, first, hidden)), y, (hidden, twice)


def with_one(values):
    return jax.lax.pad(values, np.ones((), values.dtype), [(0, 0, 0), (0, 0, 0), (0, 1, 0)])


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), 7)
        params = {
            "inner": jax.random.normal(keys[0], (HIDDEN, HIDDEN)),
            "bias": jax.random.normal(keys[1], (HIDDEN,)),
            "out": jax.random.normal(keys[2], (HIDDEN, 2)),
            "shared": 0.3 * jax.random.normal(keys[6], (HIDDEN + 1, HIDDEN)),
        }
        data = {"x": jax.random.normal(keys[3], (CAPACITY, BATCH, NODES, HIDDEN))}
        hidden = jax.random.normal(keys[4], (BATCH, NODES, HIDDEN))
        weights = jax.random.normal(keys[5], (CAPACITY, BATCH, NODES, 2))
        yield params, data, hidden, weights


def with_scan(params, data, hidden, weights, num_steps):
    def body(carry, t):
        carry, y, z = step(params, data, t, carry)
        return carry, (y, z)

    carry, (ys, zs) = jax.lax.scan(body, (hidden, hidden), jnp.arange(num_steps))
    own = (jnp.minimum(LAST, num_steps - 1), jnp.arange(BATCH))
    on_ys = jnp.sum(ys["y"] * weights[:num_steps]) + jnp.sum(ys["part"] * weights[:num_steps])
    return on_ys + loss_of(carry) + loss_of([z[own] for z in zs])


# Compiled whole, since one operation after the other takes longer; the number of steps is a part of the program.
scan_and_gradient = jax.jit(jax.value_and_grad(with_scan, (0, 2)), static_argnums=4)


def loss_of(values):
    return jnp.sum(values[0] ** 2) + jnp.sum(values[1] ** 3)


def with_time_loop(params, data, hidden, weights, num_steps, backend=PLAIN):
    last = jnp.minimum(LAST, num_steps - 1)
    carry, ys, zs = time_loop.time_loop(step, params, data, (hidden, hidden), num_steps, CAPACITY, last, backend)
    return jnp.sum((ys["y"] + ys["part"]) * weights) + loss_of(carry) + loss_of(zs)


@pytest.mark.parametrize("largest_factor", [0, 2**19], ids=["all summed inside", "small ones deferred"])
def test_equals_scan(problem, largest_factor, monkeypatch):
    monkeypatch.setattr(deferred_gradients, "LARGEST_FACTOR", largest_factor)
    params, data, hidden, weights = problem
    with jax.enable_x64(True):
        ours = jax.jit(jax.value_and_grad(with_time_loop, (0, 2)))
        for num_steps in (1, 2, CAPACITY):
            want = scan_and_gradient(params, data, hidden, weights, num_steps)
            have = ours(params, data, hidden, weights, jnp.asarray(num_steps))
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), have, want)
        assert cast(Any, ours)._cache_size() == 1  # the number of steps is no part of the program


@needs_compiler
@pytest.mark.parametrize(("seeds", "precision"), [(None, "highest"), (2, None)])
def test_equals_scan_beside_kernels(problem, seeds, precision, monkeypatch):
    """There stacks are not zero before they are written, and the products after the loop are cut into parts.

    In float32 they are left to the compiler; else kernels make them, and round the factors to TF32.
    """
    monkeypatch.setattr(loop, "SHORTEST_PART", 9)
    problem = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), problem)
    if seeds:
        problem = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf[::-1]]), problem)
    in_seeds = partial(jax.vmap, in_axes=(0, 0, 0, 0, None)) if seeds else lambda function: function
    rtol, atol = (1e-4, 1e-4) if precision else (2e-3, 1e-2)
    with emulated(), jax.default_matmul_precision(precision):
        assert FUSED_LOOP.parts_of_product(CAPACITY * BATCH * NODES, HIDDEN, HIDDEN) == 3
        beside_kernels = partial(with_time_loop, backend=FUSED_LOOP)
        ours = jax.jit(in_seeds(jax.value_and_grad(beside_kernels, (0, 2))))
        for num_steps in (1, CAPACITY - 1, CAPACITY):
            have = ours(*problem, jnp.asarray(num_steps))
            want = jax.jit(in_seeds(scan_and_gradient), static_argnums=4)(*problem, num_steps)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol), have, want)


@needs_compiler
@pytest.mark.parametrize("num_steps", [0, 2, CAPACITY])
def test_new_stacks_are_zero_where_nothing_will_be_written(num_steps):
    sizes = [((3, 4), np.float32), ((5,), np.int32), ((7,), np.int8), ((0, 2), np.float32), ((64, 33), np.float32)]
    stacks = [Stack(shape, dtype) for shape, dtype in sizes]
    made = lambda steps, beside: allocate_stacks([*stacks, Stack((4,), np.float32, False)], steps, CAPACITY, beside)  # noqa: E731
    with emulated():
        alone = jax.jit(made)(jnp.asarray(num_steps, jnp.int32), jnp.zeros(2))
        in_seeds = jax.jit(jax.vmap(made, in_axes=(None, 0)))(jnp.asarray(num_steps, jnp.int32), jnp.zeros((3, 2)))
        steps = jnp.full(3, num_steps, jnp.int32)
        one_by_one = jax.jit(jax.vmap(made))(steps, jnp.zeros((3, 2)))
    for stack, single, several, own in zip(stacks, alone, in_seeds, one_by_one, strict=False):
        for values in (single[None], several, own):
            assert values.shape == (len(values), CAPACITY, *stack.shape) and values.dtype == stack.dtype
            assert not np.asarray(values[:, num_steps:]).any()
        # The emulation marks what was not written: the kernel writes no more than it has to.
        assert (np.asarray(several[:, :num_steps]) == -1).all()
    assert (np.asarray(alone[-1]) == -1).all()


def test_a_vmapped_seed_equals_the_seed_alone(problem):
    params, data, hidden, weights = problem
    with jax.enable_x64(True):
        stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, 0.5 * leaf]), params)
        num_steps = jnp.asarray(4)
        gradient = jax.jit(jax.grad(with_time_loop))
        in_seeds = jax.jit(jax.vmap(gradient, in_axes=(0, None, None, None, None)))
        together = in_seeds(stacked, data, hidden, weights, num_steps)
        for factor, ours in ((1.0, 0), (0.5, 1)):
            alone = gradient(jax.tree.map(partial(jnp.multiply, factor), params), data, hidden, weights, num_steps)
            for name in params:
                np.testing.assert_allclose(together[name][ours], alone[name], rtol=1e-9)


def test_values_without_gradient_are_the_same(problem):
    params, data, hidden, weights = problem
    with jax.enable_x64(True):
        for num_steps in (1, CAPACITY):
            want = jax.jit(with_scan, static_argnums=4)(params, data, hidden, weights, num_steps)
            have = jax.jit(with_time_loop)(params, data, hidden, weights, jnp.asarray(num_steps))
            np.testing.assert_allclose(have, want, rtol=1e-9)


def test_rows_beyond_the_last_step_are_zero(problem):
    params, data, hidden, _ = problem
    with jax.enable_x64(True):
        last = jnp.zeros(BATCH, int)
        _, ys, _ = time_loop.time_loop(step, params, data, (hidden, hidden), jnp.asarray(2), CAPACITY, last)
        assert not np.any(ys["y"][2:])
        assert np.all(np.abs(ys["y"][:2]).sum(axis=(1, 2, 3)) > 0)


def test_what_leaves_the_loop(problem):
    """Weights are finished after the loop, and what the gradient does not read is not saved."""
    params, data, hidden, _ = problem
    with jax.enable_x64(True):
        backward = time_loop._reversible(step, params, data, (hidden, hidden), PLAIN)
        assert isinstance(backward, ReversibleStep)
        deferred = dict(zip(sorted(params), [bool(terms) for terms in backward._deferred], strict=True))
        # JAX 0.11 traces the sum that a bias gets in a form that can leave the loop, too.
        newer = jax.__version_info__ >= (0, 11)
        assert deferred == {"bias": newer, "inner": True, "out": True, "shared": True}
        assert len(backward.ys) == 2  # one is a part of what is kept
        assert len(backward.stacked) == 6  # `hidden` is kept and no further stack, also where a one stands beside it
        assert len(backward.kept) == 2  # the hidden state before the step, and what is wanted of the last one


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 4, 5, 3), (0, 3)])
def test_sums_of_rows(shape: tuple[int, ...]) -> None:
    values = jax.random.normal(jax.random.key(0), shape)
    expected = values.reshape(-1, shape[-1]).sum(0)
    np.testing.assert_allclose(jax.jit(sum_of_rows)(values), expected, rtol=1e-6, atol=1e-6)
