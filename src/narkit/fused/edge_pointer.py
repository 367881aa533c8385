"""The logits of pointers from edges to nodes, one kernel forward and one backward.

    logit_ijk = sum_h w_h max(a_i + b_j + e_ij, d_k)_h + bias,    e_ij = s_ij D + c, or given as it is

No array over triplets and features is written, and none over edges and features where edges are given by their scalars.
What a network reads of such pointers, means of the softmax over k, is made by a second kernel.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.launch import THREADS, Kernel, in_float32
from narkit.fused.pointer import PointerWeights, at_columns, operands_of, with_scalars
from narkit.fused.weights import HIDDEN_SIZE as H
from narkit.loops.deferred_gradients import keep_values, stack_values

TARGETS = 16  # at most so many nodes k at a time
EDGES = 64  # at most so many edges in a block, forward
STRIP, COLUMNS = 4, 8  # as in edge_pointer.cu
MAX_GROUPS = 8  # at most so many blocks per sample, backward, each of which writes gradients of all nodes
ROW = 144  # as in edge_pointer.cu
MEANS_WARPS = 8  # of a block that makes means
MOST_NODES_OF_MEANS = 100  # what the softmaxes of a sample need stays in shared memory


def edge_pointer_logits(
    nodes: Float[Array, "sample node width"],
    edges: Float[Array, "sample node node _"],
    weights: PointerWeights,
    columns: tuple[int, ...],
) -> Float[Array, "sample node node node"]:
    """Returns how strongly every edge from i to j points to every node k.

    `columns` are those of a node's row where a, b and d begin. `edges` has the scalars (i, j, scalar), or the features
    themselves.
    """
    return _logits(nodes, *with_scalars(edges, weights), columns)


def with_means(
    logits: Float[Array, "sample node node node"],
) -> tuple[Float[Array, "sample node node node"], Float[Array, "sample node node 2"]]:
    """Returns the logits, and the means of their softmax over k: over the edges that enter a node and that leave it."""
    if logits.shape[1] > MOST_NODES_OF_MEANS:
        probabilities = jax.nn.softmax(logits)
        return logits, jnp.stack([probabilities.mean(-3), probabilities.mean(-2)], axis=-1)
    return _with_means(logits)


def _evenly(n: int, at_most: int) -> int:
    """Returns the size of the fewest equal parts of n that are not larger than `at_most`."""
    return -(-n // -(-n // at_most))


def _macros(nodes: Array, edges: Array, dense: bool, columns: tuple[int, ...]) -> dict[str, int]:
    samples, n, width = nodes.shape
    tile_j = _evenly(n, 16)
    rows = STRIP * -(-n // (STRIP * MAX_GROUPS))
    return {
        "N": n, "P": 1 if dense else edges.shape[-1], "SAMPLES": samples, "WIDTH": width, "DENSE": int(dense),
        "FIRST": columns[0], "SECOND": columns[1], "THIRD": columns[2],
        "TARGETS": _evenly(n, TARGETS), "TILE_I": min(EDGES // tile_j, n), "TILE_J": tile_j,
        "ROWS": rows, "GROUPS": -(-n // rows),
    }  # fmt: skip


def _forward_only(nodes, edges, weights, columns):
    samples, n, _ = nodes.shape
    m = _macros(nodes, edges, weights.edges is None, columns)
    tiles = -(-n // m["TILE_I"]) * -(-n // m["TILE_J"])
    floats = (m["TILE_I"] + m["TILE_J"]) * ROW + (m["TARGETS"] + 1 + m["P"]) * H + m["P"] * EDGES
    grid = (samples * tiles, -(-n // m["TARGETS"]))
    kernel = Kernel(
        "edge_pointer.cu", "edge_pointer_forward", tuple(m.items()), grid, 4 * floats,
        rows_read=((0, "TIMED_nodes"), (1, "TIMED_edges")), rows_written=((0, "TIMED_logits"),),
    )  # fmt: skip
    return kernel(*operands_of(nodes, edges, weights), weights.bias, outputs=in_float32((samples, n, n, n)))[0]


def _forward(nodes, edges, weights, columns):
    return _forward_only(nodes, edges, weights, columns), (nodes, edges, weights)


def _backward(columns, saved, d_logits):
    nodes, edges, weights = saved
    samples, n, width = nodes.shape
    dense = weights.edges is None
    m = _macros(nodes, edges, dense, columns)
    groups, targets, scalars = m["GROUPS"], 4 * -(-m["TARGETS"] // 4), 4 * -(-m["P"] // 4)
    floats = STRIP * COLUMNS * (targets + scalars + ROW) + THREADS + 16 + m["P"] * H
    kernel = Kernel(
        "edge_pointer.cu", "edge_pointer_backward", tuple(m.items()), (samples * groups, 1), 4 * floats,
        rows_read=((0, "TIMED_nodes"), (1, "TIMED_edges"), (5, "TIMED_logits")), rows_written=((4, "TIMED_small"),),
    )  # fmt: skip
    by_group, of_weights = (samples, groups, n, H), (samples, groups, m["P"] + 3, H)
    outputs = in_float32((samples, n, H), by_group, by_group, edges.shape, of_weights)
    d_first, d_second, d_third, d_edges, small = kernel(*operands_of(nodes, edges, weights), d_logits, outputs=outputs)
    small = stack_values(small).sum((0, 1))
    d_weights = PointerWeights(None if dense else (small[:-3], small[-3]), small[-2], small[-1].sum(keepdims=True))
    parts = {columns[0]: d_first, columns[1]: _sum_of_groups(d_second), columns[2]: _sum_of_groups(d_third)}
    return at_columns(parts, width), d_edges, d_weights


def _sum_of_groups(partial: Array) -> Array:
    """Adds groups one by one: the compiler makes that a part of what reads it, and a reduction a kernel of its own."""
    return sum((partial[:, group] for group in range(1, partial.shape[1])), partial[:, 0])


_logits: Any = jax.custom_vjp(_forward_only, nondiff_argnums=(3,))
_logits.defvjp(_forward, _backward)


def _means_kernel(name: str, logits: Array, blocks: int, shared: int, *rows_read: tuple[int, str]) -> Kernel:
    samples, n, *_ = logits.shape
    macros = (("N", n), ("SAMPLES", samples), ("MEANS_WARPS", MEANS_WARPS))
    return Kernel("edge_means.cu", name, macros, (samples * blocks, 1), shared, rows_read, threads=32 * MEANS_WARPS)


def _means(logits: Array) -> Array:
    samples, n, *_ = logits.shape
    kernel = _means_kernel("edge_means_forward", logits, 1, 8 * n * n, (0, "TIMED_logits"))
    return kernel(logits, outputs=in_float32((samples, n, n, 2)))[0]


@jax.custom_vjp
def _with_means(logits):
    return logits, _means(logits)


def _means_forward(logits):
    logits = keep_values(logits)
    return (logits, _means(logits)), logits


def _means_backward(logits, cotangents):
    rows_read = ((0, "TIMED_logits"), (1, "TIMED_given"))
    kernel = _means_kernel("edge_means_backward", logits, logits.shape[1], 0, *rows_read)
    return tuple(kernel(logits, *cotangents, outputs=in_float32(logits.shape)))


_with_means.defvjp(_means_forward, _means_backward)
