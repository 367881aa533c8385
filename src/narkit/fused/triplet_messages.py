"""Triplet-GMPNN's messages of triplets, before they are made wide: one kernel forward, one backward.

    t_ijk = x_i + x_j + x_k + s_ij E1 + s_ik E2 + s_jk E3     (8 wide)
    m_jk  = max over i of t_ijk

Only `u_ij = x_i + s_ij E1` and `w_ik = s_ik E2` take part in the maximum. The forward kernel also says which i it came
from; backward, the gradient of m_jk goes to u_ij and w_ik of that i, and no triplet is visited again.

Edge latents are `ReLU(m O + o)`; their readers make them, see `narrow_latents`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from narkit.fused.launch import THREADS, Kernel
from narkit.loops.deferred_gradients import SAVED, STACKED

FEATURES = 8  # of a triplet; as in triplet_messages.cu, with the following
NODES, RECEIVERS, WARPS = THREADS // FEATURES, 4, THREADS // 32


def triplet_maxima(
    terms: Float[Array, "sample node terms"],
    scalars: Float[Array, "sample node node scalar"],
    directions: Float[Array, "3 scalar 8"],
) -> Float[Array, "sample node node 8"]:
    """m_jk for all pairs (j, k). The last 24 of `terms` are x_i, x_j and x_k; `directions` are E1, E2 and E3."""
    if scalars.shape[-1] == 0:  # kernels want a scalar
        scalars, directions = jnp.zeros((*scalars.shape[:-1], 1)), jnp.zeros((3, 1, FEATURES))
    return _maxima(terms, scalars, directions)


def _run_forward(terms, scalars, directions, save):
    samples, n = terms.shape[:2]
    grid = samples * -(-n // NODES) * -(-n // RECEIVERS)
    rows = (((0, "TIMED_terms"), (1, "TIMED_scalars")), ((0, "TIMED_maxima"), (1, "TIMED_winners"))) if save else ()
    name = "triplets_forward_saving" if save else "triplets_forward"
    kernel = _kernel(name, terms, scalars, (grid, 1), n * RECEIVERS * FEATURES * 4, rows)
    shape = (samples, n, n, FEATURES)
    return kernel(terms, scalars, directions, outputs=[(shape, jnp.float32), (shape, jnp.int32)][: 1 + save])


def _kernel(name, terms, scalars, grid, shared_bytes, rows) -> Kernel:
    samples, n, _, num_scalars = scalars.shape
    macros = {"N": n, "P": num_scalars, "SAMPLES": samples, "TERMS": terms.shape[-1]}
    return Kernel("triplet_messages.cu", name, tuple(macros.items()), grid, shared_bytes, *rows)


def _primal(terms, scalars, directions):
    return _run_forward(terms, scalars, directions, save=False)[0]


def _forward(terms, scalars, directions):
    written = _run_forward(terms, scalars, directions, save=True)
    maxima, winners = (checkpoint_name(value, SAVED) for value in written)
    return maxima, (terms, scalars, directions, winners)


def _backward(saved, d_maxima):
    terms, scalars, directions, winners = saved
    samples, n, _, num_scalars = scalars.shape
    blocks = -(-n // NODES)
    rows = (((0, "TIMED_scalars"), (2, "TIMED_winners")), ((2, "TIMED_small"),))
    kernel = _kernel("triplets_backward", terms, scalars, (samples * blocks, 2), n * THREADS * 4, rows)
    d_nodes, d_scalars, small = kernel(
        scalars, directions, winners, d_maxima,
        outputs=[
            ((samples, blocks, n, 3 * FEATURES), jnp.float32),
            ((samples, 3, n, n, num_scalars), jnp.float32),
            ((samples, blocks, WARPS, 3, num_scalars, FEATURES), jnp.float32),
        ],
    )  # fmt: skip
    others = jnp.zeros((samples, n, terms.shape[-1] - 3 * FEATURES))
    d_terms = jnp.concatenate([others, d_nodes.sum(1)], axis=-1)
    return d_terms, d_scalars.sum(1), checkpoint_name(small, STACKED).sum((0, 1, 2))


_maxima: Any = jax.custom_vjp(_primal)
_maxima.defvjp(_forward, _backward)
