"""TEAM with options in fused kernels: latents of edges are made of few features, which decoders may read, too."""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from narkit.fused import latent_features
from narkit.fused.latent_features import FeatureWeights
from narkit.fused.latent_step import StepOptions, StepWeights, latent_step
from narkit.fused.messages import Attention, MessageWeights
from narkit.fused.narrow_latents import NarrowLatents
from narkit.fused.node_product import NodeWeights, node_product
from narkit.fused.processors import Adjacencies, FusedProcessor, Hiddens, Latents, Triplets, update_weights
from narkit.loops.deferred_gradients import SAVED
from narkit.models.features import Bases, Basis, Scalars, fold
from narkit.models.layers import Linear, side_by_side
from narkit.models.processors.message_passing import MessagePassing
from narkit.models.processors.team import TEAM
from narkit.models.triplet_edge_attention import REFERENCE_SIZE, Reads, Scale, TripletEdgeAttention


def reads_both_directions(layer: TripletEdgeAttention) -> bool:
    """Whether an option reads edges in both directions, whose scalars then are twice as many."""
    return layer.both_directions or layer.values_of_kj or layer.maxima is not None


def bind_team_with_options(processor: TEAM, bases: Bases) -> FusedProcessor:
    return FusedLatentStep.of(processor, bases)


class _Pair(NamedTuple):
    """What is read of an edge and of its reverse, as far as anything is."""

    forward: Basis | None
    reverse: Basis | None = None

    def flipped(self) -> _Pair:
        """The same for the reverse of the edge."""
        return _Pair(self.reverse, self.forward)

    def directions(self, two_ways: bool) -> Float[Array, "scalar outputs"]:
        """For the scalars of the edge and, behind them, if `two_ways`, of its reverse."""
        read = [basis for basis in self if basis is not None]
        none = jnp.zeros_like(read[0].directions)
        if len(none) == 0:  # kernels want a scalar
            return jnp.zeros((1, none.shape[1]))
        parts = [none if basis is None else basis.directions for basis in self]
        assert two_ways or self.reverse is None
        return jnp.concatenate(parts if two_ways else parts[:1])

    @property
    def offset(self) -> Float[Array, " outputs"]:
        first, *rest = (basis.offset for basis in self if basis is not None)
        return sum(rest, first)


class _EdgeMaps(NamedTuple):
    """All that is read of edges."""

    triplet: tuple[_Pair, ...]  # of ij, ik and jk, in the vectors of triplets
    values: tuple[_Pair, ...]  # of ik and perhaps of jk
    residual: tuple[_Pair, ...]  # of ij, if there is one
    maxima: tuple[_Pair, ...]  # of ij, ik and jk, if there are any

    @classmethod
    def of(cls, layer: TripletEdgeAttention, edge: Basis) -> _EdgeMaps:
        def pair(forward: Linear, reverse: Linear | None = None) -> _Pair:
            return _Pair(edge.through(forward), None if reverse is None else edge.through(reverse))

        reversed_edges = layer.reversed_edges or (None, None, None)
        in_triplets = zip((layer.edge_ij, layer.edge_ik, layer.edge_jk), reversed_edges, strict=True)
        further = dict(zip(layer.further_edges, layer.further_values or (), strict=True))
        values = (pair(layer.value, further.get("ki")),)
        if "kj" in further:
            of_jk = None if "jk" not in further else edge.through(further["jk"])
            values += (_Pair(of_jk, edge.through(further["kj"])),)
        return cls(
            triplet=tuple(pair(*linears) for linears in in_triplets),
            values=values,
            residual=() if layer.residual is None else (pair(*layer.residual),),
            maxima=() if layer.maxima is None else tuple(pair(*linears) for linears in layer.maxima.edges),
        )


