"""Reductions over triplets of nodes that hold no array over all triplets and features.

On a CPU each function loops over the first node i of the triplet, so its largest temporary has the size of the edge
features; the backward passes loop in the same way and recompute what they need. Elsewhere the compiler fuses the plain
formulas of `triplet_formulas` to the same effect.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from narkit.loops.deferred_gradients import SAVED
from narkit.models import triplet_formulas


def attention_logits(
    pair_ij: Float[Array, "node node hidden"],
    pair_ik: Float[Array, "node node hidden"],
    pair_jk: Float[Array, "node node hidden"],
    weights: Float[Array, "head width"],
    slope: float,
) -> Float[Array, "head node node node"]:
    """Computes logits of Triplet Edge Attention: `sum_h a_h LeakyReLU(u_ij + w_ik + q_jk)_h`, per head.

    The heads split the hidden features: `head * width = hidden`. Loops over time keep them for the backward pass.
    """
    return checkpoint_name(_attention(pair_ij, pair_ik, pair_jk, weights, slope), SAVED)


def _attention_logits(pair_ij, pair_ik, pair_jk, weights, slope):
    def whole(*pairs_and_weights):
        # Without the barrier the compiler fuses the logits into what reads them and computes them once per feature.
        return lax.optimization_barrier(triplet_formulas.attention_logits(*pairs_and_weights, slope=slope))

    by_rows = partial(_attention_by_rows, slope=slope)
    return lax.platform_dependent(pair_ij, pair_ik, pair_jk, weights, cpu=by_rows, default=whole)


def _attention_by_rows(pair_ij, pair_ik, pair_jk, weights, slope):
    def row(pairs):
        pairs_ij, pairs_ik = pairs
        t = _leaky(_row_of_triplets(pairs_ij, pairs_ik, pair_jk), slope)
        return _head_products(t, weights)

    return jnp.moveaxis(lax.map(row, (pair_ij, pair_ik)), 0, 1)


def _attention_forward(pair_ij, pair_ik, pair_jk, weights, slope):
    return _attention_logits(pair_ij, pair_ik, pair_jk, weights, slope), (pair_ij, pair_ik, pair_jk, weights)


def attention_backward(slope, saved, cotangent):
    """Returns the gradients of the logits, from `(pair_ij, pair_ik, pair_jk, weights)` and their cotangent."""
    whole = _pull_back(partial(triplet_formulas.attention_logits, slope=slope))
    by_rows = partial(_attention_backward_by_rows, slope=slope)
    return lax.platform_dependent(*saved, cotangent, cpu=by_rows, default=whole)


def _attention_backward_by_rows(pair_ij, pair_ik, pair_jk, weights, cotangent, slope):
    def row(carry, inputs):
        d_pair_jk, d_weights = carry
        pairs_ij, pairs_ik, d_logits = inputs
        t = _row_of_triplets(pairs_ij, pairs_ik, pair_jk)
        d_weights = d_weights + _weight_gradient(d_logits, _leaky(t, slope))
        d_logits = _spread_heads(d_logits, weights.shape[1])
        d_t = d_logits * weights.reshape(-1) * jnp.where(t > 0, 1.0, slope)
        return (d_pair_jk + d_t, d_weights), (d_t.sum(1), d_t.sum(0))

    start = (jnp.zeros_like(pair_jk), jnp.zeros_like(weights.reshape(-1)))
    inputs = (pair_ij, pair_ik, jnp.moveaxis(cotangent, 1, 0))
    (d_pair_jk, d_weights), (d_pair_ij, d_pair_ik) = lax.scan(row, start, inputs)
    return d_pair_ij, d_pair_ik, d_pair_jk, d_weights.reshape(weights.shape)


_attention: Any = jax.custom_vjp(_attention_logits, nondiff_argnums=(4,))
_attention.defvjp(_attention_forward, attention_backward)


def _pull_back(function):
    """Returns `(arguments..., cotangent) -> cotangents of the arguments` of a plain formula."""
    return lambda *inputs: jax.vjp(function, *inputs[:-1])[1](inputs[-1])


def _row_of_triplets(pairs_ij, pairs_ik, pair_jk):
    """Returns all triplets (i, j, k) with the same i."""
    return pairs_ij[:, None] + pairs_ik[None, :] + pair_jk


def _leaky(t, slope):
    return jnp.where(t > 0, t, slope * t)


def _head_products(values, weights):
    """Weights and sums the features of each head: (j, k, hidden) -> (head, j, k). As products, faster than sums."""
    if len(weights) == 1:
        return (values @ weights[0])[None]
    return jnp.einsum("jkmw,mw->mjk", values.reshape(*values.shape[:2], *weights.shape), weights)


def _weight_gradient(d_logits, values):
    """Computes the gradient of the weights of `_head_products`, flat: (head, j, k), (j, k, hidden) -> (hidden,)."""
    num_heads = len(d_logits)
    values = values.reshape(-1, num_heads, values.shape[-1] // num_heads)
    if num_heads == 1:
        return d_logits.reshape(-1) @ values[:, 0]
    return jnp.einsum("ma,amw->mw", d_logits.reshape(num_heads, -1), values).reshape(-1)


def _spread_heads(values, width):
    """Repeats what each head has for all of its features: (head, j, k) -> (j, k, hidden)."""
    return jnp.repeat(jnp.moveaxis(values, 0, -1), width, axis=-1)


def triplet_max(
    pair_ij: Float[Array, "node node width"], pair_ik: Float[Array, "node node width"]
) -> Float[Array, "node node width"]:
    """Computes `max_i (u_ij + w_ik)`: the max-plus product that Triplet-GMPNN reduces its triplets with."""

    return _max(pair_ij, pair_ik)


def _triplet_max(pair_ij, pair_ik):
    return lax.platform_dependent(pair_ij, pair_ik, cpu=_max_by_rows, default=triplet_formulas.triplet_max)


def _max_by_rows(pair_ij, pair_ik):
    def row(best, pairs):
        return jnp.maximum(best, pairs[0][:, None] + pairs[1][None, :]), None

    start = jnp.full(pair_ij.shape, -jnp.inf, pair_ij.dtype)
    return lax.scan(row, start, (pair_ij, pair_ik))[0]


def _max_forward(pair_ij, pair_ik):
    best = _triplet_max(pair_ij, pair_ik)
    return best, (pair_ij, pair_ik, best)


def _max_backward(saved, cotangent):
    def whole(pair_ij, pair_ik, best, cotangent):
        return _pull_back(triplet_formulas.triplet_max)(pair_ij, pair_ik, cotangent)

    return lax.platform_dependent(*saved, cotangent, cpu=_max_backward_by_rows, default=whole)


def _max_backward_by_rows(pair_ij, pair_ik, best, cotangent):
    """Computes the gradient of `triplet_max`. As for `jnp.max`, nodes that tie share it in equal parts."""

    def is_best(pairs):
        return (pairs[0][:, None] + pairs[1][None, :] == best).astype(best.dtype)

    ties = lax.scan(lambda count, pairs: (count + is_best(pairs), None), jnp.zeros_like(best), (pair_ij, pair_ik))[0]
    share = cotangent / ties

    def row(pairs):
        d_row = share * is_best(pairs)
        return d_row.sum(1), d_row.sum(0)

    return lax.map(row, (pair_ij, pair_ik))


_max: Any = jax.custom_vjp(_triplet_max)
_max.defvjp(_max_forward, _max_backward)


def edge_pointer_logits(
    edges: Float[Array, "node node hidden"], nodes: Float[Array, "node hidden"], weights: Float[Array, " hidden"]
) -> Float[Array, "node node node"]:
    """Computes `sum_h w_h max(a_ij, d_k)_h`: how strongly the edge from i to j points to k."""
    return _pointer(edges, nodes, weights)


def _edge_pointer_logits(edges, nodes, weights):
    return lax.platform_dependent(
        edges, nodes, weights, cpu=_pointer_by_rows, default=triplet_formulas.edge_pointer_logits
    )


def _pointer_by_rows(edges, nodes, weights):
    return lax.map(lambda row: jnp.sum(jnp.maximum(row[:, None], nodes[None]) * weights, axis=-1), edges)


def _pointer_forward(edges, nodes, weights):
    return _edge_pointer_logits(edges, nodes, weights), (edges, nodes, weights)


def _pointer_backward(saved, cotangent):
    whole = _pull_back(triplet_formulas.edge_pointer_logits)
    return lax.platform_dependent(*saved, cotangent, cpu=_pointer_backward_by_rows, default=whole)


def _pointer_backward_by_rows(edges, nodes, weights, cotangent):
    """Computes gradients of `edge_pointer_logits`. As for `jnp.maximum`, an edge and a node that tie take half each."""

    def row(carry, inputs):
        d_nodes, d_weights = carry
        edge_row, d_logits = inputs
        d_logits = d_logits[..., None]
        difference = edge_row[:, None] - nodes[None]
        to_edge = 0.5 * (1.0 + jnp.sign(difference))
        d_weights = d_weights + jnp.sum(d_logits * jnp.maximum(edge_row[:, None], nodes[None]), axis=(0, 1))
        d_max = d_logits * weights
        d_edge = jnp.sum(d_max * to_edge, axis=1)
        d_nodes = d_nodes + jnp.sum(d_max * (1.0 - to_edge), axis=0)
        return (d_nodes, d_weights), d_edge

    (d_nodes, d_weights), d_edges = lax.scan(row, (jnp.zeros_like(nodes), jnp.zeros_like(weights)), (edges, cotangent))
    return d_edges, d_nodes, d_weights


_pointer: Any = jax.custom_vjp(_edge_pointer_logits)
_pointer.defvjp(_pointer_forward, _pointer_backward)
