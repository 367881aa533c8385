"""Decoders of pointers: how strongly every node, or every edge, points to every node.

With the Linears a, b and d of nodes and e of edges, of a pointer from node i to node p, and from edge (i, j) to node k:

    logit_ip  = w max(a_i, b_p + e_pi) + c
    logit_ijk = w max(a_i + b_j + e_ij, d_k) + c

The maximum is wide, one vector per pair or triplet of nodes. Fused kernels (`narkit.fused`) never write it, and
give what the next step reads of the pointer along with the logits.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused import launch
from narkit.fused.edge_pointer import edge_pointer_logits, edge_pointer_logits_and_means
from narkit.fused.latent_pointer import (
    Fragments,
    LatentPointerWeights,
    latent_pointer_logits,
    latent_pointer_logits_and_softmax,
)
from narkit.fused.pointer import PointerWeights, pointer_logits, pointer_logits_and_softmax
from narkit.fused.weights import HIDDEN_SIZE
from narkit.models import triplets
from narkit.models.features import Basis, EdgeFeatures, FoldedLinear, fold
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
    fragments: Fragments | None  # the weight of edge latents as kernels read it, if one does

    def __init__(
        self,
        probe: Probe,
        columns: tuple[int, ...],
        on_edges: Linear,
        score: Linear,
        basis: Basis,
        latent_sizes: tuple[int, ...],
    ):
        self.probe, self.columns, self.score = probe, columns, score
        self.on_edges = fold(on_edges, basis, latent_sizes)
        has_kernel = bool(latent_sizes) and probe.location is Location.NODE and self.is_fused
        self.fragments = Fragments.of(self.on_edges.dense_weights[0]) if has_kernel else None

    @property
    def is_fused(self) -> bool:
        """Whether a fused kernel decodes it."""
        return self.score.weight.shape[0] == HIDDEN_SIZE and launch.mode() is launch.Mode.FUSED

    def __call__(
        self, nodes: Float[Array, "batch node width"], edges: EdgeFeatures, soften: bool
    ) -> tuple[Array, Float[Array, "batch node node _"] | None]:
        """The logits, and the scalars that the next step reads if `soften` asks for them and a kernel makes them.

        `nodes` are the outputs of all Linears of nodes.
        """
        if not self.is_fused:
            return self._plain_logits(nodes, edges), None
        if self.probe.location is Location.EDGE:
            arguments = self._arguments(nodes, edges)
            return edge_pointer_logits_and_means(*arguments) if soften else (edge_pointer_logits(*arguments), None)
        if edges.narrow_latents is not None and self.fragments is not None:
            arguments = self._latent_arguments(nodes, edges, self.fragments)
            of_logits, of_both = latent_pointer_logits, latent_pointer_logits_and_softmax
        else:
            arguments = self._arguments(nodes, edges)
            of_logits, of_both = pointer_logits, pointer_logits_and_softmax
        if not soften or self.probe.kind is not Kind.POINTER:  # the values of permutations are no softmax
            return of_logits(*arguments), None
        logits, probabilities = of_both(*arguments)
        return logits, probabilities[..., None]

    def _arguments(self, nodes: Array, edges: EdgeFeatures) -> tuple[Any, ...]:
        """What the kernels of pointers take: from nodes with two columns, from edges with three."""
        basis, score = self.on_edges.basis, self.score.weight[:, 0]
        if edges.latents:  # edges that are no sum of few directions
            features = self.on_edges(edges.scalars, *edges.latents)
            return nodes, *self.columns, features, PointerWeights(None, score, self.score.bias)
        weights = PointerWeights((basis.directions, basis.offset), score, self.score.bias)
        return nodes, *self.columns, edges.scalars, weights

    def _latent_arguments(self, nodes: Array, edges: EdgeFeatures, fragments: Fragments) -> tuple[Any, ...]:
        """What the kernel takes that makes edge latents itself."""
        basis, score = self.on_edges.basis, self.score
        weights = LatentPointerWeights(
            basis.directions,
            basis.offset,
            self.on_edges.dense_weights[0],
            score.weight[:, 0],
            score.bias,
            fragments,
        )
        return nodes, *self.columns, edges.scalars, edges.narrow_latents, weights

    def _plain_logits(self, nodes: Array, edges: EdgeFeatures) -> Array:
        width = self.score.weight.shape[0]
        of_nodes = [nodes[..., start : start + width] for start in self.columns]
        of_edges = self.on_edges(edges.scalars, *edges.latents)
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
