"""Products of the same values with several weights: one product forward, one per weight backward."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def merge(*weights: Float[Array, "inputs _"] | None) -> Float[Array, "inputs outputs"] | None:
    """The weights side by side, for `shared_product`. None if there are not at least two."""
    if any(weight is None for weight in weights):
        return None
    return jax.lax.stop_gradient(jnp.concatenate([weight for weight in weights if weight is not None], axis=1))


def shared_product(
    values: Float[Array, "batch node inputs"], weights: tuple[Any, ...], merged: Float[Array, "inputs outputs"]
) -> list[Float[Array, "batch node _"]]:
    """`values @ weight` for each of the weights, which `merge` has put side by side. Gradients flow to the weights.

    Left to XLA, it would merge the weights at every step of a loop, and the cotangents backward, too.
    """
    return _product(values, weights, merged)


def _primal(values: Array, weights: tuple[Array, ...], merged: Array) -> list[Array]:
    ends = [sum(weight.shape[1] for weight in weights[: i + 1]) for i in range(len(weights) - 1)]
    return jnp.split(values @ merged, ends, axis=-1)


def _forward(values: Array, weights: tuple[Array, ...], merged: Array) -> tuple[list[Array], tuple]:
    return _primal(values, weights, merged), (values, weights)


def _backward(saved: tuple, cotangents: list[Array]) -> tuple[Any, ...]:
    values, weights = saved
    d_values = sum((d @ weight.T for d, weight in zip(cotangents, weights, strict=True)), jnp.zeros_like(values))
    return d_values, tuple(jnp.einsum("bnh,bng->hg", values, d) for d in cotangents), None


_product: Any = jax.custom_vjp(_primal)
_product.defvjp(_forward, _backward)
