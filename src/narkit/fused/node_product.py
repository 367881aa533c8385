"""Linears of node features, one kernel forward and one backward.

    y = scalars D + c,   and in the last columns + first W1 (+ second W2)

where a node has few scalars, and one or two vectors of the hidden size: its hidden states. Left to a library, the few
rows of a batch times so many weights keep a fraction of a GPU busy; the sums and the copies to stacks over time around
such a product, which are launches of their own, take longer than it does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.launch import Kernel, in_float32
from narkit.fused.narrow_product import gradients_of_directions
from narkit.fused.weights import HIDDEN_SIZE as H
from narkit.fused.weights import NO_GRADIENT, TILE, tf32_fragments
from narkit.models.features import FoldedLinear

CHUNK = 32  # as in node_product.cu
STAGES = {"FORWARD_STAGES": 3, "BACKWARD_STAGES": 5}


class NodeWeights(NamedTuple):
    """The parameters of one network."""

    directions: Float[Array, "scalar outputs"]  # D
    offset: Float[Array, " outputs"]  # c
    dense: tuple[Float[Array, "hidden last_outputs"], ...]  # W1 and W2, of the last columns, the same ones
    fragments: Array  # of W1 and W2, below each other
    transposed: Array  # of both transposed, and of D

    @classmethod
    def of(cls, directions: Array, offset: Array, dense: tuple[Array, ...]) -> NodeWeights:
        """Takes at least one scalar, one or two dense weights, and a multiple of eight outputs."""
        directions_, *dense_ = jax.lax.stop_gradient((directions, *dense))
        padded = [jnp.pad(weight, ((0, 0), (offset.size - weight.shape[1], 0))) for weight in dense_]
        joint = jnp.concatenate([*padded, directions_]).T
        return cls(directions, offset, dense, tf32_fragments(jnp.concatenate(padded)), tf32_fragments(joint))

    @classmethod
    def beside_graph(cls, linear: FoldedLinear, num_graph_scalars: int) -> NodeWeights:
        """Takes a Linear that does not read the graph's scalars, which the rows of nodes have behind their own."""
        directions = jnp.pad(linear.basis.directions, ((0, num_graph_scalars), (0, 0)))
        return cls.of(directions, linear.basis.offset, linear.dense_weights)


def node_product(
    scalars: Float[Array, "sample node scalar"],
    dense: tuple[Float[Array, "sample node hidden"], ...],
    weights: NodeWeights,
) -> Float[Array, "sample node outputs"]:
    """Returns the outputs. Arrays of several seeds come through `jax.vmap`."""
    return _product(scalars, dense, weights)


def _kernel(name: str, shape: tuple[int, ...], weights: NodeWeights, columns: int, shared: int, *rows) -> Kernel:
    samples, n = shape[:2]
    macros = {
        "N": n, "SAMPLES": samples, "WIDTH": weights.offset.shape[0], "DENSE": len(weights.dense),
        "DENSE_COLUMNS": weights.dense[0].shape[1], "SCALARS": weights.directions.shape[0], **STAGES,
    }  # fmt: skip
    tiles = -(-samples * n // TILE) * -(-columns // TILE)
    return Kernel("node_product.cu", name, tuple(macros.items()), (tiles, 1), shared, *rows)


def _staged_bytes(direction: str) -> int:
    return 4 * STAGES[direction] * (TILE * (CHUNK + 4) + CHUNK * TILE)


def _primal(scalars: Array, dense: tuple[Array, ...], weights: NodeWeights) -> Array:
    width, num_scalars = weights.offset.shape[0], scalars.shape[-1]
    shared = _staged_bytes("FORWARD_STAGES") + 4 * TILE * (2 * num_scalars + 1)
    rows_read = ((0, "TIMED_scalars"), (4, "TIMED_first"), (5, "TIMED_second"))[: 1 + len(dense)]
    kernel = _kernel("node_product_forward", scalars.shape, weights, width, shared, rows_read, ((0, "TIMED_result"),))
    operands = (scalars, weights.directions, weights.offset, weights.fragments, *dense)
    return kernel(*operands, outputs=in_float32((*scalars.shape[:-1], width)))[0]


def _forward(scalars: Array, dense: tuple[Array, ...], weights: NodeWeights) -> tuple[Array, tuple]:
    return _primal(scalars, dense, weights), (scalars, dense, weights)


def _backward(saved: tuple, d_result: Array) -> tuple[Array, tuple[Array, ...], NodeWeights]:
    scalars, dense, weights = saved
    columns = len(dense) * H + scalars.shape[-1]
    shared = _staged_bytes("BACKWARD_STAGES")
    kernel = _kernel("node_product_backward", scalars.shape, weights, columns, shared, ((0, "TIMED_result"),))
    outputs = in_float32(*(values.shape for values in (scalars, *dense)))
    d_scalars, *d_dense = kernel(d_result, weights.transposed, outputs=outputs)
    last = d_result[..., weights.offset.shape[0] - weights.dense[0].shape[1] :]
    of_dense = tuple(jnp.einsum("bnh,bng->hg", values, last) for values in dense)
    d_weights = NodeWeights(*gradients_of_directions(scalars, d_result), of_dense, NO_GRADIENT, NO_GRADIENT)
    return d_scalars, tuple(d_dense), d_weights


_product: Any = jax.custom_vjp(_primal)
_product.defvjp(_forward, _backward)
