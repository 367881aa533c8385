"""Decoders: from the features of a step to the logits of probes.

A network has a decoder per predicted probe, each made of a few Linears. Before the time loop they are bound to factored
features: sorted by what they read, so that one product serves all that read the same, and by what they decode.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import assert_never

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from narkit.fused import launch
from narkit.fused.node_product import NodeWeights
from narkit.fused.weights import HIDDEN_SIZE
from narkit.models.bound_decoders import BoundDecoders
from narkit.models.features import ALIGNMENT, Bases
from narkit.models.layers import Linear
from narkit.models.merged_linears import MergedLinears, merge
from narkit.models.pointer_decoders import PointerDecoder, points
from narkit.models.value_decoders import EdgeDecoders, GraphDecoders, RowReadout, row_values
from narkit.spec import Location, Probe, Spec


class NodeReader(enum.IntEnum):
    """Who reads outputs of nodes, in the order of their columns."""

    POINTER = 0  # first: in a node's row its columns begin where memory is aligned
    EDGE_AS_SENDER = 1  # of probes of edges that do not point; these two are read together
    EDGE_AS_RECEIVER = 2
    OTHER = 3


class Decoder(eqx.Module):
    """The Linears of one probe, by what they read."""

    on_nodes: tuple[Linear, ...]  # [x || hidden || next hidden] of every node
    on_edges: tuple[Linear, ...]  # the encoded edges, and beside them the processor's edge latents if it has any
    on_pooled: tuple[Linear, ...]  # the maximum of the node features over the nodes
    on_graph: tuple[Linear, ...]  # the encoded graph
    score: Linear | None  # weighs how a pointer's two ends compare

    def __init__(self, probe: Probe, hidden_size: int, edge_size: int, *, key: PRNGKeyArray):
        pointing = points(probe)
        width = probe.num_classes or 1
        match probe.location:
            case Location.NODE:
                nodes, edges, graph = ([hidden_size] * 2, [hidden_size], []) if pointing else ([width], [], [])
            case Location.EDGE:
                nodes, edges, graph = ([hidden_size] * 3, [hidden_size], []) if pointing else ([width] * 2, [width], [])
            case Location.GRAPH:
                nodes, edges, graph = ([1] if pointing else [], [], [width])
            case _:
                assert_never(probe.location)
        keys = iter(jax.random.split(key, len(nodes) + len(edges) + 2 * len(graph) + 1))

        def linears(inputs: int, widths: list[int]) -> tuple[Linear, ...]:
            return tuple(Linear(inputs, outputs, key=next(keys)) for outputs in widths)

        self.on_nodes = linears(3 * hidden_size, nodes)
        self.on_edges = linears(edge_size, edges)
        self.on_pooled = linears(3 * hidden_size, graph)
        self.on_graph = linears(hidden_size, graph)
        self.score = Linear(hidden_size, 1, key=next(keys)) if pointing and not graph else None

    @property
    def node_readers(self) -> list[NodeReader]:
        """Who reads it, for every Linear of nodes."""
        if self.score is not None:
            return [NodeReader.POINTER for _ in self.on_nodes]
        if self.on_edges:
            return [NodeReader.EDGE_AS_SENDER, NodeReader.EDGE_AS_RECEIVER]
        return [NodeReader.OTHER for _ in self.on_nodes]


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

    def bind(self, spec: Spec, bases: Bases, row_columns: Mapping[str, int] | None = None) -> BoundDecoders:
        """The decoders for factored features. Linears that read the same are merged into one.

        `row_columns` says where the next step reads the values of probes, in the rows of nodes, if it reads any.
        """
        on_nodes, columns = self._on_nodes(bases)
        graph = self._graph_decoders(spec, bases, columns, row_columns)
        latent_sizes = (self.latent_size,) if self.latent_size else ()
        pointers: list[PointerDecoder | None] = []
        for name, decoder in self.by_probe.items():
            pointer = None
            if decoder.score is not None:
                own = (decoder.on_edges[0], decoder.score)
                pointer = PointerDecoder(spec[name], columns[name], *own, bases.edge, latent_sizes)
            pointers.append(pointer)
        together = {name: d.on_edges[0] for name, d in self.by_probe.items() if d.score is None and d.on_edges}
        kinds, on_edges = [spec[name].kind for name in together], list(together.values())
        return BoundDecoders(
            probes=tuple((name, spec[name]) for name in self.by_probe),
            columns=tuple(columns.values()),
            on_nodes=self._node_weights(on_nodes, len(bases.graph.directions)) or on_nodes,
            pointers=tuple(pointers),
            edges=EdgeDecoders(kinds, on_edges, self._num_pointer_columns, bases.edge, latent_sizes),
            graph=graph,
        )

    def _on_nodes(self, bases: Bases) -> tuple[MergedLinears, dict[str, tuple[int, ...]]]:
        """The Linears of nodes as one, and for every probe the columns at which its outputs begin."""
        decoders = self.by_probe.values()
        linears = [linear for decoder in decoders for linear in decoder.on_nodes]
        readers = [reader for decoder in decoders for reader in decoder.node_readers]
        hidden = (self.hidden_size, self.hidden_size)
        merged = merge(linears, bases.node, hidden, multiple_of=ALIGNMENT, groups=readers)
        starts = iter(merged.starts)
        columns = {name: tuple(next(starts) for _ in decoder.on_nodes) for name, decoder in self.by_probe.items()}
        return merged, columns

    def _node_weights(self, on_nodes: MergedLinears, num_graph_scalars: int) -> NodeWeights | None:
        """The Linears of nodes for a kernel, where one is in use and made for them."""
        merged = on_nodes.merged
        if merged is None or self.hidden_size != HIDDEN_SIZE or launch.mode() is not launch.Mode.FUSED:
            return None
        # The rows of nodes have the graph's scalars, too, which these Linears do not read.
        directions = jnp.pad(merged.basis.directions, ((0, num_graph_scalars), (0, 0)))
        return NodeWeights.of(directions, merged.basis.offset, merged.dense_weights)

    @property
    def _num_pointer_columns(self) -> int:
        """How many columns of the outputs of nodes are those of pointers, before all others."""
        return self.hidden_size * sum(len(d.on_nodes) for d in self.by_probe.values() if d.score is not None)

    def _graph_decoders(
        self,
        spec: Spec,
        bases: Bases,
        columns: Mapping[str, tuple[int, ...]],
        row_columns: Mapping[str, int] | None,
    ) -> GraphDecoders | RowReadout:
        """The decoders of the graph: a kernel, where it can make the rows of the next step, too."""
        decoders = self.by_probe.values()
        on_pooled = [linear for decoder in decoders for linear in decoder.on_pooled]
        on_graph = [linear for decoder in decoders for linear in decoder.on_graph]
        if row_columns is not None and self.hidden_size == HIDDEN_SIZE and launch.mode() is launch.Mode.FUSED:
            values = row_values(spec, columns, row_columns)
            if values is not None:
                return RowReadout(values, self._num_pointer_columns, bases, on_pooled, on_graph)
        return GraphDecoders(bases.node, tuple(on_pooled), merge(on_graph, bases.graph))
