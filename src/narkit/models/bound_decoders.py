"""Decoders in the time loop: they map the scalars and hidden states of a step to logits.

All Linears of nodes are one product; its columns are shared out among the decoders of pointers, edges and nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

import equinox as eqx
from jaxtyping import Array, Float

from narkit.models.edge_pointers import BoundEdgePointerDecoder, Pointers
from narkit.models.encoders import num_scalars
from narkit.models.features import Scalars
from narkit.models.merged_linears import MergedLinears
from narkit.models.pointer_decoders import KeptPointers, PointerDecoder, points
from narkit.models.value_decoders import EdgeDecoders, GraphDecoders
from narkit.spec import Kind, Location, Probe

Probes = tuple[tuple[str, Probe], ...]
NO_POINTERS: Mapping[str, Array] = {}


class BoundDecoders(eqx.Module):
    """Decoders that read scalars and hidden states. Made by `Decoders.bind`."""

    probes: Probes = eqx.field(static=True)
    columns: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # where outputs of nodes begin that are a probe's
    on_nodes: MergedLinears
    pointers: tuple[PointerDecoder | None, ...]  # of probes that point from nodes or edges
    edges: EdgeDecoders  # of other probes of edges
    graph: GraphDecoders
    # For every probe what the logits of a pointer get where options of the interfaces are on.
    kept: tuple[KeptPointers | None, ...]
    edge_pointers: tuple[BoundEdgePointerDecoder | None, ...]

    def __call__(
        self,
        scalars: Scalars,
        hidden: Float[Array, "batch node hidden"],
        next_hidden: Float[Array, "batch node hidden"],
        edge_latents: Float[Array, "batch node node latent"] | None,
        pointers: Pointers = NO_POINTERS,
        attention: Float[Array, "batch node node node"] | None = None,
    ) -> dict[str, Array]:
        """Returns the logits of every decoded probe for a batch at one step.

        Where edge pointers are read whole, `pointers` are those and `attention` the processor's, if it has one.
        """
        nodes = self.on_nodes(scalars.node, hidden, next_hidden)
        edges = (scalars.edge,) if edge_latents is None else (scalars.edge, edge_latents)
        graph_logits = self.graph(scalars, hidden, next_hidden)
        edge_logits = self.edges(nodes, *edges)

        def from_pointer(i: int) -> Array:
            decoder = self.pointers[i]
            assert decoder is not None
            logits = decoder(nodes, *edges)
            if (kept := self.kept[i]) is not None:
                logits = logits + kept((scalars.node, hidden, next_hidden), scalars.edge)
            if (edge_pointer := self.edge_pointers[i]) is not None:
                logits = logits + edge_pointer((scalars.node, hidden, next_hidden), edges, pointers, attention)
            return logits

        return logits_by_probe(self.probes, self.columns, nodes, edge_logits, graph_logits, from_pointer)


def logits_by_probe(
    probes: Probes,
    columns: Sequence[tuple[int, ...]],
    nodes: Float[Array, "batch node width"],
    edge_logits: Iterable[Array],
    graph_logits: Iterable[Array],
    from_pointer: Callable[[int], Array],
) -> dict[str, Array]:
    """Shares logits out among the probes: those of nodes by columns, the others in order.

    `from_pointer(i)` gives the logits of the i-th probe, if it points from nodes or edges.
    """
    of_edges, of_graph = iter(edge_logits), iter(graph_logits)
    logits = {}
    for i, ((name, probe), own) in enumerate(zip(probes, columns, strict=True)):
        if points(probe) and probe.location is not Location.GRAPH:
            logits[name] = from_pointer(i)
            continue
        match probe.location:
            case Location.NODE:
                values = nodes[..., own[0] : own[0] + num_scalars(probe)]
            case Location.EDGE:
                values = next(of_edges)
            case Location.GRAPH:
                values = next(of_graph)
            case _:
                assert_never(probe.location)
        if points(probe):  # from the graph
            logits[name] = values + nodes[..., own[0]]
        else:
            logits[name] = values if probe.kind is Kind.CATEGORICAL else values[..., 0]
    return logits


def decoded_together(probes: Probes) -> tuple[str, ...]:
    """Returns the probes of edges that do not point: their logits are parts of one array."""
    return tuple(name for name, probe in probes if probe.location is Location.EDGE and not points(probe))
