"""The logits of Triplet Edge Attention from dense features of pairs, forward only: the gradient is `triplets`'s."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused import launch
from narkit.fused.weights import HIDDEN_SIZE as H


def is_fused(weights: Float[Array, "head width"]) -> bool:
    """Whether the kernel is in use and made for these weights: a single head of all features."""
    return weights.shape == (1, H) and launch.mode() is launch.Mode.FUSED


def triplet_logits(
    pair_ij: Float[Array, "node node hidden"],
    pair_ik: Float[Array, "node node hidden"],
    pair_jk: Float[Array, "node node hidden"],
    weights: Float[Array, "1 hidden"],
    slope: float,
) -> Float[Array, "1 node node node"]:
    """`sum_h a_h LeakyReLU(u_ij + w_ik + q_jk)_h`"""
    n = len(pair_ij)
    macros = (("N", n), ("SLOPE", float(slope)))
    kernel = launch.Kernel("triplet_logits.cu", "triplet_logits", macros, ((-(-n // 8)) ** 2, 1), 0)
    return kernel(pair_ij, pair_ik, pair_jk, weights, outputs=[((1, n, n, n), jnp.float32)])[0]
