"""Decoders: from the features of a step to the logits of probes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, PRNGKeyArray

from narkit.kernels import triplets
from narkit.kernels.deferred_gradients import SAVED
from narkit.kernels.fused import launch
from narkit.kernels.fused.edge_pointer import edge_pointer_logits, edge_pointer_logits_and_means
from narkit.kernels.fused.edge_readout import EdgeValue, EdgeValueKind, edge_readout
from narkit.kernels.fused.latent_pointer import (
    Fragments,
    LatentPointerWeights,
    latent_pointer_logits,
    latent_pointer_logits_and_softmax,
)
from narkit.kernels.fused.pointer import PointerWeights, pointer_logits, pointer_logits_and_softmax
from narkit.kernels.fused.readout import ReadoutWeights, Value, ValueKind, readout
from narkit.kernels.fused.triplet_messages import NarrowLatents
from narkit.kernels.fused.weights import HIDDEN_SIZE
from narkit.models.encoders import num_scalars
from narkit.models.features import ALIGNMENT, Bases, Basis, FoldedLinear, Scalars, fold
from narkit.models.layers import Linear, max_over_first, side_by_side
from narkit.spec import Kind, Location, Probe, Spec

# The order of what decoders read of nodes.
POINTERS, SENDERS, RECEIVERS, OTHERS = range(4)
NUM_GROUPS = 4


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

    def bind(self, spec: Spec, bases: Bases, columns: Mapping[str, int] | None = None) -> BoundDecoders:
        """The decoders for factored features. Linears that read the same are merged into one.

        `columns` says where the next step reads the values of probes, in the rows of nodes, if it reads any.
        """
        decoders = self.by_probe.values()
        hidden = (self.hidden_size, self.hidden_size)
        latent = (self.latent_size,) if self.latent_size else ()
        # Of pointers first: in a node's row they begin where memory is aligned. Then those of edges that do not point,
        # as senders and as receivers, which are read together.
        on_edges = [d.on_edges if d.score is not None else () for d in decoders]
        together = [linear for d in decoders if d.score is None for linear in d.on_edges]
        order = [
            POINTERS if d.score is not None else SENDERS + i if d.on_edges else OTHERS
            for d in decoders
            for i in range(len(d.on_nodes))
        ]
        on_nodes = _merge([linear for d in decoders for linear in d.on_nodes], bases.node, hidden, ALIGNMENT, order)
        on_pooled, on_graph = [d.on_pooled for d in decoders], [linear for d in decoders for linear in d.on_graph]
        values = None
        if columns is not None and self.hidden_size == HIDDEN_SIZE and launch.mode() is launch.Mode.FUSED:
            values = self._values(spec, on_nodes, columns)
        read = None
        if values is not None:
            graph = _readout_weights(bases, on_pooled, on_graph) if on_graph else None
            read = Readout(graph, tuple(values), on_nodes.ends[POINTERS])
            on_pooled, on_graph = [() for _ in decoders], []
        return BoundDecoders(
            probes=tuple((name, spec[name]) for name in self.by_probe),
            node_features=bases.node,
            on_nodes=on_nodes,
            on_edges=tuple(tuple(fold(linear, bases.edge, latent) for linear in linears) for linears in on_edges),
            on_edges_together=_merge(together, bases.edge, latent),
            on_pooled=tuple(on_pooled),
            on_graph=_merge(on_graph, bases.graph),
            scores=tuple(d.score for d in decoders),
            node_counts=tuple(len(d.on_nodes) for d in decoders),
            fragments=tuple(_fragments(d, self.hidden_size) for d in decoders),
            readout=read,
        )

    def _values(self, spec: Spec, on_nodes: MergedLinears, columns: Mapping[str, int]) -> list[Value] | None:
        """Where the values in a node's row come from; None if there are none, or of a kind that kernels do not make."""
        starts, found, of_graph = iter(on_nodes.starts), [], 0
        for name, decoder in self.by_probe.items():
            probe = spec[name]
            own = [next(starts) for _ in decoder.on_nodes]
            width = num_scalars(probe)
            if name in columns and (probe.location, probe.kind) not in VALUES:
                return None
            if name in columns:
                source = of_graph if probe.location is Location.GRAPH else own[0]
                found.append(Value(VALUES[probe.location, probe.kind], source, columns[name], width))
            of_graph += width if probe.location is Location.GRAPH else 0
        kept = [name for name in columns if name not in self.by_probe]
        copied = [Value(ValueKind.COPY, 0, columns[name], num_scalars(spec[name])) for name in kept]
        return [*found, *copied] if found else None


