"""Decoders of probes that do not point: scalars, masks and categoricals of nodes, edges and the graph.

A logit of a node is a Linear of the node's features, one of an edge adds what both ends and the edge itself give, and
one of the graph is a Linear of the maximum over the nodes and of the graph's features.

On a GPU two kernels, `readout` and `edge_readout`, make of the logits what the next step reads: one the rows of nodes
and the graph, along with the logits of the graph, the other the scalars of edges, along with their logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused import launch
from narkit.fused.edge_readout import EdgeValue, EdgeValueKind, edge_readout
from narkit.fused.readout import ReadoutWeights, Value, ValueKind, readout
from narkit.models.encoders import num_scalars
from narkit.models.features import Bases, Basis, EdgeFeatures, FoldedLinear, Scalars
from narkit.models.layers import Linear, max_over_first, side_by_side, split_outputs
from narkit.models.merged_linears import MergedLinears, merge
from narkit.spec import Kind, Location, Spec

EDGE_VALUES = {
    Kind.SCALAR: EdgeValueKind.SCALAR,
    Kind.MASK: EdgeValueKind.MASK,
    Kind.CATEGORICAL: EdgeValueKind.CATEGORICAL,
}
"""What values of edges there are."""


class EdgeDecoders(eqx.Module):
    """The decoders of all probes of edges that do not point, together."""

    on_edges: MergedLinears
    kinds: tuple[Kind, ...] = eqx.field(static=True)
    first: int = eqx.field(static=True)  # where what senders give begins in the outputs of nodes; receivers' is behind

    def __init__(
        self, kinds: Sequence[Kind], on_edges: Sequence[Linear], first: int, basis: Basis, latent_sizes: Sequence[int]
    ):
        self.kinds = tuple(kinds)
        if not set(self.kinds) <= set(EDGE_VALUES):
            raise ValueError(f"expected values of edges to be {', '.join(EDGE_VALUES)} or pointers, got {self.kinds}")
        self.on_edges = merge(on_edges, basis, latent_sizes)
        self.first = first

    def __call__(
        self, nodes: Float[Array, "batch node width"], edges: EdgeFeatures
    ) -> tuple[list[Array], Float[Array, "batch node node scalar"] | None]:
        """The logits of every probe, and what the next step reads of all of them if a kernel makes it."""
        linear = self.on_edges.merged
        if linear is None:
            return [], None
        if edges.scalars.shape[-1] and launch.mode() is launch.Mode.FUSED:
            logits, scalars = self._fused(nodes, edges, linear)
            return self.on_edges.split(logits), scalars
        width = sum(self.on_edges.widths)
        senders, receivers = (nodes[..., start : start + width] for start in (self.first, self.first + width))
        logits = senders[:, :, None] + receivers[:, None] + linear(edges.scalars, *edges.latents)
        return self.on_edges.split(logits), None

    def _fused(self, nodes: Array, edges: EdgeFeatures, linear: FoldedLinear) -> tuple[Array, Array]:
        further: Any = None
        if edges.narrow_latents is not None:
            further = (edges.narrow_latents, linear.dense_weights[0])
        elif edges.latents:
            further = edges.latents[0] @ linear.dense_weights[0]
        at = zip(self.on_edges.starts, self.on_edges.widths, strict=True)
        values = [EdgeValue(EDGE_VALUES[kind], *columns) for kind, columns in zip(self.kinds, at, strict=True)]
        basis = linear.basis
        return edge_readout(nodes, self.first, edges.scalars, basis.directions, basis.offset, further, values)


class GraphDecoders(eqx.Module):
    """The decoders of all probes of the graph, by the plain formula."""

    node_features: Basis
    on_pooled: tuple[Linear, ...]  # of the maximum of nodes' features
    on_graph: MergedLinears
    is_fused: ClassVar[bool] = False

    def __call__(
        self,
        nodes: Float[Array, "batch node width"],
        scalars: Scalars,
        hidden: Float[Array, "batch node hidden"],
        next_hidden: Float[Array, "batch node hidden"],
    ) -> tuple[None, list[Float[Array, "batch _"]]]:
        """Nothing of the next step, and the logits of every probe. The outputs of nodes are not read."""
        features = jnp.concatenate([self.node_features(scalars.node), hidden, next_hidden], axis=-1)
        pooled = jax.vmap(max_over_first)(features)
        from_graph = self.on_graph.split(self.on_graph(scalars.graph))
        return None, [linear(pooled) + graph for linear, graph in zip(self.on_pooled, from_graph, strict=True)]


ROW_VALUES = {
    (Location.NODE, Kind.SCALAR): ValueKind.SCALAR,
    (Location.NODE, Kind.MASK): ValueKind.MASK,
    (Location.NODE, Kind.MASK_ONE): ValueKind.MASK_ONE,
    (Location.NODE, Kind.CATEGORICAL): ValueKind.CATEGORICAL,
    (Location.GRAPH, Kind.SCALAR): ValueKind.GRAPH_SCALAR,
    (Location.GRAPH, Kind.MASK): ValueKind.GRAPH_MASK,
    (Location.GRAPH, Kind.CATEGORICAL): ValueKind.GRAPH_CATEGORICAL,
}
"""What values of nodes' rows a kernel makes of logits."""


