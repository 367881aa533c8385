"""Decoders: they map the features of a step to the logits of probes.

A network has a decoder per predicted probe, each made of a few Linears. Before the time loop they are bound to factored
features: sorted by what they read, so that one product serves all that read the same, and by what they decode.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from narkit.models.bound_decoders import BoundDecoders
from narkit.models.edge_pointers import EdgePointerDecoder, is_edge_pointer
from narkit.models.encoders import edge_columns
from narkit.models.features import Bases, fold
from narkit.models.interfaces import EdgePointers, Interfaces, NodePointers
from narkit.models.layers import Linear
from narkit.models.merged_linears import ALIGNMENT, MergedLinears, merge
from narkit.models.pointer_decoders import KeptPointers, PointerDecoder, points
from narkit.models.value_decoders import EdgeDecoders, GraphDecoders
from narkit.spec import Kind, Location, Probe, Spec

EDGE_VALUES = (Kind.SCALAR, Kind.MASK, Kind.CATEGORICAL)
"""The kinds that values of edges may have."""


class NodeReader(enum.IntEnum):
    """The readers of outputs of nodes, in the order of their columns."""

    POINTER = 0  # first: in a node's row its columns begin where memory is aligned
    EDGE_AS_SENDER = 1  # of probes of edges that do not point; these two are read together
    EDGE_AS_RECEIVER = 2
    OTHER = 3


@dataclass(frozen=True)
class Surroundings:
    """The rest of a network as far as decoders of pointers depend on it, where options of its interfaces are on."""

    interfaces: Interfaces = field(default_factory=Interfaces)
    encoded: Spec = field(default_factory=dict)  # the probes that the network reads
    attends: bool = False  # whether its processor has an attention over third nodes

    @property
    def node_pointers(self) -> list[str]:
        """The pointers from nodes that the network reads."""
        return sorted(n for n, probe in self.encoded.items() if probe.location is Location.NODE and points(probe))

    @property
    def edge_pointers(self) -> list[str]:
        """The pointers from edges that the network reads."""
        return sorted(name for name, probe in self.encoded.items() if is_edge_pointer(probe))


USUAL = Surroundings()


class Decoder(eqx.Module):
    """The Linears of one probe, by what they read."""

    on_nodes: tuple[Linear, ...]  # [x || hidden || next hidden] of every node
    on_edges: tuple[Linear, ...]  # the encoded edges, and beside them the processor's edge latents if it has any
    on_pooled: tuple[Linear, ...]  # the maximum of the node features over the nodes
    on_graph: tuple[Linear, ...]  # the encoded graph
    score: Linear | None  # weighs how a pointer's two ends compare
    # What options of the interfaces add; None where they are off, or do not concern the probe.
    on_reverse: Linear | None  # as on_edges, of the edge in the direction in which a node's pointer is read
    keep: Linear | None  # as on_nodes: gates of the pointers from nodes that are read
    edge_pointer: EdgePointerDecoder | None

    def __init__(
        self, probe: Probe, hidden_size: int, edge_size: int, surroundings: Surroundings = USUAL, *, key: PRNGKeyArray
    ):
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

        interfaces = surroundings.interfaces
        further = jax.random.fold_in(key, 1)  # so that options leave the others as they are
        from_node = pointing and probe.location is Location.NODE
        self.on_reverse = self.keep = self.edge_pointer = None
        if from_node and interfaces.node_pointers is NodePointers.BOTH:
            self.on_reverse = Linear(edge_size, hidden_size, key=further)
        if from_node and interfaces.keep_pointers and surroundings.node_pointers:
            self.keep = _closed(3 * hidden_size, len(surroundings.node_pointers))
        if is_edge_pointer(probe) and interfaces.edge_pointers is EdgePointers.LOSSLESS:
            read, attends = surroundings.edge_pointers, surroundings.attends
            self.edge_pointer = EdgePointerDecoder(hidden_size, edge_size, read, attends, key=further)

    @property
    def node_readers(self) -> list[NodeReader]:
        """The reader of the outputs of every Linear of nodes."""
        if self.score is not None:
            return [NodeReader.POINTER for _ in self.on_nodes]
        if self.on_edges:
            return [NodeReader.EDGE_AS_SENDER, NodeReader.EDGE_AS_RECEIVER]
        return [NodeReader.OTHER for _ in self.on_nodes]


def _closed(inputs: int, outputs: int) -> Linear:
    """Returns the Linear of gates that start closed."""
    linear = Linear(inputs, outputs, key=jax.random.key(0))
    return eqx.tree_at(lambda linear: linear.weight, linear, jnp.zeros_like(linear.weight))


class Decoders(eqx.Module):
    """A decoder per decoded probe."""

    by_probe: dict[str, Decoder]
    hidden_size: int = eqx.field(static=True)
    latent_size: int = eqx.field(static=True)

    def __init__(
        self, spec: Spec, hidden_size: int, latent_size: int, surroundings: Surroundings = USUAL, *, key: PRNGKeyArray
    ):
        """Builds decoders for every probe of `spec`. `latent_size`: the width of the processor's edge latents, or 0."""
        keys = jax.random.split(key, len(spec))
        by_probe = {
            name: Decoder(probe, hidden_size, hidden_size + latent_size, surroundings, key=k)
            for (name, probe), k in zip(spec.items(), keys, strict=True)
        }
        self.by_probe = dict(sorted(by_probe.items()))  # as encoders
        self.hidden_size = hidden_size
        self.latent_size = latent_size

    def bind(self, spec: Spec, bases: Bases, encoded: Sequence[str] = ()) -> BoundDecoders:
        """Returns the decoders for factored features. Linears that read the same are merged into one.

        `encoded` names the probes that the network reads, in the order of its encoders.
        """
        on_nodes, columns = self.on_nodes(bases)
        graph = GraphDecoders(bases.node, self.on_pooled, merge(self.on_graph, bases.graph))
        pointers = tuple(
            None
            if decoder.score is None
            else PointerDecoder(
                spec[name],
                columns[name],
                fold(decoder.on_edges[0], bases.edge, self.latent_sizes),
                decoder.score,
                None if decoder.on_reverse is None else fold(decoder.on_reverse, bases.edge, self.latent_sizes),
            )
            for name, decoder in self.by_probe.items()
        )
        hidden = (self.hidden_size, self.hidden_size)
        at = edge_columns(spec, encoded)
        of_pointers = tuple(at[name] for name in encoded if points(spec[name]) and spec[name].location is Location.NODE)
        return BoundDecoders(
            probes=tuple((name, spec[name]) for name in self.by_probe),
            columns=tuple(columns.values()),
            on_nodes=on_nodes,
            pointers=pointers,
            edges=EdgeDecoders(self.on_edges(spec, bases), self.num_pointer_columns),
            graph=graph,
            kept=tuple(
                None if decoder.keep is None else KeptPointers(fold(decoder.keep, bases.node, hidden), of_pointers)
                for decoder in self.by_probe.values()
            ),
            edge_pointers=tuple(
                None
                if decoder.edge_pointer is None
                else decoder.edge_pointer.bind(bases, self.hidden_size, self.latent_sizes)
                for decoder in self.by_probe.values()
            ),
        )

    def on_nodes(self, bases: Bases) -> tuple[MergedLinears, dict[str, tuple[int, ...]]]:
        """Returns the Linears of nodes as one, and for every probe the columns at which its outputs begin."""
        decoders = self.by_probe.values()
        linears = [linear for decoder in decoders for linear in decoder.on_nodes]
        readers = [reader for decoder in decoders for reader in decoder.node_readers]
        hidden = (self.hidden_size, self.hidden_size)
        merged = merge(linears, bases.node, hidden, multiple_of=ALIGNMENT, groups=readers)
        starts = iter(merged.starts)
        columns = {name: tuple(next(starts) for _ in decoder.on_nodes) for name, decoder in self.by_probe.items()}
        return merged, columns

    def on_edges(self, spec: Spec, bases: Bases) -> MergedLinears:
        """Returns the Linears of edges of the probes of edges that do not point, as one."""
        together = {name: d.on_edges[0] for name, d in self.by_probe.items() if d.score is None and d.on_edges}
        kinds = [spec[name].kind for name in together]
        if not set(kinds) <= set(EDGE_VALUES):
            raise ValueError(f"expected values of edges to be {', '.join(EDGE_VALUES)} or pointers, got {kinds}")
        return merge(list(together.values()), bases.edge, self.latent_sizes)

    @property
    def on_pooled(self) -> tuple[Linear, ...]:
        """The Linears of the probes of the graph that read the maximum over the nodes."""
        return tuple(linear for decoder in self.by_probe.values() for linear in decoder.on_pooled)

    @property
    def on_graph(self) -> tuple[Linear, ...]:
        """The Linears of the probes of the graph that read the encoded graph."""
        return tuple(linear for decoder in self.by_probe.values() for linear in decoder.on_graph)

    @property
    def latent_sizes(self) -> tuple[int, ...]:
        """The widths of the inputs that Linears of edges read after the encoded edges."""
        return (self.latent_size,) if self.latent_size else ()

    @property
    def num_pointer_columns(self) -> int:
        """The number of columns of the outputs of nodes that belong to pointers; they come before all others."""
        return self.hidden_size * sum(len(d.on_nodes) for d in self.by_probe.values() if d.score is not None)
