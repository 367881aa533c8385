"""Decoders in fused kernels, from the parameters of the plain ones.

Beside the logits the kernels make what the next step reads of the hints (`Feedback`), at no cost: the maximum that a
pointer is scored by is never written, and neither are probabilities that are only read again.
"""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.edge_features import EdgeFeatures
from narkit.fused.narrow_latents import NarrowLatents
from narkit.fused.node_product import NodeWeights, node_product
from narkit.fused.pointer_decoders import FusedPointerDecoder
from narkit.fused.value_decoders import FusedEdgeDecoders, RowReadout, row_values
from narkit.fused.whole_pointers import FusedEdgePointerDecoder, WholePointers
from narkit.loops.deferred_gradients import keep_values, stack_cotangent
from narkit.models.bound_decoders import Probes, decoded_together, logits_by_probe
from narkit.models.decoders import Decoders
from narkit.models.features import Bases, Scalars
from narkit.models.feedback import Feedback
from narkit.models.merged_linears import merge
from narkit.models.value_decoders import GraphDecoders
from narkit.spec import Spec


class FusedDecoders(eqx.Module):
    """Decoders that read scalars and hidden states. Made by `bind_decoders`."""

    probes: Probes = eqx.field(static=True)
    columns: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # where outputs of nodes begin that are a probe's
    on_nodes: NodeWeights | None  # None if there are no probes
    pointers: tuple[FusedPointerDecoder | None, ...]  # of probes that point from nodes or edges
    edges: FusedEdgeDecoders  # of other probes of edges
    graph: GraphDecoders | RowReadout
    edge_pointers: tuple[FusedEdgePointerDecoder | None, ...]  # what logits of edge pointers get that are read whole

    @property
    def decoded_together(self) -> tuple[str, ...]:
        return decoded_together(self.probes)

    def __call__(
        self,
        scalars: Scalars,
        hidden: Float[Array, "batch node hidden"],
        next_hidden: Float[Array, "batch node hidden"],
        edge_latents: Float[Array, "batch node node latent"] | NarrowLatents | None,
        whole: WholePointers,
        *,
        soften: bool = False,
    ) -> tuple[dict[str, Array], Feedback]:
        """Returns the logits of every decoded probe for a batch at one step, and the feedback that kernels make.

        Without `soften` nothing is fed back as probabilities, and the feedback is empty.
        """
        nodes = self._nodes(scalars, hidden, next_hidden)
        edges = EdgeFeatures.of(scalars.edge, edge_latents)
        if isinstance(self.graph, RowReadout):
            rows, graph_logits = self.graph(nodes, scalars, hidden, next_hidden)
        else:
            rows, graph_logits = None, self.graph(scalars, hidden, next_hidden)
        edge_logits, edges_together = self.edges(nodes, edges)
        of_pointers = {}

        def from_pointer(i: int) -> Array:
            decoder = self.pointers[i]
            assert decoder is not None
            further = self.edge_pointers[i]
            if further is not None:  # what is fed back is made of the sum of both
                usual, others = further.read_edges(edges)
                logits, _ = decoder(nodes, edges, soften=False, of_edges=usual)
                return logits + further(scalars.rows, (hidden, next_hidden), others, whole)
            logits, softened = decoder(nodes, edges, soften)
            if softened is not None:
                of_pointers[self.probes[i][0]] = softened
            return logits

        logits = logits_by_probe(self.probes, self.columns, nodes, edge_logits, graph_logits, from_pointer)
        return logits, Feedback(rows, of_pointers, edges_together) if soften else Feedback()

    def _nodes(self, scalars: Scalars, hidden: Array, next_hidden: Array) -> Float[Array, "batch node width"]:
        """Returns the outputs of all Linears of nodes."""
        if self.on_nodes is None:
            nodes = jnp.zeros((*hidden.shape[:-1], 0))
        else:
            nodes = node_product(scalars.rows, (hidden, next_hidden), self.on_nodes)
        if isinstance(self.graph, RowReadout) or any(decoder is not None for decoder in self.pointers):
            # Backward the kernels read them again, and their cotangent is a factor of gradients.
            nodes = keep_values(stack_cotangent(nodes))
        return nodes


def bind_decoders(
    decoders: Decoders, spec: Spec, bases: Bases, row_columns: Mapping[str, int] | None = None
) -> FusedDecoders:
    """Returns the decoders for factored features.

    `row_columns` says where the next step reads the values of probes, in the rows of nodes, if it reads any.
    """
    on_nodes, columns = decoders.on_nodes(bases)
    merged = on_nodes.merged
    values = None if row_columns is None else row_values(spec, columns, row_columns)
    if values is not None:  # a kernel makes the rows of the next step, too
        graph = RowReadout.of(values, decoders, bases)
    else:
        graph = GraphDecoders(bases.node, decoders.on_pooled, merge(decoders.on_graph, bases.graph))
    pointers = tuple(
        FusedPointerDecoder.of(spec[name], columns[name], decoder, bases.edge, decoders.latent_sizes)
        for name, decoder in decoders.by_probe.items()
    )
    probes = tuple((name, spec[name]) for name in decoders.by_probe)
    kinds = tuple(spec[name].kind for name in decoded_together(probes))
    return FusedDecoders(
        probes=probes,
        columns=tuple(columns.values()),
        on_nodes=None if merged is None else NodeWeights.beside_graph(merged, len(bases.graph.directions)),
        pointers=pointers,
        edges=FusedEdgeDecoders(decoders.on_edges(spec, bases), kinds, decoders.num_pointer_columns),
        graph=graph,
        edge_pointers=tuple(
            FusedEdgePointerDecoder.of(decoder, bases, decoders.hidden_size, decoders.latent_sizes)
            for decoder in decoders.by_probe.values()
        ),
    )
