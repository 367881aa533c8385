"""The logits of Triplet Edge Attention from dense features of pairs: a kernel forward, the plain gradient backward."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Float

from narkit.fused import launch
from narkit.loops.deferred_gradients import keep_values
from narkit.models.triplets import attention_backward


def triplet_logits(
    pair_ij: Float[Array, "node node hidden"],
    pair_ik: Float[Array, "node node hidden"],
    pair_jk: Float[Array, "node node hidden"],
    weights: Float[Array, "1 hidden"],
    slope: float,
) -> Float[Array, "1 node node node"]:
    """Returns `sum_h a_h LeakyReLU(u_ij + w_ik + q_jk)_h`, as `models.triplets.attention_logits`, of a single head."""
    return keep_values(_logits(pair_ij, pair_ik, pair_jk, weights, slope))


def _run(pair_ij: Array, pair_ik: Array, pair_jk: Array, weights: Array, slope: float) -> Array:
    n = len(pair_ij)
    macros = (("N", n), ("SLOPE", float(slope)))
    kernel = launch.Kernel("triplet_logits.cu", "triplet_logits", macros, ((-(-n // 8)) ** 2, 1), 0)
    return kernel(pair_ij, pair_ik, pair_jk, weights, outputs=launch.in_float32((1, n, n, n)))[0]


def _forward(pair_ij: Array, pair_ik: Array, pair_jk: Array, weights: Array, slope: float) -> tuple[Array, tuple]:
    return _run(pair_ij, pair_ik, pair_jk, weights, slope), (pair_ij, pair_ik, pair_jk, weights)


_logits: Any = jax.custom_vjp(_run, nondiff_argnums=(4,))
_logits.defvjp(_forward, attention_backward)
