"""TEAM with options in fused kernels: latents of edges are made of few features, which decoders may read, too."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused import latent_features
from narkit.fused.latent_features import FeatureWeights
from narkit.fused.latent_step import StepOptions, StepWeights, latent_step
from narkit.fused.messages import Attention, MessageWeights
from narkit.fused.narrow_latents import NarrowLatents
from narkit.fused.node_product import NodeWeights, node_product
from narkit.fused.processors import Adjacencies, Attended, FusedProcessor, Hiddens, Stepped, Triplets, update_weights
from narkit.fused.weights import at_least_one
from narkit.loops.deferred_gradients import keep_values
from narkit.models.features import Bases, Basis, Scalars, fold
from narkit.models.layers import Linear, concatenated
from narkit.models.processors.message_passing import MessagePassing
from narkit.models.processors.team import TEAM
from narkit.models.triplet_edge_attention import TripletEdgeAttention, growth


def reads_both_directions(layer: TripletEdgeAttention) -> bool:
    """Returns whether an option reads edges in both directions, whose scalars then are twice as many."""
    from_third = layer.third_edges is not None  # beside the edge from i to j
    return layer.both_directions or layer.values_of_kj or layer.maxima is not None or from_third


class _Pair(NamedTuple):
    """The map of an edge and that of its reverse; None where nothing is read."""

    forward: Basis | None
    reverse: Basis | None = None

    def flipped(self) -> _Pair:
        """Returns the same for the reverse of the edge."""
        return _Pair(self.reverse, self.forward)

    def directions(self, two_ways: bool) -> Float[Array, "scalar outputs"]:
        """Returns the directions of the scalars of the edge and, if `two_ways`, then of those of its reverse."""
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
    """The maps of everything that is read of edges."""

    triplet: tuple[_Pair, ...]  # of ij, ik and jk, in the vectors of triplets
    values: tuple[_Pair, ...]  # of ik and perhaps of jk
    residual: tuple[_Pair, ...]  # of ij, if there is one
    maxima: tuple[_Pair, ...]  # of ij, ik and jk, if there are any

    @classmethod
    def of(cls, layer: TripletEdgeAttention, edge: Basis) -> _EdgeMaps:
        def pair(forward: Linear, reverse: Linear | None = None) -> _Pair:
            return _Pair(edge.through(forward), None if reverse is None else edge.through(reverse))

        def with_third(forward: Linear, reverse: Linear | None = None) -> _Pair:
            """Does the same for an edge to the third node, or from it."""
            return pair(forward, reverse) if layer.third_edges is None else pair(forward).flipped()

        of_ji, of_ki, of_kj = layer.reversed_edges or (None, None, None)
        further = dict(zip(layer.further_edges, layer.further_values or (), strict=True))
        values = (with_third(layer.value, further.get("ki")),)
        if layer.values_of is not None:  # the kernels have values of ik always
            values = (_Pair(jax.tree.map(jnp.zeros_like, edge.through(layer.value))), *values)
        if "kj" in further:
            of_jk = None if "jk" not in further else edge.through(further["jk"])
            values += (_Pair(of_jk, edge.through(further["kj"])),)
        return cls(
            triplet=(
                pair(layer.edge_ij, of_ji),
                with_third(layer.edge_ik, of_ki),
                with_third(layer.edge_jk, of_kj),
            ),
            values=values,
            residual=() if layer.residual is None else (pair(*layer.residual),),
            maxima=() if layer.maxima is None else tuple(pair(*linears) for linears in layer.maxima.edges),
        )


def _node_weights(
    layer: TripletEdgeAttention, message_passing: MessagePassing, bases: Bases, maps: _EdgeMaps
) -> NodeWeights:
    """Returns the Linears of nodes as one: x_i, x_j, x_k, then what goes to messages, to the update, the gate, and to
    the maxima as k, i and j. It has biases of others, too, and the graph's scalars count as scalars of every node.
    """
    gate = message_passing.gate
    size = message_passing.graph.bias.shape[0]
    attends = [_of_both(layer, linear) for linear in (layer.node_i, layer.node_j, layer.node_k)]
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
        node_i, node_j, node_k = (_of_both(layer, linear) for linear in layer.maxima.nodes)
        graph[len(linears) + 1] = bases.graph.through(layer.maxima.graph)
        added[len(linears) + 1] = sum((pair.offset for pair in maps.maxima[1:]), maps.maxima[0].offset)
        linears += [node_k, node_i, node_j]
    nodes = fold(concatenated(linears), bases.node, [size])
    widths = [linear.bias.shape[0] for linear in linears]
    zeros = [jnp.zeros((len(bases.graph.directions), width)) for width in widths]
    directions = [graph[i].directions if i in graph else unread for i, unread in enumerate(zeros)]
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


def _of_both(layer: TripletEdgeAttention, linear: Linear) -> Linear:
    """Returns a Linear of what the attention reads as one of [x || hidden]."""
    if layer.reads is not None:
        return linear
    weight = jnp.concatenate([linear.weight, jnp.zeros_like(linear.weight)])
    return eqx.tree_at(lambda made: made.weight, linear, weight)


class FusedLatentStep(FusedProcessor):
    """A step of message passing, perhaps gated, over the latents of Triplet Edge Attention with options.

    Where an option reads edges in both directions, the scalars of an edge are its own and those of its reverse.
    """

    node_weights: NodeWeights
    weights: StepWeights
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
            options=StepOptions(
                latent_features.Options(
                    layer.slope, values_of_jk=len(maps.values) > 1, residual=layer.residual is not None
                ),
                norm=layer.norm is not None,
            ),
            scales=layer.scale is not None,
            two_ways=two_ways,
            shows_latents=processor.latent_size > 0,
        )

    def step_attending(self, scalars: Scalars, adjacency: Adjacencies, hidden: Hiddens, added: Triplets) -> Stepped:
        terms, edges = self._terms(scalars, hidden), self._edges(scalars)
        options = self._options(hidden.shape[-2])
        next_hidden, made = latent_step(terms, edges, hidden, self.weights, options, added)
        return next_hidden, self._latents(made.features), made.attention

    def attend(self, scalars: Scalars, hidden: Hiddens, added: Triplets) -> Attended:
        if added is None and not self.shows_latents:  # nobody reads anything of it
            return None, None
        terms, edges = self._terms(scalars, hidden), self._edges(scalars)
        options = self._options(hidden.shape[-2])
        made = latent_features.latent_features(terms, edges, self.weights.features, options.features, added)
        return self._latents(made.features), made.attention

    def _latents(self, features: Float[Array, "batch node node feature"]) -> NarrowLatents | None:
        if not self.shows_latents:
            return None
        return NarrowLatents(features, self.weights.messages.value, self.weights.messages.value_offset)

    def _terms(self, scalars: Scalars, hidden: Hiddens) -> Float[Array, "batch node terms"]:
        """Computes the terms of nodes, which the kernels backward read again."""
        return keep_values(node_product(scalars.rows, (hidden,), self.node_weights))

    def _edges(self, scalars: Scalars) -> Float[Array, "batch node node scalar"]:
        edges = scalars.edge
        if edges.shape[-1] == 0 or not self.two_ways:
            return at_least_one(edges)
        return keep_values(jnp.concatenate([edges, jnp.swapaxes(edges, -3, -2)], axis=-1))

    def _options(self, num_nodes: int) -> StepOptions:
        """Returns the options for graphs of a size, on which the scale of the logits depends."""
        features = self.options.features._replace(scale=growth(num_nodes) if self.scales else 1.0)
        return self.options._replace(features=features)
