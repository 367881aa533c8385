"""Edge latents by the few numbers that they are made of: `ReLU(m O + o)`, from those m of an edge to the hidden size.

Kernels that read such latents make them themselves (`latent_pointer`, `edge_readout`), so nothing of the size n^2 times
hidden is written. Triplet-GMPNN's m are the maxima of its triplets, eight per edge.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import Array, Float

from narkit.fused.edge_product import edge_product
from narkit.fused.narrow_product import MOST_SUMMED, narrow_product
from narkit.loops.deferred_gradients import keep_values

MOST_FEATURES = 48
"""Kernels hold them in registers; latents of more features are read as plain arrays."""


class NarrowLatents(NamedTuple):
    """Edge latents `ReLU(m O + o)` by what they are made of."""

    features: Float[Array, "sample node node feature"]  # m
    weight: Float[Array, "feature hidden"]  # O
    bias: Float[Array, " hidden"]  # o

    def wide(self) -> Float[Array, "sample node node hidden"]:
        """Returns the latents themselves, in float32: features may be numbers that are compared with each other."""
        if self.features.shape[-1] <= MOST_SUMMED:
            return jax.nn.relu(narrow_product(self.features, self.weight) + self.bias)
        product = edge_product(self.features, self.weight, jax.lax.Precision.HIGHEST)
        return jax.nn.relu(keep_values(product + self.bias))
