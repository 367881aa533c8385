"""The two layers that everything is made of, initialised as the reference initialises them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

LAYER_NORM_EPSILON = 1e-5


class Linear(eqx.Module):
    """`x @ weight + bias` on the last axis.

    Weights are drawn from a normal distribution with variance 1 / inputs that is cut off at two standard deviations;
    the variance lost to the cut is not restored. Biases start at a constant.
    """

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, *, key: PRNGKeyArray, stddev: float | None = None, bias: float = 0.0):
        spread = inputs**-0.5 if stddev is None else stddev
        self.weight = spread * jax.random.truncated_normal(key, -2.0, 2.0, (inputs, outputs))
        self.bias = jnp.full((outputs,), bias, float)  # strongly typed, or the second training step would recompile

    def __call__(self, x: Float[Array, "*axes inputs"]) -> Float[Array, "*axes outputs"]:
        return x @ self.weight + self.bias


def concatenated(linears: Sequence[Linear]) -> Linear:
    """Concatenates Linears: returns one that gives the outputs of several with the same inputs, one after the other.

    Made once per training step, it turns many small products in the time loop into a single one.
    """
    first = linears[0]
    weight = jnp.concatenate([linear.weight for linear in linears], axis=1)
    bias = jnp.concatenate([linear.bias for linear in linears])
    return eqx.tree_at(lambda linear: (linear.weight, linear.bias), first, (weight, bias))


def split_outputs(values: Float[Array, "*axes outputs"], sizes: Sequence[int]) -> list[Float[Array, "*axes _"]]:
    """Takes the outputs of a Linear made by `concatenated` apart again."""
    ends = list(itertools.accumulate(sizes))
    # Slices, not `jnp.split`: a time loop takes them after it ends.
    return [values[..., end - size : end] for end, size in zip(ends, sizes, strict=True)]


class LayerNorm(eqx.Module):
    """Normalises the last axis to mean 0 and variance 1, then scales and shifts it."""

    scale: Float[Array, " hidden"]
    offset: Float[Array, " hidden"]

    def __init__(self, size: int):
        self.scale = jnp.ones((size,))
        self.offset = jnp.zeros((size,))

    def __call__(self, x: Float[Array, "*axes hidden"]) -> Float[Array, "*axes hidden"]:
        mean = x.mean(-1, keepdims=True)
        variance = x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + LAYER_NORM_EPSILON) * self.scale + self.offset


@jax.custom_vjp
def max_over_first(values: Float[Array, "node *rest hidden"]) -> Float[Array, "*rest hidden"]:
    """Returns the maximum over the first axis. Ties share the gradient, as for `jnp.max`, but one always takes part.

    The gradient of `jnp.max` compares the values with their maximum. Where a compiler computes the values twice, with
    different rounding, none of them equals it, and the gradient is 0 / 0.
    """
    return values.max(0)


def _max_forward(values: Array) -> tuple[Array, Array]:
    best = values.max(0)
    order = jnp.arange(len(values)).reshape(-1, *(1,) * best.ndim)
    return best, (values == best) | (order == values.argmax(0))


def _max_backward(is_best: Array, cotangent: Array) -> tuple[Array]:
    return (jnp.where(is_best, cotangent / is_best.sum(0), jnp.zeros((), cotangent.dtype)),)


max_over_first.defvjp(_max_forward, _max_backward)
