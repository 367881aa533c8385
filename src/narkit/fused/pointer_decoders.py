"""Decoders of pointers in fused kernels, which give what the next step reads of a pointer along with its logits.

The formulas are those of `narkit.models.pointer_decoders`.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from narkit.fused.edge_features import EdgeFeatures
from narkit.fused.edge_pointer import edge_pointer_logits, edge_pointer_logits_and_means
from narkit.fused.latent_pointer import (
    Fragments,
    LatentPointerWeights,
    latent_pointer_logits,
    latent_pointer_logits_and_softmax,
)
from narkit.fused.pointer import PointerWeights, pointer_logits, pointer_logits_and_softmax
from narkit.models.features import Basis, FoldedLinear, fold
from narkit.models.layers import Linear
from narkit.spec import Kind, Location, Probe


class FusedPointerDecoder(eqx.Module):
    """The decoder of a probe that points from nodes or from edges, bound to factored features."""

    probe: Probe = eqx.field(static=True)
    columns: tuple[int, ...] = eqx.field(static=True)  # where a, b (and d) begin in the outputs of nodes
    on_edges: FoldedLinear  # e
    score: Linear  # w and c
    fragments: Fragments | None  # the weight of edge latents as kernels read it, if one does

    @classmethod
    def of(
        cls,
        probe: Probe,
        columns: tuple[int, ...],
        on_edges: Linear,
        score: Linear,
        basis: Basis,
        latent_sizes: tuple[int, ...],
    ) -> FusedPointerDecoder:
        folded = fold(on_edges, basis, latent_sizes)
        has_kernel = bool(latent_sizes) and probe.location is Location.NODE
        fragments = Fragments.of(folded.dense_weights[0]) if has_kernel else None
        return cls(probe, columns, folded, score, fragments)

    def __call__(
        self,
        nodes: Float[Array, "batch node width"],
        edges: EdgeFeatures,
        soften: bool,
        of_edges: Float[Array, "batch node node hidden"] | None = None,
    ) -> tuple[Array, Float[Array, "batch node node _"] | None]:
        """The logits, and the scalars that the next step reads if `soften` asks for them and a kernel makes them.

        `nodes` are the outputs of all Linears of nodes; `of_edges` is e, if it has been made already.
        """
        if self.probe.location is Location.EDGE:
            arguments = self._arguments(nodes, edges, of_edges)
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

    def _arguments(self, nodes: Array, edges: EdgeFeatures, of_edges: Array | None = None) -> tuple[Any, ...]:
        """What the kernels of pointers take: from nodes with two columns, from edges with three."""
        basis, score = self.on_edges.basis, self.score.weight[:, 0]
        if edges.latents:  # edges that are no sum of few directions
            features = self.on_edges(edges.scalars, *edges.latents) if of_edges is None else of_edges
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