def _node_weights(
    layer: TripletEdgeAttention, message_passing: MessagePassing, bases: Bases, maps: _EdgeMaps
) -> NodeWeights:
    """What nodes contribute to everything: x_i, x_j and x_k, then to messages, then to the update and the gate, then to
    the maxima as k, i and j. Biases of others stand among it, and the graph's scalars count as scalars of every node.
    """
    gate = message_passing.gate
    size = message_passing.graph.bias.shape[0]
    attends = [_of_both(layer.reads, linear, size) for linear in (layer.node_i, layer.node_j, layer.node_k)]
    linears = [*attends, message_passing.receiver, message_passing.sender, message_passing.from_nodes]
    graph: dict[int, Basis] = {0: bases.graph.through(layer.graph), 3: bases.graph.through(message_passing.graph)}
    added = {
        0: sum((pair.offset for pair in maps.triplet[1:]), maps.triplet[0].offset),
        3: message_passing.edge.bias,
        5: message_passing.from_messages.bias,
    }
    if layer.norm is not None:
        added[3] = added[3] + layer.norm.offset @ message_passing.edge.weight
    if gate is not None:
        added[len(linears)] = gate.from_messages.bias
        linears.append(gate.from_nodes)
    if layer.maxima is not None:
        node_i, node_j, node_k = (_of_both(layer.reads, linear, size) for linear in layer.maxima.nodes)
        graph[len(linears) + 1] = bases.graph.through(layer.maxima.graph)
        added[len(linears) + 1] = sum((pair.offset for pair in maps.maxima[1:]), maps.maxima[0].offset)
        linears += [node_k, node_i, node_j]
    nodes = fold(side_by_side(linears), bases.node, [size])
    widths = [linear.bias.shape[0] for linear in linears]
    blanks = [jnp.zeros((len(bases.graph.directions), width)) for width in widths]
    directions = [graph[i].directions if i in graph else blank for i, blank in enumerate(blanks)]
    offsets = [jnp.zeros(width) + added.get(i, 0.0) for i, width in enumerate(widths)]
    offsets = [offset + graph[i].offset if i in graph else offset for i, offset in enumerate(offsets)]
    (dense,) = nodes.dense_weights
    if layer.reads is None:  # the first terms do not read hidden states, and neither do the last, which are few
        dense = dense[:, 3 * size :]
    return NodeWeights.of(
        jnp.concatenate([nodes.basis.directions, jnp.concatenate(directions, axis=1)]),
        nodes.basis.offset + jnp.concatenate(offsets),
        (dense,),
    )


def _of_both(reads: Reads | None, linear: Linear, size: int) -> Linear:
    """A Linear of what the attention reads as one of [x || hidden]."""
    if reads is Reads.BOTH:
        return linear
    missing = jnp.zeros((size, linear.weight.shape[1]))
    parts = [missing, linear.weight] if reads is Reads.HIDDEN else [linear.weight, missing]
    return eqx.tree_at(lambda made: made.weight, linear, jnp.concatenate(parts))


