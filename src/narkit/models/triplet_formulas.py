"""The triplet reductions written plainly.

On a CPU these would hold arrays over all triplets and features; there they serve as the reference for the tests. A
GPU's compiler fuses each into one reduction that holds nothing, so there they are what runs. For that they multiply
and sum: a matrix product in their place would want its operand whole.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def attention_logits(
    pair_ij: Float[Array, "node node hidden"],
    pair_ik: Float[Array, "node node hidden"],
    pair_jk: Float[Array, "node node hidden"],
    weights: Float[Array, "head width"],
    slope: float,
) -> Float[Array, "head node node node"]:
    t = pair_ij[:, :, None] + pair_ik[:, None, :] + pair_jk[None, :, :]
    weighted = jnp.where(t > 0, t, slope * t).reshape(*t.shape[:3], *weights.shape) * weights
    return jnp.moveaxis(weighted.sum(-1), -1, 0)


def triplet_max(
    pair_ij: Float[Array, "node node width"], pair_ik: Float[Array, "node node width"]
) -> Float[Array, "node node width"]:
    return jnp.max(pair_ij[:, :, None] + pair_ik[:, None, :], axis=0)


def edge_pointer_logits(
    edges: Float[Array, "node node hidden"], nodes: Float[Array, "node hidden"], weights: Float[Array, " hidden"]
) -> Float[Array, "node node node"]:
    return jnp.sum(jnp.maximum(edges[:, :, None], nodes[None, None]) * weights, axis=-1)
