"""Processors in fused kernels: message passing, gated or not, with Triplet Edge Attention (TEAM) or with triplets
(Triplet-GMPNN), from the parameters of the plain ones. Others run by their own formulas, beside fused decoders.
"""

from __future__ import annotations

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from narkit.fused.bases import FusedBasis
from narkit.fused.message_step import message_step
from narkit.fused.messages import Attention, MessageWeights
from narkit.fused.narrow_latents import NarrowLatents
from narkit.fused.node_product import NodeWeights, node_product
from narkit.fused.triplet_messages import FEATURES, triplet_maxima
from narkit.fused.update import UpdateWeights
from narkit.fused.weights import at_least_one
from narkit.loops.deferred_gradients import keep_values
from narkit.models.features import Bases, Basis, FoldedLinear, Scalars, fold
from narkit.models.layers import Linear, concatenated, split_outputs
from narkit.models.processors.base import BoundProcessor
from narkit.models.processors.message_passing import MessagePassing, MessagePassingProcessor, Senders, everyone
from narkit.models.processors.team import TEAM
from narkit.models.processors.triplet_gmpnn import TripletProcessor, TripletReasoning
from narkit.models.triplet_edge_attention import TripletEdgeAttention

Hiddens = Float[Array, "batch node hidden"]
Adjacencies = Bool[Array, "batch node node"]
Latents = Float[Array, "batch node node latent"] | NarrowLatents | None
"""Narrow ones are made wide by the kernels that read them."""
Triplets = Float[Array, "batch node node node"] | None
Attended = tuple[Latents, Triplets]
Stepped = tuple[Hiddens, Latents, Triplets]


class FusedProcessor(eqx.Module):
    """A processor with the encoders' bases folded in, for a batch.

    One with an attention over third nodes may be told of edge pointers, by what is added to the attention's logits.
    Then it also returns the attention's weights.
    """

    @abc.abstractmethod
    def step_attending(self, scalars: Scalars, adjacency: Adjacencies, hidden: Hiddens, added: Triplets) -> Stepped:
        """Returns the next hidden states, and what `attend` returns."""

    @abc.abstractmethod
    def attend(self, scalars: Scalars, hidden: Hiddens, added: Triplets) -> Attended:
        """Returns what decoders read beside the encoded edges, if anything, and the weights of the attention."""


class PlainProcessor(FusedProcessor):
    """A processor by its own formulas, sample by sample."""

    bound: BoundProcessor

    def step_attending(self, scalars: Scalars, adjacency: Adjacencies, hidden: Hiddens, added: Triplets) -> Stepped:
        if added is None:
            return *jax.vmap(self.bound.with_latents)(scalars, adjacency, hidden), None
        return jax.vmap(self.bound.step_attending)(scalars, adjacency, hidden, added)

    def attend(self, scalars: Scalars, hidden: Hiddens, added: Triplets) -> Attended:
        if added is None:
            return jax.vmap(self.bound.edge_latents)(scalars, hidden), None
        return jax.vmap(self.bound.attend)(scalars, hidden, added)


def bind_team(processor: TEAM, bases: Bases) -> FusedProcessor:
    return FusedMessageStep.of(bases, processor.message_passing, processor.attention)


def bind_message_passing(processor: MessagePassingProcessor, bases: Bases) -> FusedProcessor:
    return FusedMessageStep.of(bases, processor.message_passing, None, type(processor).senders)


def bind_triplets(processor: TripletProcessor, bases: Bases) -> FusedProcessor:
    """Binds messages and triplets to kernels, with what nodes contribute to both in one product."""
    step = FusedMessageStep.of(bases, processor.message_passing, None, type(processor).senders)
    triplets = FusedTripletReasoning.of(bases, processor.triplets)
    return FusedTriplets(step.with_terms(triplets.nodes, triplets.graph), triplets)


def _on_message(message_passing: MessagePassing) -> list[Linear]:
    """Returns the Linears of the message that a node received: for its update and, if there is one, for the gate."""
    gate = message_passing.gate
    return [message_passing.from_messages, *([] if gate is None else [gate.from_messages])]


