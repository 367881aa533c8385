"""Triplet Edge Attention on dense features, forward: one kernel for the vectors of pairs, one for the attention.

    u_ij = x_i + x_j + e_ij W1     w_ik = x_k + e_ik W2     q_jk = e_jk W3     v_ik = e_ik W4 + bias
    latent_ij = sum_k softmax_k(a . LeakyReLU(u_ij + w_ik + q_jk)) v_ik

The gradient is that of the plain formulas: see `attention_layer`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float

from narkit.fused import launch
from narkit.fused.weights import HIDDEN_SIZE as H
from narkit.fused.weights import fragments

THREADS = 256  # as EDGE_WARPS in edge_attention.cu, with the following
BLOCK_TILES = 8
TILE = 16  # pairs, or nodes
FRAGMENTS = H // TILE
ROW_BYTES = 272  # of a pair's features in half precision
MOST_SHARED_BYTES = 99 * 1024  # that all GPUs since Ampere give a block


def fits(edges: Float[Array, "node node hidden"]) -> bool:
    """Returns whether the kernels are made for these edges: float32, and not too many nodes."""
    return edges.dtype == jnp.float32 and _block_size(len(edges)) is not None


def edge_latents(
    terms: Float[Array, "node terms"],
    edges: Float[Array, "node node hidden"],
    weights: Float[Array, "hidden products"],
    value_bias: Float[Array, " hidden"],
    attention: Float[Array, " hidden"],
    mask: Bool[Array, "node node"] | None,
    slope: float,
    *,
    rectified: bool,
) -> Float[Array, "node node hidden"]:
    """Returns the latents of edges, with zeros for what is below zero if `rectified`.

    `terms` are x_i, x_j and x_k, concatenated, `weights` W1 to W4. Batches come through `jax.vmap`.
    """
    # The features of edges are numbers like these, and so are the sums that the kernels make of both.
    in_order = fragments(jnp.moveaxis(weights.reshape(H, 4, H), 1, 0), jnp.float16)
    of_seed = (in_order, value_bias, attention)
    of_sample = (terms, edges) if mask is None else (terms, edges, mask.astype(jnp.uint8))

    def run_many(of_seed: tuple, of_sample: tuple) -> Array:
        return _run(of_seed, of_sample, slope, rectified)

    def run_one(of_seed: tuple, of_sample: tuple) -> Array:
        return run_many(of_seed, jax.tree.map(lambda x: x[None], of_sample))[0]

    run = custom_vmap(run_one)

    @run.def_vmap
    def _(size: int, is_batched: list, of_seed: tuple, of_sample: tuple) -> tuple[Array, bool]:
        """Makes a batch of samples that share their weights one launch, without a copy of the weights for each."""
        seeds_batched, samples_batched = is_batched
        of_sample = jax.tree.map(
            lambda x, batched: x if batched else jnp.broadcast_to(x, (size, *x.shape)), of_sample, samples_batched
        )
        if not any(seeds_batched):
            return run_many(of_seed, of_sample), True
        axes = tuple(0 if batched else None for batched in seeds_batched)
        return jax.vmap(run_one, in_axes=(axes, 0))(of_seed, of_sample), True

    return run(of_seed, of_sample)


def _block_size(num_nodes: int) -> int | None:
    """Returns how many nodes i a block has: as many as its shared memory has room for."""
    needed = TILE if num_nodes > 8 else 8 if num_nodes > 4 else 4
    for size in (16, 8, 4):
        if size <= needed and _shared_bytes(num_nodes, size) <= MOST_SHARED_BYTES:
            return size
    return None


def _shared_bytes(num_nodes: int, block_size: int) -> int:
    """Returns the size of `EdgeMemory`."""
    chunks, word = -(-num_nodes // TILE), 16
    of_edge = 4 * chunks + 2 * (TILE * chunks + 8)
    return word * 32 * (FRAGMENTS + 2 * (2 * block_size + TILE)) + block_size * TILE * of_edge


def _run(of_seed: tuple, of_sample: tuple, slope: float, rectified: bool) -> Array:
    weights, value_bias, attention = of_seed
    terms, edges, *mask = of_sample
    samples, n = edges.shape[:2]
    chunks, block_size = -(-n // TILE), _block_size(n)
    assert block_size is not None
    macros = {"N": n, "SAMPLES": samples, "SLOPE": float(slope), "BLOCK_I": block_size}
    macros |= {"MASKED": len(mask), "RECTIFIED": int(rectified)}
    source, numbers, tiles = "edge_attention.cu", tuple(macros.items()), TILE * chunks**2
    make_vectors = launch.Kernel(
        source, "pair_vectors", numbers, (tiles // BLOCK_TILES, samples), BLOCK_TILES * TILE * ROW_BYTES,
        threads=THREADS,
    )  # fmt: skip
    shape = (samples, 4, tiles, FRAGMENTS, 32, 8)
    vectors = make_vectors(edges, terms, weights, value_bias, outputs=[(shape, jnp.float16)])[0]
    attend = launch.Kernel(
        source, "edge_attention", numbers, (-(-n // block_size) * chunks, samples), _shared_bytes(n, block_size),
        threads=16 * block_size,
    )  # fmt: skip
    return attend(vectors, attention, *mask, outputs=launch.in_float32((samples, n, n, H)))[0]