class RowReadout(eqx.Module):
    """The kernel that decodes all probes of the graph, and makes the rows of the next step of these and of nodes."""

    weights: ReadoutWeights | None  # without probes of the graph there are none
    values: tuple[Value, ...] = eqx.field(static=True)
    first: int = eqx.field(static=True)  # column of nodes' outputs from which on these are its
    widths: tuple[int, ...] = eqx.field(static=True)  # of the logits of the graph
    is_fused: ClassVar[bool] = True

    def __init__(
        self, values: Sequence[Value], first: int, bases: Bases, on_pooled: Sequence[Linear], on_graph: Sequence[Linear]
    ):
        self.values, self.first = tuple(values), first
        self.widths = tuple(linear.bias.shape[0] for linear in on_graph)
        self.weights = None
        if on_graph:
            pooled, graph = side_by_side(on_pooled), bases.graph.through(side_by_side(on_graph))
            weight = jnp.concatenate([pooled.weight, graph.directions, (graph.offset + pooled.bias)[None]])
            self.weights = ReadoutWeights(bases.node.directions, bases.node.offset, weight)

    def __call__(
        self,
        nodes: Float[Array, "batch node width"],
        scalars: Scalars,
        hidden: Float[Array, "batch node hidden"],
        next_hidden: Float[Array, "batch node hidden"],
    ) -> tuple[Float[Array, "batch node scalar"], list[Float[Array, "batch _"]]]:
        """The rows of the next step, and the logits of every probe of the graph."""
        rows, logits = readout(nodes, scalars.rows, hidden, next_hidden, self.weights, self.values, self.first)
        return rows, [] if logits is None else split_outputs(logits, self.widths)


def row_values(spec: Spec, decoded: Mapping[str, tuple[int, ...]], columns: Mapping[str, int]) -> list[Value] | None:
    """Where the values in a node's row come from; None if there are none, or of a kind that no kernel makes.

    `decoded` says for every decoded probe where its logits begin in the outputs of nodes, `columns` for every probe in
    a row where its values begin there.
    """
    found, of_graph = [], 0
    for name, own in decoded.items():
        probe = spec[name]
        if name in columns and (probe.location, probe.kind) not in ROW_VALUES:
            return None
        if name in columns:
            source = of_graph if probe.location is Location.GRAPH else own[0]
            found.append(Value(ROW_VALUES[probe.location, probe.kind], source, columns[name], num_scalars(probe)))
        of_graph += num_scalars(probe) if probe.location is Location.GRAPH else 0
    kept = [name for name in columns if name not in decoded]
    copied = [Value(ValueKind.COPY, 0, columns[name], num_scalars(spec[name])) for name in kept]
    return [*found, *copied] if found else None
