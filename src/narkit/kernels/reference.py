"""The triplet reductions written plainly: slow and hungry for memory, but obviously right. For tests."""

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
    activated = jnp.where(t > 0, t, slope * t)
    by_head = activated.reshape(*t.shape[:3], *weights.shape)
    return jnp.einsum("ijkmw,mw->mijk", by_head, weights)


def triplet_max(
    pair_ij: Float[Array, "node node width"], pair_ik: Float[Array, "node node width"]
) -> Float[Array, "node node width"]:
    return jnp.max(pair_ij[:, :, None] + pair_ik[:, None, :], axis=0)


def edge_pointer_logits(
    edges: Float[Array, "node node hidden"], nodes: Float[Array, "node hidden"], weights: Float[Array, " hidden"]
) -> Float[Array, "node node node"]:
    return jnp.maximum(edges[:, :, None], nodes[None, None]) @ weights
