"""Decoders of probes that do not point: scalars, masks and categoricals of edges and of the graph.

A logit of an edge adds what both ends and the edge itself give, and one of the graph is a Linear of the maximum over
the nodes and of the graph's features. (A logit of a node is a Linear of the node's features: see `bound_decoders`.)
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.models.features import Basis, Scalars
from narkit.models.layers import Linear, max_over_first
from narkit.models.merged_linears import MergedLinears


class EdgeDecoders(eqx.Module):
    """The decoders of all probes of edges that do not point, together."""

    on_edges: MergedLinears
    first: int = eqx.field(static=True)  # where what senders give begins in the outputs of nodes; receivers' is behind

    def __call__(
        self,
        nodes: Float[Array, "batch node width"],
        edge_scalars: Float[Array, "batch node node scalar"],
        *edge_latents: Float[Array, "batch node node latent"],
    ) -> list[Float[Array, "batch node node _"]]:
        """Returns the logits of every probe."""
        if self.on_edges.merged is None:
            return []
        width = sum(self.on_edges.widths)
        senders, receivers = (nodes[..., start : start + width] for start in (self.first, self.first + width))
        logits = senders[:, :, None] + receivers[:, None] + self.on_edges.merged(edge_scalars, *edge_latents)
        return self.on_edges.split(logits)


class GraphDecoders(eqx.Module):
    """The decoders of all probes of the graph."""

    node_features: Basis
    on_pooled: tuple[Linear, ...]  # of the maximum of nodes' features
    on_graph: MergedLinears

    def __call__(
        self,
        scalars: Scalars,
        hidden: Float[Array, "batch node hidden"],
        next_hidden: Float[Array, "batch node hidden"],
    ) -> list[Float[Array, "batch _"]]:
        """Returns the logits of every probe."""
        features = jnp.concatenate([self.node_features(scalars.node), hidden, next_hidden], axis=-1)
        pooled = jax.vmap(max_over_first)(features)
        from_graph = self.on_graph.split(self.on_graph(scalars.graph))
        return [linear(pooled) + graph for linear, graph in zip(self.on_pooled, from_graph, strict=True)]
