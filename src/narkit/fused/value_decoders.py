"""Decoders of probes that do not point, in fused kernels.

Two kernels, `readout` and `edge_readout`, make of the logits what the next step reads: one the rows of nodes and the
graph, along with the logits of the graph, the other the scalars of edges, along with their logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.edge_features import EdgeFeatures
from narkit.fused.edge_product import edge_product
from narkit.fused.edge_readout import EdgeValue, EdgeValueKind, edge_readout
from narkit.fused.readout import ReadoutWeights, Value, ValueKind, readout
from narkit.models.decoders import Decoders
from narkit.models.encoders import num_scalars
from narkit.models.features import Bases, FoldedLinear, Scalars
from narkit.models.layers import concatenated, split_outputs
from narkit.models.merged_linears import MergedLinears
from narkit.models.value_decoders import EdgeDecoders
from narkit.spec import Kind, Location, Spec


class FusedEdgeDecoders(eqx.Module):
    """The decoders of all probes of edges that do not point, together."""

    on_edges: MergedLinears
    kinds: tuple[Kind, ...] = eqx.field(static=True)
    first: int = eqx.field(static=True)  # where what senders give begins in the outputs of nodes; receivers' is behind

    def __call__(
        self, nodes: Float[Array, "batch node width"], edges: EdgeFeatures
    ) -> tuple[list[Array], Float[Array, "batch node node scalar"] | None]:
        """Returns the logits of every probe, and what the next step reads of all of them if a kernel makes it."""
        linear = self.on_edges.merged
        if linear is None:
            return [], None
        if not edges.scalars.shape[-1]:  # kernels want a scalar
            return EdgeDecoders(self.on_edges, self.first)(nodes, edges.scalars, *edges.latents), None
        logits, scalars = self._in_kernel(nodes, edges, linear)
        return self.on_edges.split(logits), scalars

    def _in_kernel(self, nodes: Array, edges: EdgeFeatures, linear: FoldedLinear) -> tuple[Array, Array]:
        further: Any = None
        if edges.narrow_latents is not None:
            further = (edges.narrow_latents, linear.dense_weights[0])
        elif edges.latents:
            further = edge_product(edges.latents[0], linear.dense_weights[0])
        at = zip(self.on_edges.starts, self.on_edges.widths, strict=True)
        values = [EdgeValue(EdgeValueKind[kind.name], *columns) for kind, columns in zip(self.kinds, at, strict=True)]
        basis = linear.basis
        return edge_readout(nodes, self.first, edges.scalars, basis.directions, basis.offset, further, values)


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

    @classmethod
    def of(cls, values: Sequence[Value], decoders: Decoders, bases: Bases) -> RowReadout:
        widths = tuple(linear.bias.shape[0] for linear in decoders.on_graph)
        weights = None
        if decoders.on_graph:
            pooled, graph = concatenated(decoders.on_pooled), bases.graph.through(concatenated(decoders.on_graph))
            weight = jnp.concatenate([pooled.weight, graph.directions, (graph.offset + pooled.bias)[None]])
            weights = ReadoutWeights(bases.node.directions, bases.node.offset, weight)
        return cls(weights, tuple(values), decoders.num_pointer_columns, widths)

    def __call__(
        self,
        nodes: Float[Array, "batch node width"],
        scalars: Scalars,
        hidden: Float[Array, "batch node hidden"],
        next_hidden: Float[Array, "batch node hidden"],
    ) -> tuple[Float[Array, "batch node scalar"], list[Float[Array, "batch _"]]]:
        """Returns the rows of the next step, and the logits of every probe of the graph."""
        rows, logits = readout(nodes, scalars.rows, hidden, next_hidden, self.weights, self.values, self.first)
        return rows, [] if logits is None else split_outputs(logits, self.widths)


def row_values(spec: Spec, decoded: Mapping[str, tuple[int, ...]], columns: Mapping[str, int]) -> list[Value] | None:
    """Returns where the values in a node's row come from; None if there are none, or of a kind that no kernel makes.

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
