"""Weights in the form in which kernels read them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

HIDDEN_SIZE = 128  # the width that kernels are written for


def fragments(weights: Float[Array, "*many 128 128"]) -> Float[Array, "*many 8 8 32 8"]:
    """Weights (inputs, outputs) as bfloat16 in the order of the matrix units.

    A lane l of a warp needs, for 16 inputs k and 8 outputs n, the four weights with k in (2q, 2q + 1, 2q + 8, 2q + 9)
    and n = l // 4, where q = l % 4. They stand next to each other here, and next to those for the 8 outputs that
    follow, so that a lane reads both at once.
    """
    *many, inputs, outputs = weights.shape
    split = weights.reshape(*many, inputs // 16, 2, 4, 2, outputs // 16, 2, 8)
    # (k tile, k half, q, k parity, n pair, n half, n) -> (k tile, n pair, n, q, n half, k half, k parity)
    order = [len(many) + axis for axis in (0, 4, 6, 2, 5, 1, 3)]
    ordered = split.transpose(*range(len(many)), *order).astype(jnp.bfloat16)
    return ordered.reshape(*many, inputs // 16, outputs // 16, 32, 8)


def frozen(weights: Array, transposed: bool = False) -> Array:
    """Fragments of weights that gradients do not flow through: they flow through the weights themselves."""
    weights = jax.lax.stop_gradient(weights)
    return fragments(jnp.swapaxes(weights, -1, -2) if transposed else weights)