VALUES = {
    (Location.NODE, Kind.SCALAR): ValueKind.SCALAR,
    (Location.NODE, Kind.MASK): ValueKind.MASK,
    (Location.NODE, Kind.MASK_ONE): ValueKind.MASK_ONE,
    (Location.NODE, Kind.CATEGORICAL): ValueKind.CATEGORICAL,
    (Location.GRAPH, Kind.SCALAR): ValueKind.GRAPH_SCALAR,
    (Location.GRAPH, Kind.MASK): ValueKind.GRAPH_MASK,
    (Location.GRAPH, Kind.CATEGORICAL): ValueKind.GRAPH_CATEGORICAL,
}
"""What a kernel makes values of."""


EDGE_VALUES = {
    Kind.SCALAR: EdgeValueKind.SCALAR,
    Kind.MASK: EdgeValueKind.MASK,
    Kind.CATEGORICAL: EdgeValueKind.CATEGORICAL,
}


def decoded_together(probe: Probe) -> bool:
    """Whether a probe is one of those of edges that do not point."""
    return probe.location is Location.EDGE and probe.kind in EDGE_VALUES


class Readout(eqx.Module):
    """What the kernel reads that makes the rows of the next step, and the logits of the graph."""

    weights: ReadoutWeights | None  # without probes of the graph there are none
    values: tuple[Value, ...] = eqx.field(static=True)
    first: int = eqx.field(static=True)  # column of nodes' outputs from which on these are its


def _readout_weights(bases: Bases, on_pooled: Sequence[tuple[Linear, ...]], on_graph: list[Linear]) -> ReadoutWeights:
    pooled = side_by_side([linear for linears in on_pooled for linear in linears])
    graph = bases.graph.through(side_by_side(on_graph))
    weight = jnp.concatenate([pooled.weight, graph.directions, (graph.offset + pooled.bias)[None]])
    return ReadoutWeights(bases.node.directions, bases.node.offset, weight)


@dataclass
class Softened:
    """What decoders make for the next step beside logits, where it costs nothing more."""

    edges: dict[str, Array] = field(default_factory=dict)  # scalars of pointers, which are features of edges
    together: Array | None = None  # scalars of the other probes of edges, side by side
    rows: Array | None = None  # what the next step reads of nodes and the graph


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
    starts: tuple[int, ...] = eqx.field(static=True)  # where the outputs of each begin
    ends: tuple[int, ...] = eqx.field(static=True)  # where those of each group end

    def __call__(
        self, scalars: Float[Array, "*axes scalar"], *dense: Array, product: Array | None = None
    ) -> Float[Array, "*axes width"]:
        """The outputs of all, side by side, and the columns that fill up; `product` as for a `FoldedLinear`."""
        if self.merged is None:
            return jnp.zeros((*scalars.shape[:-1], 0))
        return self.merged(scalars, *dense, product=product)

    def split(self, outputs: Float[Array, "*axes width"]) -> list[Array]:
        """The outputs one by one."""
        # Slices, not `jnp.split`: a time loop takes them after it ends.
        return [outputs[..., start : start + width] for start, width in zip(self.starts, self.widths, strict=True)]


