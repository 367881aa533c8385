"""Decoders in the time loop: from the scalars and hidden states of a step to logits and feedback.

All Linears of nodes are one product; its columns are shared out among the decoders of pointers, edges and nodes.
"""

from __future__ import annotations

from typing import assert_never

import equinox as eqx
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from narkit.fused.node_product import NodeWeights, node_product
from narkit.fused.triplet_messages import NarrowLatents
from narkit.loops.deferred_gradients import SAVED, stack_cotangent
from narkit.models.encoders import num_scalars
from narkit.models.features import EdgeFeatures, Scalars
from narkit.models.feedback import Feedback
from narkit.models.merged_linears import MergedLinears
from narkit.models.pointer_decoders import PointerDecoder, points
from narkit.models.value_decoders import EdgeDecoders, GraphDecoders, RowReadout
from narkit.spec import Kind, Location, Probe


class BoundDecoders(eqx.Module):
    """Decoders that read scalars and hidden states. Made by `Decoders.bind`."""

    probes: tuple[tuple[str, Probe], ...] = eqx.field(static=True)
    columns: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # where outputs of nodes begin that are a probe's
    on_nodes: MergedLinears | NodeWeights  # for a kernel, where one is in use and made for them
    pointers: tuple[PointerDecoder | None, ...]  # of probes that point from nodes or edges
    edges: EdgeDecoders  # of other probes of edges
    graph: GraphDecoders | RowReadout

    @property
    def decoded_together(self) -> tuple[str, ...]:
        """The probes of edges that do not point."""
        return tuple(name for name, probe in self.probes if probe.location is Location.EDGE and not points(probe))

    def __call__(
        self,
        scalars: Scalars,
        hidden: Float[Array, "batch node hidden"],
        next_hidden: Float[Array, "batch node hidden"],
        edge_latents: Float[Array, "batch node node latent"] | NarrowLatents | None,
        *,
        soften: bool = False,
    ) -> tuple[dict[str, Array], Feedback]:
        """The logits of every decoded probe for a batch at one step, and those parts of the feedback that kernels make.

        Without `soften` nothing is fed back as probabilities, and the feedback is empty.
        """
        if isinstance(self.on_nodes, NodeWeights):
            nodes = node_product(scalars.rows, (hidden, next_hidden), self.on_nodes)
        else:
            nodes = self.on_nodes(scalars.node, hidden, next_hidden)
        if any(decoder is not None and decoder.is_fused for decoder in (self.graph, *self.pointers)):
            # Backward the kernels read them again, and their cotangent is a factor of gradients.
            nodes = checkpoint_name(stack_cotangent(nodes), SAVED)
        edges = EdgeFeatures.of(scalars.edge, edge_latents)
        rows, graph_logits = self.graph(nodes, scalars, hidden, next_hidden)
        edge_logits, edges_together = self.edges(nodes, edges)
        of_edges, of_graph = iter(edge_logits), iter(graph_logits)
        logits, of_pointers = {}, {}
        for (name, probe), columns, pointer in zip(self.probes, self.columns, self.pointers, strict=True):
            if pointer is not None:
                logits[name], softened = pointer(nodes, edges, soften)
                if softened is not None:
                    of_pointers[name] = softened
                continue
            match probe.location:
                case Location.NODE:
                    values = nodes[..., columns[0] : columns[0] + num_scalars(probe)]
                case Location.EDGE:
                    values = next(of_edges)
                case Location.GRAPH:
                    values = next(of_graph)
                case _:
                    assert_never(probe.location)
            if points(probe):  # from the graph
                logits[name] = values + nodes[..., columns[0]]
            else:
                logits[name] = values if probe.kind is Kind.CATEGORICAL else values[..., 0]
        return logits, Feedback(rows, of_pointers, edges_together) if soften else Feedback()
