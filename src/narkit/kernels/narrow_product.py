"""Products with a matrix of few rows: as many as there are scalars per node or edge."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.kernels.deferred_gradients import LARGEST_FACTOR
from narkit.kernels.fused import launch


def narrow_product(
    scalars: Float[Array, "*axes scalar"], directions: Float[Array, "scalar hidden"]
) -> Float[Array, "*axes hidden"]:
    """`scalars @ directions`.

    Beside fused kernels it is a sum of outer products, which the compiler makes part of what reads it; a GPU's library
    for matrix products would write it out, and choose poor kernels for so few rows.
    """
    return _outer_sum(scalars, directions) if launch.mode() is launch.Mode.FUSED else scalars @ directions


def _sum(scalars: Array, directions: Array) -> Array:
    total = jnp.zeros((*scalars.shape[:-1], directions.shape[1]))
    for p in range(directions.shape[0]):
        total = total + scalars[..., p, None] * directions[p]
    return total


def _forward(scalars: Array, directions: Array) -> tuple[Array, tuple[Array, Array]]:
    return _sum(scalars, directions), (scalars, directions)


def _backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    scalars, directions = saved
    d_scalars = jnp.sum(cotangent[..., None, :] * directions, axis=-1)
    rows = tuple(range(cotangent.ndim - 1))
    if cotangent.size <= LARGEST_FACTOR:  # a product that a time loop finishes for all steps at once
        return d_scalars, jax.lax.dot_general(scalars, cotangent, ((rows, rows), ((), ())))
    return d_scalars, jnp.sum(scalars[..., None] * cotangent[..., None, :], axis=rows)


_outer_sum: Any = jax.custom_vjp(_sum)
_outer_sum.defvjp(_forward, _backward)
