"""Triplet Edge Attention on its own, on a GPU: the layer with the same parameters and the same call.

Forward it is two kernels (`edge_attention`), or one for the logits where shared memory has no room for more. The
gradient is that of the plain formulas from the vectors of pairs on.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.edge_attention import edge_latents, fits
from narkit.fused.triplet_logits import triplet_logits
from narkit.models.layers import concatenated
from narkit.models.triplet_edge_attention import Mask, TripletEdgeAttention


class FusedTripletEdgeAttention(eqx.Module):
    """The fast form of a `TripletEdgeAttention`, made by `narkit.fused.accelerate`. It takes one graph, too."""

    layer: TripletEdgeAttention

    def __call__(
        self,
        nodes: Float[Array, "node hidden"],
        edges: Float[Array, "node node hidden"],
        graph: Float[Array, " hidden"],
        mask: Mask | None = None,
    ) -> Float[Array, "node node hidden"]:
        """Returns the edge latents, as the layer does."""
        layer = self.layer
        vectors = (*layer.vectors_of_pairs(nodes, edges, graph), layer.value(edges))
        if fits(edges):
            # The kernels make these vectors themselves; the backward pass starts from here.
            inputs = jax.lax.stop_gradient((layer, nodes, edges, graph, mask))
            return _by_kernels(inputs, layer.attention, vectors)
        return _mix(layer, vectors, mask)

    def attention_weights(
        self,
        nodes: Float[Array, "node hidden"],
        edges: Float[Array, "node node hidden"],
        graph: Float[Array, " hidden"],
        mask: Mask | None = None,
    ) -> Float[Array, "head node node node"]:
        """Returns how much each third node k counts for the edge from i to j, as the layer does."""
        return _attend(self.layer, self.layer.vectors_of_pairs(nodes, edges, graph), mask)


def _attend(layer: TripletEdgeAttention, pairs: tuple[Array, Array, Array], mask: Mask | None) -> Array:
    return layer.normalise(triplet_logits(*pairs, layer.attention, layer.slope), mask)


def _mix(layer: TripletEdgeAttention, vectors: tuple, mask: Mask | None) -> Array:
    """Returns the edge latents from the vectors of pairs, with a kernel for the logits alone."""
    pair_ij, pair_ik, pair_jk, values = vectors
    return layer.aggregate(_attend(layer, (pair_ij, pair_ik, pair_jk), mask), values)


def _latents_by_kernels(inputs: tuple, attention: Array, vectors: tuple) -> Array:
    """Returns the edge latents of `(layer, nodes, edges, graph, mask)`. The rest is what they depend on backward:
    nobody reads it forward, so without a gradient it is not computed.
    """
    layer, nodes, edges, graph, mask = inputs
    on_nodes = concatenated([layer.node_i, layer.node_j, layer.node_k])
    on_edges = concatenated([layer.edge_ij, layer.edge_ik, layer.edge_jk, layer.value])
    *biases, value_bias = jnp.split(on_edges.bias, 4)
    # Every bias of t counts once, so all stand in the terms of i.
    to_all = jnp.pad(layer.graph(graph) + sum(biases), (0, 2 * len(value_bias)))
    rectified = layer.activation is jax.nn.relu
    latents = edge_latents(
        on_nodes(nodes) + to_all, edges, on_edges.weight, value_bias, layer.attention[0], mask, layer.slope,
        rectified=rectified,
    )  # fmt: skip
    return latents if rectified else layer.activation(latents)


def _forward(inputs: tuple, attention: Array, vectors: tuple) -> tuple:
    layer, *_, mask = inputs
    return _latents_by_kernels(inputs, attention, vectors), (layer, mask, attention, vectors)


def _backward(saved: tuple, cotangent: Array) -> tuple:
    """Returns the gradients of the plain formulas from the vectors of pairs on, which are computed again."""
    layer, mask, attention, vectors = saved

    def mix(attention: Array, vectors: tuple) -> Array:
        return _mix(eqx.tree_at(lambda layer: layer.attention, layer, attention), vectors, mask)

    return None, *jax.vjp(mix, attention, vectors)[1](cotangent)


_by_kernels: Any = jax.custom_vjp(_latents_by_kernels)
_by_kernels.defvjp(_forward, _backward)
