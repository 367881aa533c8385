"""Decoders: from the features of a step to the logits of probes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, assert_never

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, PRNGKeyArray

from narkit.kernels import triplets
from narkit.kernels.deferred_gradients import SAVED
from narkit.kernels.fused import launch
from narkit.kernels.fused.edge_pointer import edge_pointer_logits
from narkit.kernels.fused.latent_pointer import (
    Fragments,
    LatentPointerWeights,
    latent_pointer_logits,
    latent_pointer_logits_and_softmax,
)
from narkit.kernels.fused.pointer import PointerWeights, pointer_logits, pointer_logits_and_softmax
from narkit.kernels.fused.triplet_messages import NarrowLatents
from narkit.kernels.fused.weights import HIDDEN_SIZE
from narkit.models.features import ALIGNMENT, Bases, Basis, FoldedLinear, Scalars, fold
from narkit.models.layers import Linear, max_over_first, side_by_side, split_outputs
from narkit.spec import Kind, Location, Probe, Spec


class Decoder(eqx.Module):
    """The Linears of one probe, by what they read."""

    on_nodes: tuple[Linear, ...]  # [x || hidden || next hidden] of every node
    on_edges: tuple[Linear, ...]  # the encoded edges, and beside them the processor's edge latents if it has any
    on_pooled: tuple[Linear, ...]  # the maximum of the node features over the nodes
    on_graph: tuple[Linear, ...]  # the encoded graph
    score: Linear | None  # weighs how a pointer's two ends compare

    def __init__(self, probe: Probe, hidden_size: int, edge_size: int, *, key: PRNGKeyArray):
        points = probe.kind in (Kind.POINTER, Kind.PERMUTATION_POINTER)
        width = probe.num_classes or 1
        match probe.location:
            case Location.NODE:
                nodes, edges, graph = ([hidden_size] * 2, [hidden_size], []) if points else ([width], [], [])
            case Location.EDGE:
                nodes, edges, graph = ([hidden_size] * 3, [hidden_size], []) if points else ([width] * 2, [width], [])
            case Location.GRAPH:
                nodes, edges, graph = ([1] if points else [], [], [width])
            case _:
                assert_never(probe.location)
        keys = iter(jax.random.split(key, len(nodes) + len(edges) + 2 * len(graph) + 1))

        def linears(inputs: int, widths: list[int]) -> tuple[Linear, ...]:
            return tuple(Linear(inputs, outputs, key=next(keys)) for outputs in widths)

        self.on_nodes = linears(3 * hidden_size, nodes)
        self.on_edges = linears(edge_size, edges)
        self.on_pooled = linears(3 * hidden_size, graph)
        self.on_graph = linears(hidden_size, graph)
        self.score = Linear(hidden_size, 1, key=next(keys)) if points and not graph else None


class Decoders(eqx.Module):
    """A decoder per decoded probe."""

    by_probe: dict[str, Decoder]
    hidden_size: int = eqx.field(static=True)
    latent_size: int = eqx.field(static=True)

    def __init__(self, spec: Spec, hidden_size: int, latent_size: int, *, key: PRNGKeyArray):
        """Builds decoders for every probe of `spec`. `latent_size`: the width of the processor's edge latents, or 0."""
        keys = jax.random.split(key, len(spec))
        self.by_probe = {
            name: Decoder(probe, hidden_size, hidden_size + latent_size, key=k)
            for (name, probe), k in zip(spec.items(), keys, strict=True)
        }
        self.hidden_size = hidden_size
        self.latent_size = latent_size

    def bind(self, spec: Spec, bases: Bases) -> BoundDecoders:
        """The decoders for factored features. Linears that read the same are merged into one."""
        decoders = self.by_probe.values()
        hidden = (self.hidden_size, self.hidden_size)
        latent = (self.latent_size,) if self.latent_size else ()
        return BoundDecoders(
            probes=tuple((name, spec[name]) for name in self.by_probe),
            node_features=bases.node,
            on_nodes=_merge([linear for d in decoders for linear in d.on_nodes], bases.node, hidden, ALIGNMENT),
            on_edges=tuple(tuple(fold(linear, bases.edge, latent) for linear in d.on_edges) for d in decoders),
            on_pooled=tuple(d.on_pooled for d in decoders),
            on_graph=_merge([linear for d in decoders for linear in d.on_graph], bases.graph),
            scores=tuple(d.score for d in decoders),
            node_counts=tuple(len(d.on_nodes) for d in decoders),
            fragments=tuple(_fragments(d, self.hidden_size) for d in decoders),
        )


