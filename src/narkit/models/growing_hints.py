"""Hints that are fed back sharper, the more nodes there are.

A hint that names one of n nodes, a pointer or a mask of one node, is fed back as a softmax over them. One that is sharp
over 16 nodes is not over 64: with the same margin a larger part of it lies elsewhere, and over many steps what is fed
back fades. With the option `growing_hints` of a network its logits are multiplied, where they are fed back, by

    c_n = log n / log 16

as those of Triplet Edge Attention are by `scale="log"`. The loss sees the logits as they are, and the gradient through
what is fed back is that of the softmax without the factor. So in training, on 4 to 16 nodes, a network reads its hints
less sharp than it predicts them, and on larger graphs sharper.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, PyTree

from narkit.models.predictions import soften
from narkit.models.triplet_edge_attention import growth
from narkit.spec import Kind, Probe


def names_a_node(probe: Probe) -> bool:
    """Returns whether the logits of a probe are over nodes."""
    return probe.kind in (Kind.POINTER, Kind.MASK_ONE)


def soften_growing(probe: Probe, logits: Array, num_nodes: int) -> Array:
    """Returns the values that are fed back."""
    return soften(probe, growth(num_nodes) * logits if names_a_node(probe) else logits)


def with_gradient_of(soft: PyTree, values: PyTree) -> PyTree:
    """Returns the values, with the gradient of the soft ones."""
    return jax.tree.map(lambda s, v: s + jax.lax.stop_gradient(v - s), soft, values)