def update_weights(message_passing: MessagePassing) -> UpdateWeights:
    """Returns the weights of the update for its kernels."""
    gate, norm = message_passing.gate, message_passing.norm
    return UpdateWeights.of(
        jnp.stack([linear.weight for linear in _on_message(message_passing)]),
        None if gate is None else gate.out.weight,
        jnp.stack([norm.scale, norm.offset, *([] if gate is None else [gate.out.bias])]),
    )


class FusedMessageStep(FusedProcessor):
    """A step of message passing, perhaps gated. What a node contributes is one product per step."""

    # Of the terms of every node: the graph's scalars count as scalars of every node, and those of attention do not
    # depend on the hidden state.
    node_weights: NodeWeights
    message_weights: MessageWeights
    update_weights: UpdateWeights
    slope: float = eqx.field(static=True)
    senders: Senders = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        bases: Bases,
        message_passing: MessagePassing,
        attention: TripletEdgeAttention | None,
        senders: Senders = everyone,
    ) -> FusedMessageStep:
        size = message_passing.graph.bias.shape[0]
        linears = [message_passing.receiver, message_passing.sender, message_passing.from_nodes]
        if message_passing.gate is not None:
            linears.append(message_passing.gate.from_nodes)
        on_message = _on_message(message_passing)
        on_nodes = concatenated(linears)
        nodes = bases.node.through(eqx.tree_at(lambda linear: linear.weight, on_nodes, on_nodes.weight[:size]))
        to_receiver = bases.graph.through(message_passing.graph)
        graph = [to_receiver, *[None] * (len(linears) - 1)]
        node_directions, bias = nodes.directions, nodes.offset
        products = [linear.weight for linear in message_passing.mlp]
        bound_attention = None
        if attention is None:
            edge = bases.edge.through(message_passing.edge)
        else:
            in_attention = bases.node.through(concatenated([attention.node_i, attention.node_j, attention.node_k]))
            node_directions = jnp.concatenate([in_attention.directions, node_directions], axis=1)
            graph = [bases.graph.through(attention.graph), None, None, *graph]
            triplet = [
                bases.edge.through(linear) for linear in (attention.edge_ij, attention.edge_ik, attention.edge_jk)
            ]
            constant = sum((basis.offset for basis in triplet[1:]), triplet[0].offset)
            bias = jnp.concatenate([in_attention.offset[:size] + constant, in_attention.offset[size:], bias])
            bound_attention = Attention(
                at_least_one(jnp.stack([basis.directions for basis in triplet]), axis=1), attention.attention[0]
            )
            products = [message_passing.edge.weight, *products]
            # The bias of the product Me counts as part of what the receiver adds.
            first, receiver, others = jnp.split(bias, [3 * size, 4 * size])
            bias = jnp.concatenate([first, receiver + message_passing.edge.bias, others])
            edge = bases.edge.through(attention.value)
        zeros = jnp.zeros_like(to_receiver.directions)
        directions = jnp.concatenate([zeros if part is None else part.directions for part in graph], axis=1)
        offsets = jnp.concatenate([jnp.zeros(size) if part is None else part.offset for part in graph])
        # The biases of the products with messages count as part of the last terms.
        before = jnp.zeros((len(graph) - len(on_message)) * size)
        bias = bias + jnp.concatenate([before, *[linear.bias for linear in on_message]])
        return cls(
            node_weights=NodeWeights.of(
                jnp.concatenate([node_directions, directions]), offsets + bias, (on_nodes.weight[size:],)
            ),
            message_weights=MessageWeights.of(
                bound_attention,
                at_least_one(edge.directions, axis=0),
                edge.offset,
                products,
                jnp.stack([linear.bias for linear in message_passing.mlp]),
            ),
            update_weights=update_weights(message_passing),
            slope=attention.slope if attention is not None else 0.0,
            senders=senders,
        )

    def with_terms(self, nodes: FoldedLinear, graph: Basis) -> FusedMessageStep:
        """Returns the same with further terms per node, concatenated behind its own; the triplets read them."""
        own, further = self.node_weights, jnp.concatenate([nodes.basis.directions, graph.directions])
        directions = jnp.concatenate([own.directions, further], axis=1)
        offset = jnp.concatenate([own.offset, graph.offset + nodes.basis.offset])
        dense = jnp.concatenate([own.dense[0], nodes.dense_weights[0]], axis=1)
        return dataclasses.replace(self, node_weights=NodeWeights.of(directions, offset, (dense,)))

    def step_attending(self, scalars: Scalars, adjacency: Adjacencies, hidden: Hiddens, added: Triplets) -> Stepped:
        assert added is None, "a step without latents of edges is told of edge pointers"
        return self.with_terms_of_nodes(scalars, adjacency, hidden)[0], None, None

    def attend(self, scalars: Scalars, hidden: Hiddens, added: Triplets) -> Attended:
        return None, None

    def with_terms_of_nodes(
        self, scalars: Scalars, adjacency: Adjacencies, hidden: Hiddens
    ) -> tuple[Hiddens, Float[Array, "batch node terms"]]:
        """Returns the next hidden states, and the terms of nodes for those who read further ones."""
        terms = node_product(scalars.rows, (hidden,), self.node_weights)
        terms = keep_values(terms)  # the kernels backward read them again
        edges = at_least_one(scalars.edge)
        connected = jax.vmap(self.senders)(adjacency)
        if connected is not None:
            connected = connected.astype(jnp.int8)
        weights = (self.message_weights, self.update_weights)
        return message_step(terms, edges, hidden, *weights, self.slope, connected)


