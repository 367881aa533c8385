"""Messages of triplets and the pointers that read them, written plainly, and the kernels compared with them.

Products of latents round to bfloat16 where the kernels do (see `plain_step`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit.fused.latent_pointer import Fragments, LatentPointerWeights, latent_pointer_logits
from narkit.fused.narrow_latents import NarrowLatents
from narkit.fused.pointer import Options
from narkit.fused.triplet_messages import FEATURES, triplet_maxima
from narkit.fused.weights import HIDDEN_SIZE as H

from .plain_pointers import FIRST, SECOND, WIDTH, with_gradients
from .plain_step import TOLERANCE, difference, outer, product, rounded, rounded_on_the_way_back

OF_MAXIMA = 1e-5  # float32 throughout
OTHER_TERMS = 5  # of a node, which stand in front


def plain_maxima(terms: Array, scalars: Array, directions: Array) -> Array:
    """`m_jk = max_i (x_i + x_j + x_k + s_ij E1 + s_ik E2 + s_jk E3)`"""
    x_i, x_j, x_k = jnp.split(terms[..., OTHER_TERMS:], 3, axis=-1)
    pair_ij, pair_ik, pair_jk = (scalars @ part for part in directions)
    t = x_i[:, :, None, None] + x_j[:, None, :, None] + x_k[:, None, None]
    t = t + pair_ij[:, :, :, None] + pair_ik[:, :, None] + pair_jk[:, None]
    # The gradient of `jnp.max` goes where numbers equal it, which none does if the compiler sums them otherwise again.
    winners = jnp.argmax(t, axis=1, keepdims=True)
    return jnp.take_along_axis(t, winners, axis=1)[:, 0]


@jax.custom_vjp
def _of_scalars(scalars: Array, directions: Array) -> Array:
    """A product whose gradient of the scalars has a rounded operand, as it has in the kernels."""
    return scalars @ directions


_of_scalars.defvjp(
    lambda scalars, directions: (_of_scalars(scalars, directions), (scalars, directions)),
    lambda saved, d: (rounded(d) @ saved[1].T, outer(saved[0], d)),
)


def plain_logits(nodes: Array, scalars: Array, latents: NarrowLatents, weights: LatentPointerWeights) -> Array:
    """`sum_h w_h max(a_i, b_p + s_pi D + c + ReLU(m_pi O + o) L)_h + bias`"""
    wide = jax.nn.relu(rounded_on_the_way_back(latents.features @ latents.weight + latents.bias))
    edges = weights.offset + product(wide, weights.latent) + _of_scalars(scalars, weights.directions)
    a, b = nodes[..., FIRST : FIRST + H], nodes[..., SECOND : SECOND + H]
    other = b[:, None] + jnp.swapaxes(edges, 1, 2)
    return jnp.sum(jnp.maximum(a[:, :, None], other) * weights.score, axis=-1) + weights.bias


def assert_maxima_equal_to_plain(seeds: int, samples: int, num_nodes: int, num_scalars: int, device: Any) -> None:
    normal = _normal(seeds, num_nodes)
    arguments = (
        normal(samples, num_nodes, OTHER_TERMS + 3 * FEATURES),
        normal(samples, num_nodes, num_nodes, num_scalars),
        normal(3, num_scalars, FEATURES),
    )
    cotangent = normal(samples, num_nodes, num_nodes, FEATURES)
    _assert_equal(triplet_maxima, plain_maxima, arguments, cotangent, OF_MAXIMA, device)


def assert_logits_equal_to_plain(
    seeds: int,
    samples: int,
    num_nodes: int,
    num_scalars: int,
    device: Any,
    flips: int = 0,
    num_features: int = FEATURES,
) -> None:
    """What is rectified, or compared, has 16 bits in the kernels: so many (`flips`) may fall on the other side."""
    normal = _normal(seeds, num_nodes)
    features, scalars = (normal(samples, num_nodes, num_nodes, width) for width in (num_features, num_scalars))
    latents = NarrowLatents(features, normal(num_features, H) * num_features**-0.5, normal(H))
    square = normal(H, H) * H**-0.5
    without: Any = None
    weights = LatentPointerWeights(normal(num_scalars, H), normal(H), square, normal(H), normal(1), without)
    arguments = (normal(samples, num_nodes, WIDTH), scalars, latents, weights)

    def logits_and_softmax(nodes, scalars, latents, weights, softmax=True):
        weights = weights._replace(fragments=Fragments.of(weights.latent))
        return latent_pointer_logits(nodes, scalars, latents, weights, Options(FIRST, SECOND, softmax))

    def logits_only(*arguments):
        return logits_and_softmax(*arguments, softmax=False)[0]

    def plain_logits_and_softmax(*arguments):
        logits = plain_logits(*arguments)
        return logits, jax.nn.softmax(logits)

    both = (normal(samples, num_nodes, num_nodes), normal(samples, num_nodes, num_nodes))
    allowed = TOLERANCE + (2 * flips / (seeds * samples * num_nodes**2 * H)) ** 0.5
    _assert_equal(logits_only, plain_logits, arguments, both[0], allowed, device)
    _assert_equal(logits_and_softmax, plain_logits_and_softmax, arguments, both, allowed, device)


def _normal(seeds: int, seed: int) -> Callable[..., Array]:
    rng = np.random.default_rng(seed)
    return lambda *shape: jnp.asarray(rng.normal(size=(seeds, *shape)), jnp.float32)


def _assert_equal(ours, plain, arguments: tuple, cotangent: Any, tolerance: float, device: Any) -> None:
    """Values and gradients, by the kernels where JAX computes by default and plainly on a device."""
    found, expected = with_gradients(ours, plain, arguments, cotangent, device)
    paths = jax.tree_util.tree_leaves_with_path(expected)
    differences = {
        jax.tree_util.keystr(path): difference(have, want)
        for (path, want), have in zip(paths, jax.tree.leaves(found), strict=True)
    }
    assert max(differences.values()) < tolerance, differences