def _fragments(decoder: Decoder, hidden_size: int) -> Fragments | None:
    """The weight of edge latents as kernels read it, for decoders that have such a kernel."""
    if decoder.score is None or len(decoder.on_nodes) != 2 or not is_fused(decoder.score):
        return None
    weight = decoder.on_edges[0].weight[hidden_size:]
    return Fragments.of(weight) if len(weight) else None


class MergedLinears(eqx.Module):
    """Several Linears of the same input as one product."""

    merged: FoldedLinear | None
    widths: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self, scalars: Float[Array, "*axes scalar"], *dense: Array, product: Array | None = None
    ) -> Float[Array, "*axes width"]:
        """The outputs of all, side by side, and the columns that fill up; `product` as for a `FoldedLinear`."""
        if self.merged is None:
            return jnp.zeros((*scalars.shape[:-1], 0))
        return self.merged(scalars, *dense, product=product)

    def split(self, outputs: Float[Array, "*axes width"]) -> list[Array]:
        """The outputs one by one."""
        return split_outputs(outputs, self.widths)

    @property
    def starts(self) -> list[int]:
        """Where the outputs of each begin."""
        return [sum(self.widths[:i]) for i in range(len(self.widths))]


def _merge(
    linears: Sequence[Linear], basis: Basis, dense_sizes: Sequence[int] = (), multiple_of: int = 1
) -> MergedLinears:
    """Merges Linears, and fills the columns up with zeros to a multiple of so many."""
    if not linears:
        return MergedLinears(None, ())
    widths = tuple(linear.bias.shape[0] for linear in linears)
    merged = side_by_side(linears)
    if missing := -sum(widths) % multiple_of:
        fill = (jnp.pad(merged.weight, ((0, 0), (0, missing))), jnp.pad(merged.bias, (0, missing)))
        merged = eqx.tree_at(lambda linear: (linear.weight, linear.bias), merged, fill)
    return MergedLinears(fold(merged, basis, dense_sizes), widths)


class BoundDecoders(eqx.Module):
    """Decoders that read scalars and hidden states. Made by `Decoders.bind`."""

    probes: tuple[tuple[str, Probe], ...] = eqx.field(static=True)
    node_features: Basis
    on_nodes: MergedLinears
    on_edges: tuple[tuple[FoldedLinear, ...], ...]
    on_pooled: tuple[tuple[Linear, ...], ...]
    on_graph: MergedLinears
    scores: tuple[Linear | None, ...]
    node_counts: tuple[int, ...] = eqx.field(static=True)
    fragments: tuple[Fragments | None, ...]

    @property
    def hidden_weights(self) -> Float[Array, "hidden _"] | None:
        """The weights of everything that is linear in the hidden states, side by side."""
        return None if self.on_nodes.merged is None else self.on_nodes.merged.dense_weights[0]

    def __call__(
        self,
        scalars: Scalars,
        hidden: Float[Array, "batch node hidden"],
        next_hidden: Float[Array, "batch node hidden"],
        edge_latents: Float[Array, "batch node node latent"] | NarrowLatents | None,
        from_hidden: Float[Array, "batch node _"] | None = None,
        softened: dict[str, Array] | None = None,
    ) -> dict[str, Array]:
        """The logits of every decoded probe for a batch at one step.

        `from_hidden` is the product of the hidden states with `hidden_weights`, where it is known already. Softmaxes
        that cost nothing more are put into `softened`.
        """
        all_nodes = self.on_nodes(scalars.node, hidden, next_hidden, product=from_hidden)
        if any(score is not None and is_fused(score) for score in self.scores):
            all_nodes = checkpoint_name(all_nodes, SAVED)  # the kernels backward read it again
        from_nodes = self.on_nodes.split(all_nodes)
        from_graph = iter(self.on_graph.split(self.on_graph(scalars.graph)))
        narrow = None
        if isinstance(edge_latents, NarrowLatents):  # wide ones are computed only where something reads them
            narrow, edge_latents = edge_latents, edge_latents.wide()
        latents = () if edge_latents is None else (edge_latents,)
        features = jnp.concatenate([self.node_features(scalars.node), hidden, next_hidden], axis=-1)
        pooled = jax.vmap(max_over_first)(features)
        logits = {}
        arguments: Any
        at = 0
        for (name, probe), on_edges, on_pooled, score, count, fragments in zip(
            self.probes, self.on_edges, self.on_pooled, self.scores, self.node_counts, self.fragments, strict=True
        ):
            graph = [linear(pooled) + next(from_graph) for linear in on_pooled]
            if score is not None and is_fused(score):
                columns = self.on_nodes.starts[at : at + count]
                if narrow is not None and fragments is not None:
                    weights = _latent_weights(on_edges[0], score, fragments)
                    arguments = (all_nodes, *columns, scalars.edge, narrow, weights)
                    logits_of, logits_and_softmax_of = latent_pointer_logits, latent_pointer_logits_and_softmax
                else:
                    arguments = _pointer_arguments(all_nodes, columns, scalars.edge, latents, on_edges[0], score)
                    logits_of, logits_and_softmax_of = pointer_logits, pointer_logits_and_softmax
                if probe.location is Location.EDGE:
                    logits[name] = edge_pointer_logits(*arguments)
                elif softened is not None and probe.kind is Kind.POINTER:
                    logits[name], softened[name] = logits_and_softmax_of(*arguments)
                else:
                    logits[name] = logits_of(*arguments)
            else:
                edges = [linear(scalars.edge, *latents) for linear in on_edges]
                put_together = functools.partial(_logits, probe, score=score)
                logits[name] = jax.vmap(put_together)(from_nodes[at : at + count], edges, graph)
            at += count
        return logits


