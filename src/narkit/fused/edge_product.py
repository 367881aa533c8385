"""Products of arrays over edges with a matrix, whose gradient is made sample by sample.

The gradient of the matrix is a sum over all edges of all samples. As one product it has few outputs and a long sum,
which a GPU's library gives to few of its processors; as a product for every sample it keeps all of them busy.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def edge_product(
    values: Float[Array, "sample *edges width"],
    weight: Float[Array, "width outputs"],
    precision: jax.lax.Precision | None = None,
) -> Float[Array, "sample *edges outputs"]:
    """Returns `values @ weight`."""
    return _product(values, weight, precision)


def sum_of_products(
    values: Float[Array, "sample *edges width"],
    cotangent: Float[Array, "sample *edges outputs"],
    precision: jax.lax.Precision | None,
) -> Float[Array, "width outputs"]:
    """Returns the sum of outer products over all edges of all samples."""
    by_sample = jnp.einsum("b...v,b...o->bvo", values, cotangent, precision=precision)
    # The compiler would make one product of the products and their sum.
    return jax.lax.optimization_barrier(by_sample).sum(0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(values: Array, weight: Array, precision: Any) -> Array:
    return jnp.matmul(values, weight, precision=precision)


def _forward(values: Array, weight: Array, precision: Any) -> tuple[Array, tuple[Array, Array]]:
    return _product(values, weight, precision), (values, weight)


def _backward(precision: Any, saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    values, weight = saved
    d_values = jnp.matmul(cotangent, weight.T, precision=precision)
    return d_values, sum_of_products(values, cotangent, precision)


_product.defvjp(_forward, _backward)
