"""A loop over time with a bound that is known only when it runs, and with its own gradient.

`jax.lax.scan` needs the number of steps when it is compiled, so batches of different lengths would each need a
program, or all be padded to the longest ever. `time_loop` runs as many steps as the batch needs inside one program.

The backward pass runs the steps in reverse and recomputes each from the carry that was saved before it. What the
gradient does not read is not saved. Gradients of small weights leave the loop: in place of a product per weight and
step, the factors of all steps are stacked and multiplied once after the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, PyTree

from narkit.kernels.deferred_gradients import BackwardStep

Step = Callable[[PyTree, PyTree, Array, PyTree], tuple[PyTree, PyTree]]
"""`carry, y = step(params, data, t, carry)`"""

_ZERO = np.zeros((), np.int32)


def time_loop(
    step: Step, params: PyTree, data: PyTree, carry: PyTree, num_steps: Int[Array, ""], capacity: int
) -> tuple[PyTree, PyTree]:
    """Runs `carry, y = step(params, data, t, carry)` for t = 0, ..., num_steps - 1.

    Returns the last carry and the ys stacked over `capacity` rows, which must be at least `num_steps`; rows beyond
    are zero. Gradients flow to `params` and `carry`, not to `data`.
    """
    return _differentiable_loop(step, params, data, carry, num_steps, capacity)


def _loop(step, params, data, carry, num_steps, capacity):
    carry, ys, _ = _run(step, params, data, carry, num_steps, capacity, save=lambda _: None)
    return carry, ys


def _run(step, params, data, carry, num_steps, capacity, save):
    outputs = jax.eval_shape(lambda c: (step(params, data, _ZERO, c)[1], save(c)), carry)
    stacks = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), outputs)

    def body(t, state):
        carry, stacks = state
        next_carry, y = step(params, data, t, carry)
        return next_carry, _write(stacks, t, (y, save(carry)))

    carry, (ys, saved) = lax.fori_loop(_ZERO, num_steps.astype(jnp.int32), body, (carry, stacks))
    return carry, ys, saved


def _write(stacks: PyTree, t: Array, values: PyTree) -> PyTree:
    return jax.tree.map(lambda stack, value: lax.dynamic_update_index_in_dim(stack, value, t, 0), stacks, values)


def _read(stacks: PyTree, t: Array) -> PyTree:
    return jax.tree.map(lambda stack: lax.dynamic_index_in_dim(stack, t, 0, keepdims=False), stacks)


def _forward(step, params, data, carry, num_steps, capacity):
    backward = _backward_step(step, params, data, carry)
    last, ys, saved = _run(step, params, data, carry, num_steps, capacity, backward.what_it_reads)
    return (last, ys), (params, data, saved, jax.tree.map(jnp.zeros_like, carry), num_steps)


def _backward(step, capacity, residuals, cotangents):
    params, data, saved, blank, num_steps = residuals
    num_steps = num_steps.astype(jnp.int32)
    d_carry, d_ys = cotangents
    backward = _backward_step(step, params, data, blank)

    def body(i, state):
        d_carry, sums, stacks = state
        t = num_steps - 1 - i
        carry = backward.restore(_read(saved, t), blank)
        d_carry, summands, factors = backward(params, data, t, carry, d_carry, _read(d_ys, t))
        sums = [total + summand for total, summand in zip(sums, summands, strict=True)]
        return d_carry, sums, _write(stacks, t, factors)

    start = (d_carry, backward.empty_sums(), backward.empty_stacks(capacity))
    d_carry, sums, stacks = lax.fori_loop(_ZERO, num_steps, body, start)
    return backward.finish(sums, stacks), None, d_carry, None


def _backward_step(step, params, data, carry) -> BackwardStep:
    """Traces the reverse of one step. Only shapes matter here, so any carry will do."""

    def pull_back(params, data, t, carry, d_carry, d_y):
        _, vjp = jax.vjp(lambda p, c: step(p, data, t, c), params, carry)
        d_params, d_carry = vjp((d_carry, d_y))
        return d_carry, d_params

    d_y = jax.eval_shape(lambda c: step(params, data, _ZERO, c)[1], carry)
    return BackwardStep(pull_back, params, data, _ZERO, carry, d_y)


_differentiable_loop: Any = jax.custom_vjp(_loop, nondiff_argnums=(0, 5))
_differentiable_loop.defvjp(_forward, _backward)
