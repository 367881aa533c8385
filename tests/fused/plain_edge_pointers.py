"""The logits of edge pointers written plainly, and the kernels compared with them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit.fused.edge_pointer import edge_pointer_logits, with_means
from narkit.fused.pointer import PointerWeights
from narkit.fused.weights import HIDDEN_SIZE as H

from .plain_pointers import OF_GRADIENTS, TOLERANCE, assert_equal

FIRST, SECOND, THIRD, WIDTH = 2 * H + 7, 3, H + 5, 3 * H + 9  # where a, b and d stand in a row: apart, and not aligned


def plain(nodes: Array, edges: Array, weights: PointerWeights) -> Array:
    """`sum_h w_h max(a_i + b_j + e_ij, d_k)_h + bias`"""
    if weights.edges is not None:
        directions, offset = weights.edges
        edges = edges @ directions + offset
    a, b, d = (nodes[..., start : start + H] for start in (FIRST, SECOND, THIRD))
    pairs = a[:, :, None] + b[:, None] + edges
    highest = jnp.maximum(pairs[:, :, :, None], d[:, None, None])
    return jnp.sum(highest * weights.score, axis=-1) + weights.bias


def assert_equal_to_plain(
    seeds: int, samples: int, num_nodes: int, num_scalars: int | None, device: Any, *, ties: bool = False
) -> None:
    """Logits and gradients, by the kernels where JAX computes by default and plainly on a device.

    Without a number of scalars the features of edges are given in full. With ties all numbers are small and whole, so
    that sides are often equal, and nothing is rounded.
    """
    rng = np.random.default_rng(num_nodes)

    def draw(*shape: int) -> Array:
        values = rng.normal(size=(seeds, *shape))
        return jnp.asarray(np.round(values) if ties else values, jnp.float32)

    folded = None if num_scalars is None else (draw(num_scalars, H), draw(H))
    edges = draw(samples, num_nodes, num_nodes, H if num_scalars is None else num_scalars)
    arguments = (draw(samples, num_nodes, WIDTH), edges, PointerWeights(folded, draw(H), draw(1)))
    cotangent = draw(samples, num_nodes, num_nodes, num_nodes)

    def ours(nodes: Array, edges: Array, weights: PointerWeights) -> Array:
        return edge_pointer_logits(nodes, edges, weights, (FIRST, SECOND, THIRD))

    assert_equal(ours, plain, arguments, cotangent, device, TOLERANCE if ties else OF_GRADIENTS)

    def ours_with_means(nodes: Array, edges: Array, weights: PointerWeights) -> tuple[Array, Array]:
        return with_means(ours(nodes, edges, weights))

    def plain_with_means(*arguments: Any) -> tuple[Array, Array]:
        logits = plain(*arguments)
        probabilities = jax.nn.softmax(logits)
        return logits, jnp.stack([probabilities.mean(-3), probabilities.mean(-2)], axis=-1)

    cotangents = (0.01 * cotangent, draw(samples, num_nodes, num_nodes, 2))
    allowed = 5 * TOLERANCE if ties else OF_GRADIENTS
    assert_equal(ours_with_means, plain_with_means, arguments, cotangents, device, allowed)
