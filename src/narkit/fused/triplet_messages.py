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
from jaxtyping import Array, Float

from narkit.fused.launch import THREADS, Kernel, in_float32
from narkit.fused.weights import at_least_one
from narkit.loops.deferred_gradients import keep_values, stack_values

FEATURES = 8  # of a triplet; as in triplet_messages.cu, with the following
NODES, RECEIVERS, WARPS = THREADS // FEATURES, 4, THREADS // 32


def triplet_maxima(
    terms: Float[Array, "sample node terms"],
    scalars: Float[Array, "sample node node scalar"],
    directions: Float[Array, "3 scalar 8"],
) -> Float[Array, "sample node node 8"]:
    """Returns m_jk for all pairs. The last 24 of `terms` are x_i, x_j and x_k; `directions` are E1, E2 and E3."""
    return _maxima(terms, at_least_one(scalars), at_least_one(directions, axis=1))


def _kernel(name, terms, scalars, grid, shared_bytes, rows, gradients=(FEATURES, 0), save=True) -> Kernel:
    samples, n, _, num_scalars = scalars.shape
    macros = {"N": n, "P": num_scalars, "SAMPLES": samples, "TERMS": terms.shape[-1], "SAVE": int(save)}
    macros |= {"GRADIENTS": gradients[0], "FIRST_GRADIENT": gradients[1]}
    return Kernel("triplet_messages.cu", name, tuple(macros.items()), grid, shared_bytes, *rows)


def forward(terms: Array, scalars: Array, directions: Array, *, save: bool) -> list[Array]:
    """Returns the maxima, and with `save` the nodes i that they came from."""
    samples, n = terms.shape[:2]
    grid = samples * -(-n // NODES) * -(-n // RECEIVERS)
    rows = (((0, "TIMED_terms"), (1, "TIMED_scalars")), ((0, "TIMED_maxima"), (1, "TIMED_winners"))) if save else ()
    shared = n * RECEIVERS * FEATURES * 4
    kernel = _kernel("triplets_forward", terms, scalars, (grid, 1), shared, rows, save=save)
    shape = (samples, n, n, FEATURES)
    return kernel(terms, scalars, directions, outputs=[(shape, jnp.float32), (shape, jnp.int32)][: 1 + save])


def backward(
    terms: Array, scalars: Array, directions: Array, winners: Array, d_maxima: Array, first: int = 0
) -> tuple[Array, Array, Array]:
    """Returns the gradients of the terms that are read, of the scalars and of the directions.

    `d_maxima` may have more features, of which those of the maxima begin at `first`.
    """
    samples, n, _, num_scalars = scalars.shape
    blocks = -(-n // NODES)
    rows = (((0, "TIMED_scalars"), (2, "TIMED_winners")), ((2, "TIMED_small"),))
    grid, columns = (samples * blocks, 2), (d_maxima.shape[-1], first)
    kernel = _kernel("triplets_backward", terms, scalars, grid, n * THREADS * 4, rows, columns)
    of_nodes, of_edges = (samples, blocks, n, 3 * FEATURES), (samples, 3, n, n, num_scalars)
    outputs = in_float32(of_nodes, of_edges, (samples, blocks, WARPS, 3, num_scalars, FEATURES))
    d_nodes, d_scalars, small = kernel(scalars, directions, winners, d_maxima, outputs=outputs)
    return d_nodes.sum(1), d_scalars.sum(1), stack_values(small).sum((0, 1, 2))


def _primal(terms, scalars, directions):
    return forward(terms, scalars, directions, save=False)[0]


def _forward(terms, scalars, directions):
    maxima, winners = keep_values(forward(terms, scalars, directions, save=True))
    return maxima, (terms, scalars, directions, winners)


def _backward(saved, d_maxima):
    terms, scalars, directions, winners = saved
    d_nodes, d_scalars, d_directions = backward(terms, scalars, directions, winners, d_maxima)
    others = jnp.zeros((*terms.shape[:2], terms.shape[-1] - 3 * FEATURES))
    return jnp.concatenate([others, d_nodes], axis=-1), d_scalars, d_directions


_maxima: Any = jax.custom_vjp(_primal)
_maxima.defvjp(_forward, _backward)
