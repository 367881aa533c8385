"""The logits of pointers from nodes to nodes, one kernel forward and one backward.

    logit_ip = sum_h w_h max(a_i, b_p + e_pi)_h + bias,    e_pi = s_pi D + c, or given as it is

No array of the size n^2 hidden is written where edges are given by their scalars. The softmax over p is taken in the
same kernels where a network reads it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.launch import Kernel, in_float32
from narkit.fused.weights import HIDDEN_SIZE as H
from narkit.fused.weights import at_least_one
from narkit.loops.deferred_gradients import keep_values, stack_values

MOST_STAGED = 32  # nodes for which shared memory has a place


class PointerWeights(NamedTuple):
    """The parameters of one network. Without `edges`, the features of edges are given in full."""

    edges: tuple[Float[Array, "scalar hidden"], Float[Array, " hidden"]] | None  # D, c
    score: Float[Array, " hidden"]  # w
    bias: Float[Array, " one"]


class Options(NamedTuple):
    """The columns at which a and b begin in a node's row, and whether the softmax is wanted."""

    first: int
    second: int
    softmax: bool = False


def pointer_logits(
    nodes: Float[Array, "sample node width"],
    edges: Float[Array, "sample node node _"],
    weights: PointerWeights,
    options: Options,
) -> tuple[Float[Array, "sample node node"], ...]:
    """Returns how strongly every node i points to every node p and, if it is wanted, the softmax over the nodes p.

    `edges` has the scalars (p, i, scalar), or the features themselves.
    """
    return _results(nodes, *with_scalars(edges, weights), options)


def with_scalars(edges: Array, weights: PointerWeights) -> tuple[Array, PointerWeights]:
    """Adds the scalar that kernels want where edges have none."""
    edges = at_least_one(edges)
    if weights.edges is not None:
        weights = weights._replace(edges=(at_least_one(weights.edges[0], axis=0), weights.edges[1]))
    return edges, weights


def _kernel(name: str, nodes: Array, edges: Array, dense: bool, options: Options, passes: int, *rows) -> Kernel:
    samples, n, width = nodes.shape
    per_block = nodes_per_block(n)
    num_scalars, staged = 1 if dense else edges.shape[-1], n <= MOST_STAGED
    macros = {
        "N": n, "P": num_scalars, "SAMPLES": samples, "WIDTH": width, "DENSE": int(dense), "STAGED": int(staged),
        "FIRST": options.first, "SECOND": options.second, "SOFTMAX": int(options.softmax), "NODES": per_block,
    }  # fmt: skip
    # What waits there: nodes, scalars of edges, and logits or their gradients. Later the small gradients of warps.
    waiting = n * (H + per_block * (-(-num_scalars // 4) * 4 + 1))
    of_warps = per_block * (num_scalars + 3) * H if passes == 2 else 0
    expectations = -(-n // 4) * 4 if passes == 2 else 0
    shared = 4 * (max(waiting, of_warps) if staged else expectations + of_warps)
    given, grid = tuple(macros.items()), (samples * -(-n // per_block), passes)
    return Kernel("pointer.cu", name, given, grid, shared, *rows, threads=32 * per_block)


def nodes_per_block(num_nodes: int) -> int:
    """Returns the nodes of a block, one per warp: with more, fewer blocks leave a part of the small gradients each."""
    return 4 if num_nodes <= 4 else 8


def operands_of(nodes: Array, edges: Array, weights: PointerWeights) -> tuple[Array, ...]:
    """Returns the first operands of kernels. Where features are given, D and c are not read; any operands will do."""
    directions, offset = weights.edges if weights.edges is not None else (weights.score, weights.score)
    return nodes, edges, directions, offset, weights.score


def _forward_only(nodes, edges, weights, options):
    samples, n, _ = nodes.shape
    rows_written = ((0, "TIMED_logits"), (1, "TIMED_probabilities"))[: 1 + options.softmax]
    rows_read = ((0, "TIMED_nodes"), (1, "TIMED_edges"))
    kernel = _kernel("pointer_forward", nodes, edges, weights.edges is None, options, 1, rows_read, rows_written, (1,))
    outputs = in_float32((samples, n, n), (samples, n, n))[: 1 + options.softmax]
    return tuple(kernel(*operands_of(nodes, edges, weights), weights.bias, outputs=outputs))


def _forward(nodes, edges, weights, options):
    logits, *rest = _forward_only(nodes, edges, weights, options)
    probabilities = keep_values(rest)
    return (logits, *probabilities), (nodes, edges, weights, probabilities)


def _backward(options, saved, cotangents):
    nodes, edges, weights, probabilities = saved
    samples, n, width = nodes.shape
    dense = weights.edges is None
    rows_read = ((0, "TIMED_nodes"), (1, "TIMED_edges"), (5, "TIMED_logits"), (6, "TIMED_probabilities"))
    rows_read = rows_read[: 3 + options.softmax]
    kernel = _kernel("pointer_backward", nodes, edges, dense, options, 2, rows_read, ((3, "TIMED_small"),))
    num_scalars = 1 if dense else edges.shape[-1]
    d_logits, *d_probabilities = cotangents
    of_nodes, of_blocks = (samples, n, H), (samples, -(-n // nodes_per_block(n)), num_scalars + 3, H)
    d_first, d_second, d_edges, small = kernel(
        *operands_of(nodes, edges, weights), d_logits, *probabilities, *d_probabilities,
        outputs=in_float32(of_nodes, of_nodes, edges.shape, of_blocks),
    )  # fmt: skip
    small = stack_values(small).sum((0, 1))
    d_weights = PointerWeights(None if dense else (small[:-3], small[-3]), small[-2], small[-1, :1])
    d_nodes = at_columns({options.first: d_first, options.second: d_second}, width)
    return d_nodes, d_edges, d_weights


def at_columns(parts: dict[int, Array], width: int) -> Array:
    """Concatenates parts that begin at the columns that their keys say, with zeros elsewhere."""
    pieces, at = [], 0
    shape = next(iter(parts.values())).shape[:-1]
    for start, part in sorted(parts.items()):
        pieces += [jnp.zeros((*shape, start - at)), part]
        at = start + part.shape[-1]
    return jnp.concatenate([*pieces, jnp.zeros((*shape, width - at))], axis=-1)


_results: Any = jax.custom_vjp(_forward_only, nondiff_argnums=(3,))
_results.defvjp(_forward, _backward)