def _merge(
    linears: Sequence[Linear],
    basis: Basis,
    dense_sizes: Sequence[int] = (),
    multiple_of: int = 1,
    groups: Sequence[int] | None = None,
) -> MergedLinears:
    """Merges Linears, group by group, and fills the columns up with zeros to a multiple of so many."""
    group_of = groups or [0] * len(linears)
    widths = tuple(linear.bias.shape[0] for linear in linears)
    ends = tuple(sum(w for w, own in zip(widths, group_of, strict=True) if own <= group) for group in range(NUM_GROUPS))
    if not linears:
        return MergedLinears(None, (), (), ends)
    order = sorted(range(len(linears)), key=lambda i: group_of[i])
    after = itertools.accumulate(widths[i] for i in order)
    starts = {i: end - widths[i] for i, end in zip(order, after, strict=True)}
    merged = side_by_side([linears[i] for i in order])
    if missing := -sum(widths) % multiple_of:
        fill = (jnp.pad(merged.weight, ((0, 0), (0, missing))), jnp.pad(merged.bias, (0, missing)))
        merged = eqx.tree_at(lambda linear: (linear.weight, linear.bias), merged, fill)
    in_order = tuple(starts[i] for i in range(len(linears)))
    return MergedLinears(fold(merged, basis, dense_sizes), widths, in_order, ends)


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
    on_edges_together: MergedLinears  # of probes of edges that do not point
    readout: Readout | None

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
        softened: Softened | None = None,
    ) -> dict[str, Array]:
        """The logits of every decoded probe for a batch at one step.

        `from_hidden` is the product of the hidden states with `hidden_weights`, where it is known already. What the
        next step reads and costs nothing more is put into `softened`.
        """
        all_nodes = self.on_nodes(scalars.node, hidden, next_hidden, product=from_hidden)
        if self.readout is not None or any(score is not None and is_fused(score) for score in self.scores):
            all_nodes = checkpoint_name(all_nodes, SAVED)  # the kernels backward read it again
        from_nodes = self.on_nodes.split(all_nodes)
        from_graph = iter(self.on_graph.split(self.on_graph(scalars.graph)))
        graph_logits, graph_at = None, 0
        if self.readout is not None:
            read = self.readout
            next_rows, graph_logits = readout(
                all_nodes, scalars.rows, hidden, next_hidden, read.weights, read.values, read.first
            )
            if softened is not None:
                softened.rows = next_rows
        narrow = None
        if isinstance(edge_latents, NarrowLatents):  # wide ones are computed only where something reads them
            narrow, edge_latents = edge_latents, edge_latents.wide()
        latents = () if edge_latents is None else (edge_latents,)
        features = jnp.concatenate([self.node_features(scalars.node), hidden, next_hidden], axis=-1)
        pooled = jax.vmap(max_over_first)(features)
        of_edges = iter(self._edge_logits(all_nodes, scalars, latents, narrow, softened))
        logits = {}
        arguments: Any
        at = 0
        for (name, probe), on_edges, on_pooled, score, count, fragments in zip(
            self.probes, self.on_edges, self.on_pooled, self.scores, self.node_counts, self.fragments, strict=True
        ):
            graph = [linear(pooled) + next(from_graph) for linear in on_pooled]
            if graph_logits is not None and probe.location is Location.GRAPH:
                graph = [graph_logits[:, graph_at : graph_at + num_scalars(probe)]]
                graph_at += num_scalars(probe)
            if score is not None and is_fused(score):
                columns = self.on_nodes.starts[at : at + count]
                if narrow is not None and fragments is not None:
                    weights = _latent_weights(on_edges[0], score, fragments)
                    arguments = (all_nodes, *columns, scalars.edge, narrow, weights)
                    logits_of, logits_and_softmax_of = latent_pointer_logits, latent_pointer_logits_and_softmax
                else:
                    arguments = _pointer_arguments(all_nodes, columns, scalars.edge, latents, on_edges[0], score)
                    logits_of, logits_and_softmax_of = pointer_logits, pointer_logits_and_softmax
                if probe.location is Location.EDGE and softened is not None:
                    logits[name], softened.edges[name] = edge_pointer_logits_and_means(*arguments)
                elif probe.location is Location.EDGE:
                    logits[name] = edge_pointer_logits(*arguments)
                elif softened is not None and probe.kind is Kind.POINTER:
                    logits[name], probabilities = logits_and_softmax_of(*arguments)
                    softened.edges[name] = probabilities[..., None]
                else:
                    logits[name] = logits_of(*arguments)
            elif decoded_together(probe):
                values = next(of_edges)
                logits[name] = values if probe.kind is Kind.CATEGORICAL else values[..., 0]
            else:
                edges = [linear(scalars.edge, *latents) for linear in on_edges]
                put_together = functools.partial(_logits, probe, score=score)
                logits[name] = jax.vmap(put_together)(from_nodes[at : at + count], edges, graph)
            at += count
        return logits

    def _edge_logits(
        self,
        all_nodes: Array,
        scalars: Scalars,
        latents: Sequence[Array],
        narrow: NarrowLatents | None,
        softened: Softened | None,
    ) -> list[Array]:
        """The logits of the probes of edges that do not point: what both ends and the edge itself add."""
        if self.on_edges_together.merged is None:
            return []
        linear = self.on_edges_together.merged
        if scalars.edge.shape[-1] and launch.mode() is launch.Mode.FUSED:
            further: Any = latents[0] @ linear.dense_weights[0] if latents else None
            if narrow is not None:
                further = (narrow, linear.dense_weights[0])
            logits, values = edge_readout(
                all_nodes,
                self.on_nodes.ends[POINTERS],
                scalars.edge,
                *_parts(linear.basis),
                further,
                self._edge_values(),
            )
            if softened is not None:
                softened.together = values
        else:
            ends = (0, *self.on_nodes.ends)
            senders, receivers = (all_nodes[..., ends[i] : ends[i + 1]] for i in (SENDERS, RECEIVERS))
            logits = senders[:, :, None] + receivers[:, None] + linear(scalars.edge, *latents)
        return self.on_edges_together.split(logits)

    def _edge_values(self) -> list[EdgeValue]:
        kinds = [probe.kind for _, probe in self.probes if decoded_together(probe)]
        starts_and_widths = zip(self.on_edges_together.starts, self.on_edges_together.widths, strict=True)
        return [EdgeValue(EDGE_VALUES[kind], *at) for kind, at in zip(kinds, starts_and_widths, strict=True)]


def _parts(basis: Basis) -> tuple[Array, Array]:
    return basis.directions, basis.offset


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
        case Location.GRAPH:
            values = graph[0]
        case Location.EDGE:
            raise ValueError("probes of edges that do not point are decoded together")
        case _:
            assert_never(probe.location)
    return values if probe.kind is Kind.CATEGORICAL else values[..., 0]
