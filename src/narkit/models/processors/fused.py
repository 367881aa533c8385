"""Gated message passing in fused kernels, for TEAM and Triplet-GMPNN on a GPU."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from narkit.fused import launch
from narkit.fused.gated_step import gated_step_and_terms
from narkit.fused.messages import Attention, MessageWeights
from narkit.fused.node_product import NodeWeights, node_product
from narkit.fused.update import UpdateWeights
from narkit.fused.weights import HIDDEN_SIZE
from narkit.loops.deferred_gradients import SAVED
from narkit.models.features import Bases, Basis, FoldedLinear, Scalars
from narkit.models.layers import side_by_side
from narkit.models.processors.base import BoundProcessor, Hidden
from narkit.models.processors.message_passing import MessagePassing
from narkit.models.triplet_edge_attention import TripletEdgeAttention


def is_fused(message_passing: MessagePassing, attention: TripletEdgeAttention | None = None) -> bool:
    """Whether the fused kernels are in use and made for these layers."""
    fits = message_passing.gate is not None and message_passing.graph.bias.shape[0] == HIDDEN_SIZE
    if attention is not None:
        fits = fits and attention.attention.shape[0] == 1 and attention.activation is jax.nn.relu
    return fits and launch.mode() is launch.Mode.FUSED


class FusedGatedStep(BoundProcessor):
    """A step of gated message passing, everyone to everyone. What a node contributes is one product per step."""

    # Of the terms of every node: the graph's scalars count as scalars of every node, and those of attention do not
    # depend on the hidden state.
    node_weights: NodeWeights
    message_weights: MessageWeights
    update_weights: UpdateWeights
    slope: float = eqx.field(static=True)

    @classmethod
    def of(
        cls, bases: Bases, message_passing: MessagePassing, attention: TripletEdgeAttention | None
    ) -> FusedGatedStep:
        gate = message_passing.gate
        assert gate is not None
        size = message_passing.graph.bias.shape[0]
        on_nodes = side_by_side(
            [message_passing.receiver, message_passing.sender, message_passing.from_nodes, gate.from_nodes]
        )
        nodes = bases.node.through(eqx.tree_at(lambda linear: linear.weight, on_nodes, on_nodes.weight[:size]))
        to_receiver = bases.graph.through(message_passing.graph)
        graph = [to_receiver, None, None, None]
        node_directions, bias = nodes.directions, nodes.offset
        products = [linear.weight for linear in message_passing.mlp]
        bound_attention = None
        if attention is None:
            edge = bases.edge.through(message_passing.edge)
        else:
            in_attention = bases.node.through(side_by_side([attention.node_i, attention.node_j, attention.node_k]))
            node_directions = jnp.concatenate([in_attention.directions, node_directions], axis=1)
            graph = [bases.graph.through(attention.graph), None, None, *graph]
            triplet = [
                bases.edge.through(linear) for linear in (attention.edge_ij, attention.edge_ik, attention.edge_jk)
            ]
            constant = sum((basis.offset for basis in triplet[1:]), triplet[0].offset)
            bias = jnp.concatenate([in_attention.offset[:size] + constant, in_attention.offset[size:], bias])
            bound_attention = Attention(
                _at_least_one(jnp.stack([basis.directions for basis in triplet])), attention.attention[0]
            )
            products = [message_passing.edge.weight, *products]
            # The bias of the product Me counts as part of what the receiver adds.
            first, receiver, others = jnp.split(bias, [3 * size, 4 * size])
            bias = jnp.concatenate([first, receiver + message_passing.edge.bias, others])
            edge = bases.edge.through(attention.value)
        blank = jnp.zeros_like(to_receiver.directions)
        directions = jnp.concatenate([blank if part is None else part.directions for part in graph], axis=1)
        offsets = jnp.concatenate([jnp.zeros(size) if part is None else part.offset for part in graph])
        return cls(
            node_weights=NodeWeights.of(
                jnp.concatenate([node_directions, directions]),
                offsets + bias + _on_messages_bias(message_passing, len(graph), size),
                (on_nodes.weight[size:],),
            ),
            message_weights=MessageWeights.of(
                bound_attention,
                _at_least_one(edge.directions),
                edge.offset,
                products,
                jnp.stack([linear.bias for linear in message_passing.mlp]),
            ),
            update_weights=UpdateWeights.of(
                jnp.stack([message_passing.from_messages.weight, gate.from_messages.weight]),
                gate.out.weight,
                jnp.stack([message_passing.norm.scale, message_passing.norm.offset, gate.out.bias]),
            ),
            slope=attention.slope if attention is not None else 0.0,
        )

    def with_terms(self, nodes: FoldedLinear, graph: Basis) -> FusedGatedStep:
        """The same with further terms per node, which others read, on the right of its own."""
        own, further = self.node_weights, jnp.concatenate([nodes.basis.directions, graph.directions])
        directions = jnp.concatenate([own.directions, further], axis=1)
        offset = jnp.concatenate([own.offset, graph.offset + nodes.basis.offset])
        dense = jnp.concatenate([own.dense[0], nodes.dense_weights[0]], axis=1)
        return dataclasses.replace(self, node_weights=NodeWeights.of(directions, offset, (dense,)))

    def __call__(self, scalars: Scalars, adjacency: Array, hidden: Hidden) -> Hidden:
        one = jax.tree.map(lambda leaf: leaf[None], scalars)
        return self.batched(one, adjacency[None], hidden[None])[0]

    def batched(
        self,
        scalars: Scalars,
        adjacency: Array,
        hidden: Float[Array, "batch node hidden"],
    ) -> Float[Array, "batch node hidden"]:
        return self.batched_and_terms(scalars, hidden)[0]

    def batched_and_terms(
        self,
        scalars: Scalars,
        hidden: Float[Array, "batch node hidden"],
    ) -> tuple[Float[Array, "batch node hidden"], Float[Array, "batch node terms"]]:
        """The next hidden states, and the terms of nodes for those who read further ones."""
        terms = node_product(scalars.rows, (hidden,), self.node_weights)
        terms = checkpoint_name(terms, SAVED)  # the kernels backward read them again
        edges = scalars.edge
        if edges.shape[-1] == 0:
            edges = jnp.zeros((*edges.shape[:-1], 1))
        return gated_step_and_terms(terms, edges, hidden, self.message_weights, self.update_weights, self.slope)


def _at_least_one(directions: Float[Array, "*many scalar hidden"]) -> Float[Array, "*many at_least_one hidden"]:
    """Kernels want a scalar; where edges have none, it is zero."""
    if directions.shape[-2]:
        return directions
    return jnp.zeros((*directions.shape[:-2], 1, directions.shape[-1]))


def _on_messages_bias(message_passing: MessagePassing, num_terms: int, size: int) -> Float[Array, " terms"]:
    """The biases of the products with messages, as part of the last two terms."""
    assert message_passing.gate is not None
    own = [message_passing.from_messages.bias, message_passing.gate.from_messages.bias]
    return jnp.concatenate([jnp.zeros((num_terms - 2) * size), *own])