class FusedLatentStep(FusedProcessor):
    """A step of message passing, perhaps gated, over the latents of Triplet Edge Attention with options.

    Where an option reads edges in both directions, the scalars of an edge are its own and those of its reverse.
    """

    node_weights: NodeWeights
    weights: StepWeights
    learnt_scale: Float[Array, " 2"] | None
    options: StepOptions = eqx.field(static=True)  # scale and offset of the norm are folded into the messages
    scales: bool = eqx.field(static=True)  # whether logits grow with the number of nodes
    two_ways: bool = eqx.field(static=True)  # whether edges have the scalars of both directions
    shows_latents: bool = eqx.field(static=True)

    @classmethod
    def of(cls, processor: TEAM, bases: Bases) -> FusedLatentStep:
        layer, message_passing = processor.attention, processor.message_passing
        to_messages = message_passing.edge.weight
        if layer.norm is not None:
            to_messages = layer.norm.scale[:, None] * to_messages
        two_ways = reads_both_directions(layer)
        maps = _EdgeMaps.of(layer, bases.edge)
        value = [pair.directions(two_ways) for pair in (*maps.values, *maps.residual)]
        value_offset = sum((pair.offset for pair in (*maps.values[1:], *maps.residual)), maps.values[0].offset)
        maxima = None
        if layer.maxima is not None:
            ij, ik, jk = maps.maxima
            maxima = jnp.stack([pair.directions(two_ways) for pair in (ik.flipped(), jk.flipped(), ij)])
            value.append(layer.maxima.out.weight)
            value_offset = value_offset + layer.maxima.out.bias
        triplet = jnp.stack([pair.directions(two_ways) for pair in maps.triplet])
        return cls(
            node_weights=_node_weights(layer, message_passing, bases, maps),
            weights=StepWeights(
                features=FeatureWeights(Attention(triplet, layer.attention[0]), maxima),
                messages=MessageWeights.of(
                    None,
                    jnp.concatenate(value),
                    value_offset,
                    [to_messages, *(linear.weight for linear in message_passing.mlp)],
                    jnp.stack([linear.bias for linear in message_passing.mlp]),
                ),
                update=update_weights(message_passing),
            ),
            learnt_scale=layer.learnt_scale,
            options=StepOptions(
                latent_features.Options(
                    layer.slope, values_of_jk=layer.values_of_kj, residual=layer.residual is not None
                ),
                norm=layer.norm is not None,
            ),
            scales=layer.scale is Scale.LOG,
            two_ways=two_ways,
            shows_latents=processor.latent_size > 0,
        )

    def step_attending(
        self, scalars: Scalars, adjacency: Adjacencies, hidden: Hiddens, added: Triplets | None
    ) -> tuple[Hiddens, Latents, Triplets | None]:
        terms, edges = self._terms(scalars, hidden), self._edges(scalars)
        options, weights = self._for_size(hidden.shape[-2])
        next_hidden, made = latent_step(terms, edges, hidden, weights, options, added)
        return next_hidden, self._latents(made.features), made.attention

    def attend(self, scalars: Scalars, hidden: Hiddens, added: Triplets | None) -> tuple[Latents, Triplets | None]:
        if added is None and not self.shows_latents:  # nobody reads anything of it
            return None, None
        terms, edges = self._terms(scalars, hidden), self._edges(scalars)
        options, weights = self._for_size(hidden.shape[-2])
        made = latent_features.latent_features(terms, edges, weights.features, options.features, added)
        return self._latents(made.features), made.attention

    def _latents(self, features: Float[Array, "batch node node feature"]) -> NarrowLatents | None:
        if not self.shows_latents:
            return None
        return NarrowLatents(features, self.weights.messages.value, self.weights.messages.value_offset)

    def _terms(self, scalars: Scalars, hidden: Hiddens) -> Float[Array, "batch node terms"]:
        """What nodes contribute, which the kernels backward read again."""
        return checkpoint_name(node_product(scalars.rows, (hidden,), self.node_weights), SAVED)

    def _edges(self, scalars: Scalars) -> Float[Array, "batch node node scalar"]:
        edges = scalars.edge
        if edges.shape[-1] == 0:  # kernels want a scalar
            return jnp.zeros((*edges.shape[:-1], 1))
        if not self.two_ways:
            return edges
        return checkpoint_name(jnp.concatenate([edges, jnp.swapaxes(edges, -3, -2)], axis=-1), SAVED)

    def _for_size(self, num_nodes: int) -> tuple[StepOptions, StepWeights]:
        """Options and weights for graphs of a size, on which the scale of the logits depends."""
        growth = math.log(num_nodes) / math.log(REFERENCE_SIZE)
        features = self.options.features._replace(scale=growth if self.scales else 1.0)
        weights = self.weights
        if self.learnt_scale is not None:  # logits are linear in the weights of the attention
            factor = self.learnt_scale[0] + self.learnt_scale[1] * growth
            attention = weights.features.attention
            attention = attention._replace(weights=factor * attention.weights)
            weights = weights._replace(features=weights.features._replace(attention=attention))
        return self.options._replace(features=features), weights
