"""Weights in the form in which kernels read them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

HIDDEN_SIZE = 128  # the width that kernels are written for
TILE = 64  # columns of weights in TF32 that a block takes, as in node_product.cu
NO_GRADIENT: Any = None
"""In the place of the gradient of fragments, which is that of the weights themselves."""


def fragments(weights: Float[Array, "*many 128 128"], dtype: Any = jnp.bfloat16) -> Float[Array, "*many 8 8 32 8"]:
    """Puts weights (inputs, outputs), as bfloat16 or another type of 16 bits, into the order of the matrix units.

    A lane l of a warp needs, for 16 inputs k and 8 outputs n, the four weights with k in (2q, 2q + 1, 2q + 8, 2q + 9)
    and n = l // 4, where q = l % 4. They stand next to each other here, and next to those for the 8 outputs that
    follow, so that a lane reads both at once.
    """
    *many, inputs, outputs = weights.shape
    split = weights.reshape(*many, inputs // 16, 2, 4, 2, outputs // 16, 2, 8)
    # (k tile, k half, q, k parity, n pair, n half, n) -> (k tile, n pair, n, q, n half, k half, k parity)
    order = [len(many) + axis for axis in (0, 4, 6, 2, 5, 1, 3)]
    ordered = split.transpose(*range(len(many)), *order).astype(dtype)
    return ordered.reshape(*many, inputs // 16, outputs // 16, 32, 8)


def at_least_one(values: Array, axis: int = -1) -> Array:
    """Returns the values, or where they have none along an axis one that is zero: kernels want a scalar."""
    return values if values.shape[axis] else jnp.zeros([max(1, size) for size in values.shape])


def frozen(weights: Array, transposed: bool = False) -> Array:
    """Returns fragments of weights that gradients do not flow through: they flow through the weights themselves."""
    weights = jax.lax.stop_gradient(weights)
    return fragments(jnp.swapaxes(weights, -1, -2) if transposed else weights)


def tf32_fragments(weights: Float[Array, "inputs outputs"]) -> Float[Array, "tile inputs_8 4 32 4"]:
    """Puts weights, rounded to TF32, into the order of the matrix units, in tiles of 64 outputs, the last one padded.

    A lane l of a warp needs, for 8 inputs k and 8 outputs n, the weights with k in (q, q + 4) and n = l // 4, where
    q = l % 4. They stand next to each other here, and next to those for the 8 outputs that follow.
    """
    inputs, outputs = weights.shape
    weights = jnp.pad(weights, ((0, 0), (0, -outputs % TILE)))
    split = weights.reshape(inputs // 8, 2, 4, -1, 4, 2, 8)
    # (k slice, k half, q, tile, n pair, n half, n) -> (tile, k slice, n pair, n, q, n half, k half)
    ordered = split.transpose(3, 0, 4, 6, 2, 5, 1)
    return _rounded_to_tf32(ordered.reshape(-1, inputs // 8, 4, 32, 4))


def _rounded_to_tf32(values: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """Rounds to ten bits behind the point, halves away from zero, as kernels round their operands."""
    bits = jax.lax.bitcast_convert_type(values, jnp.uint32)
    return jax.lax.bitcast_convert_type((bits + 0x1000) & ~jnp.uint32(0x1FFF), jnp.float32)
