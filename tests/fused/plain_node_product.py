"""Linears of node features written plainly, and the kernels compared with them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit.fused.node_product import NodeWeights, node_product
from narkit.fused.weights import HIDDEN_SIZE as H

from .plain_pointers import with_gradients
from .plain_step import difference

TOLERANCE = 1e-3  # TF32 has ten bits


def plain(scalars: Array, dense: tuple[Array, ...], directions: Array, offset: Array, weights: Any) -> Array:
    result = scalars @ directions + offset
    first = offset.size - weights[0].shape[1]
    return result.at[..., first:].add(sum(values @ weight for values, weight in zip(dense, weights, strict=True)))


def assert_equal_to_plain(
    seeds: int, samples: int, num_nodes: int, num_scalars: int, width: int, dense_widths: tuple[int, ...], device: Any
) -> None:
    """Outputs and gradients, by the kernels where JAX computes by default and plainly on a device."""
    rng = np.random.default_rng(width)

    def normal(*shape: int) -> Array:
        return jnp.asarray(rng.normal(size=(seeds, *shape)), jnp.float32)

    dense = tuple(normal(samples, num_nodes, H) for _ in dense_widths)
    weights = tuple(normal(H, last) for last in dense_widths)
    arguments = (normal(samples, num_nodes, num_scalars), dense, normal(num_scalars, width), normal(width), weights)

    def ours(scalars, dense, directions, offset, weights):
        return node_product(scalars, dense, NodeWeights.of(directions, offset, weights))

    have, want = with_gradients(ours, plain, arguments, normal(samples, num_nodes, width), device)
    for result, expected in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        assert difference(result, expected) < TOLERANCE