def is_fused(score: Linear) -> bool:
    """Whether pointers of these decoders are decoded by the fused kernel."""
    return score.weight.shape[0] == HIDDEN_SIZE and launch.mode() is launch.Mode.FUSED


def _pointer_arguments(
    nodes: Array, columns: Sequence[int], scalars: Array, latents: Sequence[Array], on_edge: FoldedLinear, score: Linear
) -> tuple[Any, ...]:
    """What the kernel of pointers takes: from nodes with two columns, from edges with three."""
    basis = on_edge.basis
    if latents:  # edges that are no sum of few directions
        edges, weights = on_edge(scalars, *latents), PointerWeights(None, score.weight[:, 0], score.bias)
    else:
        edges, weights = scalars, PointerWeights((basis.directions, basis.offset), score.weight[:, 0], score.bias)
    return nodes, *columns, edges, weights


def _latent_weights(on_edge: FoldedLinear, score: Linear, fragments: Fragments) -> LatentPointerWeights:
    basis = on_edge.basis
    return LatentPointerWeights(
        basis.directions, basis.offset, on_edge.dense_weights[0], score.weight[:, 0], score.bias, fragments
    )


def _logits(probe: Probe, nodes: list[Array], edges: list[Array], graph: list[Array], score: Linear | None) -> Array:
    """Puts the readings of a probe's Linears together, for one sample."""
    points = probe.kind in (Kind.POINTER, Kind.PERMUTATION_POINTER)
    match probe.location:
        case Location.NODE if points:
            assert score is not None
            first, second = nodes
            # The pointer from i to p is encoded on the edge (i, p) but decoded from (p, i), as in the reference.
            ends = jnp.maximum(first[:, None], jnp.swapaxes(second[:, None] + edges[0], 0, 1))
            return score(ends)[..., 0]
        case Location.EDGE if points:
            assert score is not None
            pairs = nodes[0][:, None] + nodes[1][None] + edges[0]
            return triplets.edge_pointer_logits(pairs, nodes[2], score.weight[:, 0]) + score.bias
        case Location.GRAPH if points:
            return graph[0] + nodes[0][:, 0]
        case Location.NODE:
            values = nodes[0]
        case Location.EDGE:
            values = nodes[0][:, None] + nodes[1][None] + edges[0]
        case Location.GRAPH:
            values = graph[0]
        case _:
            assert_never(probe.location)
    return values if probe.kind is Kind.CATEGORICAL else values[..., 0]
