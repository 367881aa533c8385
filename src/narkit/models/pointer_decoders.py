"""Decoders of pointers: how strongly every node, or every edge, points to every node.

With the Linears a, b and d of nodes and e of edges, of a pointer from node i to node p, and from edge (i, j) to node k:

    logit_ip  = w max(a_i, b_p + e_pi) + c
    logit_ijk = w max(a_i + b_j + e_ij, d_k) + c
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.models import triplets
from narkit.models.features import FoldedLinear
from narkit.models.layers import Linear
from narkit.spec import Kind, Location, Probe


def points(probe: Probe) -> bool:
    """Whether the values of a probe are nodes."""
    return probe.kind in (Kind.POINTER, Kind.PERMUTATION_POINTER)


class PointerDecoder(eqx.Module):
    """The decoder of a probe that points from nodes or from edges, bound to factored features."""

    probe: Probe = eqx.field(static=True)
    columns: tuple[int, ...] = eqx.field(static=True)  # where a, b (and d) begin in the outputs of nodes
    on_edges: FoldedLinear  # e
    score: Linear  # w and c

    def __call__(
        self,
        nodes: Float[Array, "batch node width"],
        edge_scalars: Float[Array, "batch node node scalar"],
        *edge_latents: Float[Array, "batch node node latent"],
    ) -> Float[Array, "batch node *node_or_nodes"]:
        """The logits. `nodes` are the outputs of all Linears of nodes."""
        width = self.score.weight.shape[0]
        of_nodes = [nodes[..., start : start + width] for start in self.columns]
        of_edges = self.on_edges(edge_scalars, *edge_latents)
        formula = _from_nodes if self.probe.location is Location.NODE else _from_edges
        return jax.vmap(lambda own, edge: formula(own, edge, self.score))(of_nodes, of_edges)


def _from_nodes(nodes: list[Array], edges: Array, score: Linear) -> Float[Array, "node node"]:
    """The logits of one sample."""
    first, second = nodes
    # The pointer from i to p is encoded on the edge (i, p) but decoded from (p, i), as in the reference.
    ends = jnp.maximum(first[:, None], jnp.swapaxes(second[:, None] + edges, 0, 1))
    return score(ends)[..., 0]


def _from_edges(nodes: list[Array], edges: Array, score: Linear) -> Float[Array, "node node node"]:
    """The logits of one sample."""
    first, second, third = nodes
    pairs = first[:, None] + second[None] + edges
    return triplets.edge_pointer_logits(pairs, third, score.weight[:, 0]) + score.bias
