"""The logits of pointers from nodes to nodes, one kernel forward and one backward.

    logit_ip = sum_h w_h max(a_i, b_p + e_pi)_h + bias,    e_pi = s_pi D + c, or given as it is

No array of the size n^2 hidden is written where edges are given by their scalars.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from narkit.kernels.deferred_gradients import STACKED
from narkit.kernels.fused.launch import Kernel
from narkit.kernels.fused.weights import HIDDEN_SIZE as H

WARPS = 4  # as in common.cuh


class PointerWeights(NamedTuple):
    """The parameters of one network. Without `edges`, the features of edges are given in full."""

    edges: tuple[Float[Array, "scalar hidden"], Float[Array, " hidden"]] | None  # D, c
    score: Float[Array, " hidden"]  # w
    bias: Float[Array, " one"]


def pointer_logits(
    nodes: Float[Array, "sample node width"],
    first: int,
    second: int,
    edges: Float[Array, "sample node node _"],
    weights: PointerWeights,
) -> Float[Array, "sample node node"]:
    """How strongly every node i points to every node p. a and b begin at `first` and `second` of a node's row.

    `edges` has the scalars (p, i, scalar), or the features themselves.
    """
    if weights.edges is not None and edges.shape[-1] == 0:
        edges = jnp.zeros((*edges.shape[:-1], 1))
        weights = weights._replace(edges=(jnp.zeros((1, H)), weights.edges[1]))
    return _logits(nodes, edges, weights, (first, second))


def _kernel(name: str, nodes: Array, edges: Array, dense: bool, columns: tuple[int, int], passes: int) -> Kernel:
    samples, n, width = nodes.shape
    macros = {
        "N": n, "P": 1 if dense else edges.shape[-1], "SAMPLES": samples, "WIDTH": width, "DENSE": int(dense),
        "FIRST": columns[0], "SECOND": columns[1],
    }  # fmt: skip
    rows = ((), ((3, "TIMED_small"),)) if passes == 2 else ()
    return Kernel("pointer.cu", name, tuple(macros.items()), (samples * -(-n // WARPS), passes), 0, *rows)


def _operands(nodes: Array, edges: Array, weights: PointerWeights) -> tuple[Array, ...]:
    # Where features are given, D and c are not read; any operands will do.
    directions, offset = weights.edges if weights.edges is not None else (weights.score, weights.score)
    return nodes, edges, directions, offset, weights.score


def _forward_only(nodes, edges, weights, columns):
    samples, n, _ = nodes.shape
    kernel = _kernel("pointer_forward", nodes, edges, weights.edges is None, columns, 1)
    return kernel(*_operands(nodes, edges, weights), weights.bias, outputs=[((samples, n, n), jnp.float32)])[0]


def _forward(nodes, edges, weights, columns):
    return _forward_only(nodes, edges, weights, columns), (nodes, edges, weights)


def _backward(columns, saved, d_logits):
    nodes, edges, weights = saved
    samples, n, width = nodes.shape
    dense = weights.edges is None
    kernel = _kernel("pointer_backward", nodes, edges, dense, columns, 2)
    num_scalars = 1 if dense else edges.shape[-1]
    d_first, d_second, d_edges, small = kernel(
        *_operands(nodes, edges, weights), d_logits,
        outputs=[
            ((samples, n, H), jnp.float32),
            ((samples, n, H), jnp.float32),
            (edges.shape, jnp.float32),
            ((samples, n, num_scalars + 3, H), jnp.float32),
        ],
    )  # fmt: skip
    small = checkpoint_name(small, STACKED).sum((0, 1))
    d_weights = PointerWeights(None if dense else (small[:-3], small[-3]), small[-2], small[-1, :1])
    d_nodes = side_by_side({columns[0]: d_first, columns[1]: d_second}, width)
    return d_nodes, d_edges, d_weights


def side_by_side(parts: dict[int, Array], width: int) -> Array:
    """Parts of H columns that begin where their keys say, and zeros elsewhere."""
    pieces, at = [], 0
    shape = next(iter(parts.values())).shape[:-1]
    for start, part in sorted(parts.items()):
        pieces += [jnp.zeros((*shape, start - at)), part]
        at = start + H
    return jnp.concatenate([*pieces, jnp.zeros((*shape, width - at))], axis=-1)


_logits: Any = jax.custom_vjp(_forward_only, nondiff_argnums=(3,))
_logits.defvjp(_forward, _backward)
