"""Decoders of pointers: they predict how strongly every node, or every edge, points to every node.

With the Linears a, b and d of nodes and e of edges, of a pointer from node i to node p, and from edge (i, j) to node k:

    logit_ip  = w max(a_i, b_p + e_pi) + c
    logit_ijk = w max(a_i + b_j + e_ij, d_k) + c

Options of `narkit.Reasoner` add to this. A pointer P from nodes is read as a feature of the edge ip, but decoded from
the edge pi alone, so that to keep it a node has to find p again by its content. With `node_pointers="both"` another
Linear e' sees the edge ip, and with `keep_pointers` the logits get the pointers q that were read, each times a gate of
the node:

    logit_ip = w max(a_i, b_p + e_pi + e'_ip) + c + sum_q gamma_i,q P_ip,q

For pointers from edges, see `edge_pointers`.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.models import triplets
from narkit.models.features import FoldedLinear
from narkit.models.layers import Linear
from narkit.spec import Kind, Location, Probe


def points(probe: Probe) -> bool:
    """Returns whether the values of a probe are nodes."""
    return probe.kind in (Kind.POINTER, Kind.PERMUTATION_POINTER)


class PointerDecoder(eqx.Module):
    """The decoder of a probe that points from nodes or from edges, bound to factored features."""

    probe: Probe = eqx.field(static=True)
    columns: tuple[int, ...] = eqx.field(static=True)  # where a, b (and d) begin in the outputs of nodes
    on_edges: FoldedLinear  # e
    score: Linear  # w and c
    on_reverse: FoldedLinear | None = None  # e', of a pointer from nodes that is decoded from both directions

    def __call__(
        self,
        nodes: Float[Array, "batch node width"],
        edge_scalars: Float[Array, "batch node node scalar"],
        *edge_latents: Float[Array, "batch node node latent"],
    ) -> Float[Array, "batch node *node_or_nodes"]:
        """Returns the logits. `nodes` are the outputs of all Linears of nodes."""
        width = self.score.weight.shape[0]
        of_nodes = [nodes[..., start : start + width] for start in self.columns]
        of_edges = self.on_edges(edge_scalars, *edge_latents)
        if self.on_reverse is not None:
            of_edges = of_edges + jnp.swapaxes(self.on_reverse(edge_scalars, *edge_latents), 1, 2)
        formula = _from_nodes if self.probe.location is Location.NODE else _from_edges
        return jax.vmap(lambda own, edge: formula(own, edge, self.score))(of_nodes, of_edges)


class KeptPointers(eqx.Module):
    """The terms that pointers which were read add to the logits of a pointer from nodes."""

    on_nodes: FoldedLinear  # the gates gamma
    columns: tuple[int, ...] = eqx.field(static=True)  # where the pointers are among the scalars of an edge

    def __call__(
        self, nodes: Sequence[Float[Array, "batch node _"]], edge_scalars: Float[Array, "batch node node scalar"]
    ) -> Float[Array, "batch node node"]:
        """Returns the terms. `nodes` is what Linears of nodes read."""
        pointers = jnp.stack([edge_scalars[..., column] for column in self.columns], axis=-1)
        return jnp.sum(self.on_nodes(*nodes)[:, :, None] * pointers, axis=-1)


def _from_nodes(nodes: list[Array], edges: Array, score: Linear) -> Float[Array, "node node"]:
    """Returns the logits of one sample."""
    first, second = nodes
    # The pointer from i to p is encoded on the edge (i, p) but decoded from (p, i), as in the reference.
    ends = jnp.maximum(first[:, None], jnp.swapaxes(second[:, None] + edges, 0, 1))
    return score(ends)[..., 0]


def _from_edges(nodes: list[Array], edges: Array, score: Linear) -> Float[Array, "node node node"]:
    """Returns the logits of one sample."""
    first, second, third = nodes
    pairs = first[:, None] + second[None] + edges
    return triplets.edge_pointer_logits(pairs, third, score.weight[:, 0]) + score.bias
