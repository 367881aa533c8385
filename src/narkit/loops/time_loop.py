"""A loop over time with a bound that is known only when it runs, and with its own gradient.

`jax.lax.scan` needs the number of steps when it is compiled, so batches of different lengths would each need a
program, or all be padded to the longest ever. `time_loop` runs as many steps as the batch needs inside one program.

The backward pass runs the steps in reverse and recomputes each from the carry that was saved before it, and from what
a step has named to be saved. What the gradient does not read is not saved. Gradients of small weights leave the loop:
in place of a product per weight and step, the factors of all steps are stacked and multiplied once after the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, PyTree

from narkit.loops.backend import PLAIN, Backend
from narkit.loops.deferred_gradients import ReversibleStep
from narkit.loops.stacks import Row, write_row

Step = Callable[[PyTree, PyTree, Array, PyTree], tuple[PyTree, PyTree, PyTree]]
"""`carry, y, z = step(params, data, t, carry)`"""

_ZERO = np.zeros((), np.int32)


def time_loop(
    step: Step,
    params: PyTree,
    data: PyTree,
    carry: PyTree,
    num_steps: Int[Array, ""],
    capacity: int,
    last: Int[Array, " batch"],
    backend: Backend = PLAIN,
) -> tuple[PyTree, PyTree, PyTree]:
    """Runs `carry, y, z = step(params, data, t, carry)` for t = 0, ..., num_steps - 1.

    Returns the last carry; the ys stacked over `capacity` rows, which must be at least `num_steps` if there are ys,
    where rows beyond are zero; and of z each sample's value at its own step in `last`. The arrays of z have a first
    axis of samples. Gradients flow to `params` and `carry`, not to `data`.

    Beyond a sample's own step in `last` its ys mean nothing, and no gradient may come back from them or from the last
    carry: under differentiation a `backend` may leave such samples out.
    """
    return _differentiable_loop(step, params, data, carry, num_steps, capacity, last.astype(jnp.int32), backend)


def _loop(step, params, data, carry, num_steps, capacity, last, backend):
    _, ys, zs = jax.eval_shape(lambda c: step(params, data, _ZERO, c), carry)

    def body(t, state):
        carry, ys, zs = state
        carry, y, z = step(params, data, t, carry)
        ys = jax.tree.map(lambda stack, row: write_row(stack, row, t), ys, y)
        return carry, ys, jax.tree.map(lambda new, old: choose(last == t, new, old), z, zs)

    stacks = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), ys)
    start = (carry, stacks, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), zs))
    return lax.fori_loop(_ZERO, num_steps.astype(jnp.int32), body, start)


def choose(condition: Bool[Array, " batch"], yes: Array, no: Array | float) -> Array:
    """Does the same as `jnp.where` with a condition per sample."""
    return jnp.where(condition.reshape(-1, *(1,) * (yes.ndim - 1)), yes, no)


def _forward(step, params, data, carry, num_steps, capacity, last, backend):
    reversible = _reversible(step, params, data, carry, backend)

    def body(t, state):
        carry, ys, kept = state
        t = t.astype(jnp.int32)  # as traced
        return reversible.forward(params, data, t, last, carry, ys, kept)

    # Never more than there are rows: a backend that writes rows need not look where a stack ends.
    num_steps = jnp.minimum(num_steps, capacity).astype(jnp.int32)
    of_ys = reversible.ys
    stacks = backend.new_stacks([*of_ys, *reversible.kept], num_steps, capacity, (params, data, carry))
    start = (carry, stacks[: len(of_ys)], stacks[len(of_ys) :])
    carry, ys, kept = lax.fori_loop(_ZERO, num_steps, body, start)
    # What is wanted of a sample's last step is among what is kept of all steps.
    zs = jax.tree.map(lambda stack: stack[last, jnp.arange(len(last))], reversible.kept_z(kept))
    results = (carry, reversible.all_ys(ys, kept, num_steps), zs)
    return results, (params, data, kept, jax.tree.map(jnp.zeros_like, carry), num_steps, last)


def _backward(step, capacity, backend, residuals, cotangents):
    params, data, kept, zero_carry, num_steps, last = residuals
    d_carry, d_ys, d_zs = cotangents
    reversible = _reversible(step, params, data, zero_carry, backend)

    def body(state):
        t, d_carry, sums, stacks = state
        d_y = jax.tree.map(lambda stack: Row(stack, t), d_ys)
        d_z = jax.tree.map(lambda d: choose(last == t, d, 0.0), d_zs)
        d_carry, summands, stacks = reversible.backward(params, data, t, last, kept, d_carry, d_y, d_z, stacks)
        sums = [total + summand for total, summand in zip(sums, summands, strict=True)]
        return t - 1, d_carry, sums, stacks

    start = (
        num_steps - 1,
        d_carry,
        reversible.empty_sums(),
        backend.new_stacks(reversible.stacked, num_steps, capacity, (params, data, zero_carry)),
    )
    # One number counts down. A loop that counts up would compute the step from it, in a kernel of its own.
    _, d_carry, sums, stacks = lax.while_loop(lambda state: state[0] >= 0, body, start)
    return reversible.finish(sums, stacks, kept, num_steps, last), None, d_carry, None, None


def _reversible(step, params, data, carry, backend) -> ReversibleStep:
    """Traces one step with its reverse. Only shapes matter here, so any carry will do."""

    def pull_back(params, data, t, carry, d_carry, d_y, d_z):
        results, vjp = jax.vjp(lambda p, c: step(p, data, t, c), params, carry)
        d_params, d_carry = vjp((d_carry, d_y, d_z))
        return *results, d_carry, d_params

    _, d_y, d_z = jax.eval_shape(lambda c: step(params, data, _ZERO, c), carry)
    return ReversibleStep(pull_back, params, data, _ZERO, carry, d_y, d_z, backend)


_differentiable_loop: Any = jax.custom_vjp(_loop, nondiff_argnums=(0, 5, 7))
_differentiable_loop.defvjp(_forward, _backward)
