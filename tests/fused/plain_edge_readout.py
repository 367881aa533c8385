"""The logits of hints of edges written plainly, with what networks read of them, and the kernels compared with it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit.fused.edge_readout import EdgeValue, EdgeValueKind, edge_readout
from narkit.fused.narrow_latents import NarrowLatents
from narkit.fused.weights import HIDDEN_SIZE as H

from .plain_pointers import assert_equal

VALUES = (
    EdgeValue(EdgeValueKind.SCALAR, 0, 1),
    EdgeValue(EdgeValueKind.CATEGORICAL, 1, 3),
    EdgeValue(EdgeValueKind.MASK, 4, 1),
)
LOGITS, FIRST, WIDTH = 5, 3, 16


def plain(nodes: Array, scalars: Array, directions: Array, offset: Array, given: Array | None) -> tuple[Array, Array]:
    """`a_i + b_j + s_ij D + c`, and the values."""
    a, b = nodes[..., FIRST : FIRST + LOGITS], nodes[..., FIRST + LOGITS : FIRST + 2 * LOGITS]
    logits = a[:, :, None] + b[:, None] + scalars @ directions + offset
    logits = logits if given is None else logits + given
    parts = [logits[..., :1], jax.nn.softmax(logits[..., 1:4]), jax.nn.sigmoid(logits[..., 4:])]
    return logits, jnp.concatenate(parts, axis=-1)


def assert_equal_to_plain(
    seeds: int, samples: int, num_nodes: int, num_scalars: int, device: Any, num_features: int = 8
) -> None:
    """Values and gradients, by the kernels where JAX computes by default and plainly on a device."""
    rng = np.random.default_rng(num_nodes)

    def normal(*shape: int) -> Array:
        return jnp.asarray(rng.normal(size=(seeds, *shape)), jnp.float32)

    edges = (samples, num_nodes, num_nodes)
    arguments = (
        normal(samples, num_nodes, WIDTH), normal(*edges, num_scalars), normal(num_scalars, LOGITS), normal(LOGITS),
        normal(*edges, LOGITS),
    )  # fmt: skip
    cotangent = (normal(*edges, LOGITS), normal(*edges, LOGITS))

    def ours(nodes: Array, scalars: Array, directions: Array, offset: Array, given: Array | None) -> Any:
        return edge_readout(nodes, FIRST, scalars, directions, offset, given, VALUES)

    assert_equal(ours, plain, arguments, cotangent, device, 1e-5)

    def with_latents(
        nodes: Array, scalars: Array, directions: Array, offset: Array, latents: Any, weight: Array
    ) -> Any:
        return edge_readout(nodes, FIRST, scalars, directions, offset, (NarrowLatents(*latents), weight), VALUES)

    def plain_with_latents(*arguments: Any) -> Any:
        *others, (features, out, bias), weight = arguments
        return plain(*others, given=jax.nn.relu(features @ out + bias) @ weight)

    latents = (normal(*edges, num_features), normal(num_features, H) * num_features**-0.5, normal(H))
    further = (*arguments[:-1], latents, normal(H, LOGITS))
    assert_equal(with_latents, plain_with_latents, further, cotangent, device, 1e-4)
    without = lambda function: lambda *arguments: function(*arguments, None)  # noqa: E731
    assert_equal(without(ours), without(plain), arguments[:-1], cotangent, device, 1e-5)
