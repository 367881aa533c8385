"""Decoders of pointers in fused kernels, which give what the next step reads of a pointer along with its logits.

The formulas are those of `narkit.models.pointer_decoders`.
"""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from narkit.fused.edge_features import EdgeFeatures
from narkit.fused.edge_pointer import edge_pointer_logits, with_means
from narkit.fused.latent_pointer import Fragments, LatentPointerWeights, latent_pointer_logits
from narkit.fused.pointer import Options, PointerWeights, pointer_logits
from narkit.models.decoders import Decoder
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
        decoder: Decoder,
        basis: Basis,
        latent_sizes: tuple[int, ...],
    ) -> FusedPointerDecoder | None:
        """Returns None if the decoder is not that of a pointer."""
        if decoder.score is None:
            return None
        folded = fold(decoder.on_edges[0], basis, latent_sizes)
        has_kernel = bool(latent_sizes) and probe.location is Location.NODE
        fragments = Fragments.of(folded.dense_weights[0]) if has_kernel else None
        return cls(probe, columns, folded, decoder.score, fragments)

    def __call__(
        self,
        nodes: Float[Array, "batch node width"],
        edges: EdgeFeatures,
        soften: bool,
        of_edges: Float[Array, "batch node node hidden"] | None = None,
    ) -> tuple[Array, Float[Array, "batch node node _"] | None]:
        """Returns the logits and, if `soften` asks for them and a kernel makes them, the scalars of the next step.

        `nodes` are the outputs of all Linears of nodes; `of_edges` is e, if it has been made already.
        """
        if self.probe.location is Location.EDGE:
            logits = edge_pointer_logits(nodes, *self._read(edges, of_edges), self.columns)
            return with_means(logits) if soften else (logits, None)
        # The values of permutations are no softmax.
        options = Options(*self.columns, softmax=soften and self.probe.kind is Kind.POINTER)
        if edges.narrow_latents is not None and self.fragments is not None:
            basis, score = self.on_edges.basis, self.score
            latent = self.on_edges.dense_weights[0]
            weights = LatentPointerWeights(
                basis.directions, basis.offset, latent, score.weight[:, 0], score.bias, self.fragments
            )
            found = latent_pointer_logits(nodes, edges.scalars, edges.narrow_latents, weights, options)
        else:
            found = pointer_logits(nodes, *self._read(edges), options)
        return found[0], found[1][..., None] if options.softmax else None

    def _read(self, edges: EdgeFeatures, of_edges: Array | None = None) -> tuple[Array, PointerWeights]:
        """Returns what kernels read of edges: scalars or, if edges are no sum of few directions, their features."""
        basis, score = self.on_edges.basis, self.score.weight[:, 0]
        if edges.latents:
            features = self.on_edges(edges.scalars, *edges.latents) if of_edges is None else of_edges
            return features, PointerWeights(None, score, self.score.bias)
        return edges.scalars, PointerWeights((basis.directions, basis.offset), score, self.score.bias)
