"""Products with a matrix of few rows: as many as there are scalars per node or edge."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from narkit.fused.edge_product import sum_of_products
from narkit.loops.deferred_gradients import LARGEST_FACTOR

MOST_SUMMED = 8  # scalars whose products are made as sums, whatever their size


def narrow_product(
    scalars: Float[Array, "*axes scalar"],
    directions: Float[Array, "scalar hidden"],
    offset: Float[Array, " hidden"] | None = None,
) -> Float[Array, "*axes hidden"]:
    """Returns `scalars @ directions + offset`, without an offset `scalars @ directions`.

    It is a sum of outer products, which the compiler makes part of what reads it; a GPU's library for matrix products
    would write it out, and choose poor kernels for so few rows.
    """
    if offset is None:
        offset = jnp.zeros(directions.shape[1])
    return _outer_sum(scalars, directions, offset)


def _sum(scalars: Array, directions: Array, offset: Array) -> Array:
    total = jnp.broadcast_to(offset, (*scalars.shape[:-1], directions.shape[1]))
    for p in range(directions.shape[0]):
        total = total + scalars[..., p, None] * directions[p]
    return total


def _forward(scalars: Array, directions: Array, offset: Array) -> tuple[Array, tuple[Array, Array]]:
    return _sum(scalars, directions, offset), (scalars, directions)


def _backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array, Array]:
    scalars, directions = saved
    if _is_long(scalars, cotangent):
        d_scalars = jnp.matmul(cotangent, directions.T, precision=jax.lax.Precision.HIGHEST)
    else:
        d_scalars = jnp.sum(cotangent[..., None, :] * directions, axis=-1)
    return d_scalars, *gradients_of_directions(scalars, cotangent)


def gradients_of_directions(
    scalars: Float[Array, "*axes scalar"], cotangent: Float[Array, "*axes hidden"]
) -> tuple[Float[Array, "scalar hidden"], Float[Array, " hidden"]]:
    """Returns the gradients of the directions and of the offset of `scalars @ directions + offset`."""
    is_long = _is_long(scalars, cotangent)
    # The offset goes with a scalar that is always one, so that the cotangents are read once for both. Where a time loop
    # keeps the scalars, it adds the ones after it ends.
    scalars = jax.lax.pad(scalars, np.ones((), scalars.dtype), [(0, 0, 0)] * (scalars.ndim - 1) + [(0, 1, 0)])
    rows = tuple(range(cotangent.ndim - 1))
    if cotangent.size <= LARGEST_FACTOR:  # a product that a time loop finishes for all steps at once
        joint = jax.lax.dot_general(scalars, cotangent, ((rows, rows), ((), ())))
    elif is_long:
        joint = sum_of_products(scalars, cotangent, jax.lax.Precision.HIGHEST)
    else:
        joint = jnp.sum(scalars[..., None] * cotangent[..., None, :], axis=rows)
    return joint[:-1], joint[-1]


def _is_long(scalars: Array, cotangent: Array) -> bool:
    """Returns whether gradients are made by products: sums over many scalars read all cotangents again and again."""
    return scalars.shape[-1] > MOST_SUMMED and cotangent.size > LARGEST_FACTOR and cotangent.ndim > 2


_outer_sum: Any = jax.custom_vjp(_sum)
_outer_sum.defvjp(_forward, _backward)
