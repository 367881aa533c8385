"""The logits of node pointers written plainly, and the kernels compared with them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit.fused.pointer import Options, PointerWeights, pointer_logits
from narkit.fused.weights import HIDDEN_SIZE as H

from .plain_step import difference

TOLERANCE = 1e-5  # float32 throughout
OF_GRADIENTS = 5e-3  # where a and b + e are equal up to rounding, either may get the gradient
FIRST, SECOND, WIDTH = 3, H + 5, 2 * H + 9  # where a and b stand in a node's row: apart, and not aligned


def plain(nodes: Array, edges: Array, weights: PointerWeights) -> Array:
    """`sum_h w_h max(a_i, b_p + e_pi)_h + bias`"""
    if weights.edges is not None:
        directions, offset = weights.edges
        edges = edges @ directions + offset
    a, b = nodes[..., FIRST : FIRST + H], nodes[..., SECOND : SECOND + H]
    highest = jnp.maximum(a[:, :, None], b[:, None] + jnp.swapaxes(edges, 1, 2))
    return jnp.sum(highest * weights.score, axis=-1) + weights.bias


def assert_equal_to_plain(seeds: int, samples: int, num_nodes: int, num_scalars: int | None, device: Any) -> None:
    """Logits and gradients, by the kernels where JAX computes by default and plainly on a device.

    Without a number of scalars the features of edges are given in full.
    """
    rng = np.random.default_rng(num_nodes)

    def normal(*shape: int) -> Array:
        return jnp.asarray(rng.normal(size=(seeds, *shape)), jnp.float32)

    folded = None if num_scalars is None else (normal(num_scalars, H), normal(H))
    edges = normal(samples, num_nodes, num_nodes, H if num_scalars is None else num_scalars)
    arguments = (normal(samples, num_nodes, WIDTH), edges, PointerWeights(folded, normal(H), normal(1)))
    cotangent = (normal(samples, num_nodes, num_nodes), normal(samples, num_nodes, num_nodes))

    def logits_only(nodes, edges, weights):
        return pointer_logits(nodes, edges, weights, Options(FIRST, SECOND))[0]

    def logits_and_softmax(nodes, edges, weights):
        return pointer_logits(nodes, edges, weights, Options(FIRST, SECOND, softmax=True))

    def plain_logits_and_softmax(*arguments):
        logits = plain(*arguments)
        return logits, jax.nn.softmax(logits)

    assert_equal(logits_only, plain, arguments, cotangent[0], device, OF_GRADIENTS)
    assert_equal(logits_and_softmax, plain_logits_and_softmax, arguments, cotangent, device, OF_GRADIENTS)


def with_gradients(ours: Any, plain: Any, arguments: Any, cotangent: Any, device: Any) -> tuple[Any, Any]:
    """Results and gradients of two functions over seeds, of which the second runs on a device."""

    def both(function):
        def run(arguments, cotangent):
            results, pull_back = jax.vjp(function, *arguments)
            return results, pull_back(cotangent)

        return jax.jit(jax.vmap(run))

    with jax.default_matmul_precision("highest"):
        found = both(ours)(arguments, cotangent)
        return found, both(plain)(*jax.device_put((arguments, cotangent), device))


def assert_equal(ours: Any, plain: Any, arguments: Any, cotangent: Any, device: Any, of_gradients: float) -> None:
    have, expected = with_gradients(ours, plain, arguments, cotangent, device)
    for result, want in zip(jax.tree.leaves(have[0]), jax.tree.leaves(expected[0]), strict=True):
        assert difference(result, want) < TOLERANCE
    for gradient, want in zip(jax.tree.leaves(have[1]), jax.tree.leaves(expected[1]), strict=True):
        assert difference(gradient, want) < of_gradients