class FusedTripletReasoning(eqx.Module):
    """Edge latents from triplets, in a kernel, up to the Linear that makes the latents wide: their readers apply it."""

    nodes: FoldedLinear
    graph: Basis  # of what the graph adds to the three terms of every node
    edges: Float[Array, "3 scalar 8"]
    out: Linear

    @classmethod
    def of(cls, bases: Bases, triplets: TripletReasoning) -> FusedTripletReasoning:
        """Makes all offsets, and what the graph adds, part of x_j."""
        edges, graph = bases.edge.through(concatenated(triplets.edges)), bases.graph.through(triplets.graph)
        none = jnp.zeros_like(graph.directions)
        offset = graph.offset + edges.offset.reshape(3, FEATURES).sum(0)
        rest = jnp.zeros_like(offset)
        return cls(
            nodes=fold(concatenated(triplets.nodes), bases.node, [triplets.out.bias.shape[0]]),
            graph=FusedBasis(
                jnp.concatenate([none, graph.directions, none], axis=1), jnp.concatenate([rest, offset, rest])
            ),
            edges=jnp.stack(split_outputs(edges.directions, [FEATURES] * 3)),
            out=triplets.out,
        )

    def __call__(self, scalars: Scalars, hidden: Hiddens) -> NarrowLatents:
        return self.of_terms(self.nodes(scalars.node, hidden) + self.graph(scalars.graph)[:, None], scalars)

    def of_terms(self, terms: Float[Array, "batch node _"], scalars: Scalars) -> NarrowLatents:
        """Returns the latents from what nodes contribute: the last columns of `terms`."""
        return NarrowLatents(triplet_maxima(terms, scalars.edge, self.edges), self.out.weight, self.out.bias)


class FusedTriplets(FusedProcessor):
    """Message passing, and edge latents from triplets."""

    messages: FusedMessageStep
    triplets: FusedTripletReasoning

    def step_attending(self, scalars: Scalars, adjacency: Adjacencies, hidden: Hiddens, added: Triplets) -> Stepped:
        assert added is None, "a processor without an attention is told of edge pointers"
        next_hidden, terms = self.messages.with_terms_of_nodes(scalars, adjacency, hidden)
        return next_hidden, self.triplets.of_terms(terms, scalars), None

    def attend(self, scalars: Scalars, hidden: Hiddens, added: Triplets) -> Attended:
        return self.triplets(scalars, hidden), None
