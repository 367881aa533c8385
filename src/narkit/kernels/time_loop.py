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
from jaxtyping import Array, Int, PyTree

from narkit.kernels.deferred_gradients import ReversibleStep
from narkit.kernels.fused.blank import Stack, blank_stacks
from narkit.kernels.stacks import read_row, write_row

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
    ys = jax.eval_shape(lambda c: step(params, data, _ZERO, c)[1], carry)

    def body(t, state):
        carry, ys = state
        carry, y = step(params, data, t, carry)
        return carry, _write(ys, t, y)

    return lax.fori_loop(_ZERO, num_steps.astype(jnp.int32), body, (carry, _blank(ys, capacity)))


def _blank(values: PyTree, capacity: int) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), values)


def _write(stacks: PyTree, t: Array, values: PyTree) -> PyTree:
    return jax.tree.map(lambda stack, value: write_row(stack, value, t), stacks, values)


def _read(stacks: PyTree, t: Array) -> PyTree:
    return jax.tree.map(lambda stack: read_row(stack, t), stacks)


def _forward(step, params, data, carry, num_steps, capacity):
    reversible, blank_y = _reversible(step, params, data, carry)

    def body(t, state):
        carry, ys, kept = state
        t = t.astype(jnp.int32)  # as traced
        carry, y, kept = reversible.forth(params, data, t, carry, kept)
        return carry, _write(ys, t, y), kept

    num_steps = num_steps.astype(jnp.int32)
    of_ys = [Stack(y.shape, y.dtype) for y in jax.tree.leaves(blank_y)]
    blank = blank_stacks([*of_ys, *reversible.kept], num_steps, capacity, (params, data, carry))
    start = (carry, jax.tree.unflatten(jax.tree.structure(blank_y), blank[: len(of_ys)]), blank[len(of_ys) :])
    last, ys, kept = lax.fori_loop(_ZERO, num_steps, body, start)
    return (last, ys), (params, data, kept, jax.tree.map(jnp.zeros_like, carry), num_steps)


def _backward(step, capacity, residuals, cotangents):
    params, data, kept, blank, num_steps = residuals
    d_carry, d_ys = cotangents
    reversible, _ = _reversible(step, params, data, blank)

    def body(i, state):
        d_carry, sums, stacks = state
        t = (num_steps - 1 - i).astype(jnp.int32)
        d_carry, summands, stacks = reversible.back(params, data, t, kept, d_carry, _read(d_ys, t), stacks)
        sums = [total + summand for total, summand in zip(sums, summands, strict=True)]
        return d_carry, sums, stacks

    start = (
        d_carry,
        reversible.empty_sums(),
        blank_stacks(reversible.stacked, num_steps, capacity, (params, data, blank)),
    )
    d_carry, sums, stacks = lax.fori_loop(_ZERO, num_steps, body, start)
    return reversible.finish(sums, stacks, kept), None, d_carry, None


def _reversible(step, params, data, carry) -> tuple[ReversibleStep, PyTree]:
    """Traces one step with its reverse. Only shapes matter here, so any carry will do."""

    def pull_back(params, data, t, carry, d_carry, d_y):
        results, vjp = jax.vjp(lambda p, c: step(p, data, t, c), params, carry)
        d_params, d_carry = vjp((d_carry, d_y))
        return *results, d_carry, d_params

    d_y = jax.eval_shape(lambda c: step(params, data, _ZERO, c)[1], carry)
    return ReversibleStep(pull_back, params, data, _ZERO, carry, d_y), d_y


_differentiable_loop: Any = jax.custom_vjp(_loop, nondiff_argnums=(0, 5))
_differentiable_loop.defvjp(_forward, _backward)
