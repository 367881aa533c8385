"""The features of edges that fused decoders read."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Float

from narkit.fused.narrow_latents import MOST_FEATURES, NarrowLatents


class EdgeFeatures(NamedTuple):
    """Factored features of edges and, behind them, the latents of a processor that has any."""

    scalars: Float[Array, "batch node node scalar"]
    latents: tuple[Float[Array, "batch node node latent"], ...]
    narrow_latents: NarrowLatents | None  # the same latents as kernels read them

    @classmethod
    def of(
        cls,
        scalars: Float[Array, "batch node node scalar"],
        latents: Float[Array, "batch node node latent"] | NarrowLatents | None,
    ) -> EdgeFeatures:
        if isinstance(latents, NarrowLatents):  # wide ones are computed only where something reads them
            has_kernels = 1 <= latents.features.shape[-1] <= MOST_FEATURES
            return cls(scalars, (latents.wide(),), latents if has_kernels else None)
        return cls(scalars, () if latents is None else (latents,), None)
