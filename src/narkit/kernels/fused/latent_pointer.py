"""The logits of pointers from nodes to nodes where edges have latents: one kernel forward and one backward.

    latent_pi = ReLU(m_pi O + o)                                     (from 8 features to the hidden size)
    logit_ip  = sum_h w_h max(a_i, b_p + s_pi D + c + latent_pi L)_h + bias

A block holds a tile of edges (p, i), makes their latents in shared memory and multiplies them by L on the matrix units,
so nothing of the size n^2 hidden is written. Backward, the tile is made again; what is written are the operands of L's
gradient, which are multiplied after the time loop for all steps at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from narkit.kernels.deferred_gradients import STACKED
from narkit.kernels.fused.launch import Kernel
from narkit.kernels.fused.pointer import side_by_side
from narkit.kernels.fused.triplet_messages import FEATURES, NarrowLatents
from narkit.kernels.fused.weights import HIDDEN_SIZE as H
from narkit.kernels.fused.weights import frozen

TILE_STRIDE, WIDE_STRIDE = 136, 132  # as in common.cuh and latent_pointer.cu
TARGETS = 4


class Fragments(NamedTuple):
    """L as the matrix units read it: made once, before the time loop. Gradients flow through L itself."""

    plain: Array
    transposed: Array

    @classmethod
    def of(cls, latent: Float[Array, "128 128"]) -> Fragments:
        return cls(frozen(latent), frozen(latent, transposed=True))


class LatentPointerWeights(NamedTuple):
    """The parameters of one network."""

    directions: Float[Array, "scalar hidden"]  # D
    offset: Float[Array, " hidden"]  # c
    latent: Float[Array, "hidden hidden"]  # L
    score: Float[Array, " hidden"]  # w
    bias: Float[Array, " one"]
    fragments: Fragments


def latent_pointer_logits(
    nodes: Float[Array, "sample node width"],
    first: int,
    second: int,
    scalars: Float[Array, "sample node node scalar"],
    latents: NarrowLatents,
    weights: LatentPointerWeights,
) -> Float[Array, "sample node node"]:
    """How strongly every node i points to every node p. a and b begin at `first` and `second` of a node's row.

    Scalars and maxima are those of the edges (p, i).
    """
    if scalars.shape[-1] == 0:
        scalars = jnp.zeros((*scalars.shape[:-1], 1))
        weights = weights._replace(directions=jnp.zeros((1, H)))
    return _logits(nodes, scalars, latents, weights, (first, second))


class _Tiling(NamedTuple):
    """How the edges (p, i) of a graph are cut into tiles."""

    sources: int
    target_blocks: int
    source_blocks: int

    @classmethod
    def of(cls, num_nodes: int) -> _Tiling:
        sources = 4 if num_nodes <= 4 else 8 if num_nodes <= 8 else 16
        return cls(sources, -(-num_nodes // TARGETS), -(-num_nodes // sources))

    @property
    def rows(self) -> int:
        return TARGETS * self.sources

    @property
    def tiles(self) -> int:
        return self.target_blocks * self.source_blocks


def _kernel(name: str, nodes: Array, scalars: Array, columns: tuple[int, int], bytes_per_row: int, rows=()) -> Kernel:
    samples, n, width = nodes.shape
    tiling = _Tiling.of(n)
    macros = {
        "N": n, "P": scalars.shape[-1], "SAMPLES": samples, "WIDTH": width, "FIRST": columns[0], "SECOND": columns[1],
        "TARGETS": TARGETS, "SOURCES": tiling.sources,
    }  # fmt: skip
    grid = (samples * tiling.tiles, 1)
    return Kernel("latent_pointer.cu", name, tuple(macros.items()), grid, tiling.rows * bytes_per_row, *rows)


def _forward_only(nodes, scalars, latents, weights, columns):
    samples, n, _ = nodes.shape
    rows = (((2, "TIMED_maxima"),), ((0, "TIMED_logits"),))
    kernel = _kernel("latent_pointer_forward", nodes, scalars, columns, 2 * TILE_STRIDE + 4 * WIDE_STRIDE, rows)
    return kernel(
        nodes, scalars, latents.maxima, weights.directions, weights.offset, latents.weight, latents.bias,
        weights.fragments.plain, weights.score, weights.bias, outputs=[((samples, n, n), jnp.float32)],
    )[0]  # fmt: skip


def _forward(nodes, scalars, latents, weights, columns):
    return _forward_only(nodes, scalars, latents, weights, columns), (nodes, scalars, latents, weights)


def _backward(columns, saved, d_logits):
    nodes, scalars, latents, weights = saved
    samples, n, width = nodes.shape
    num_scalars = scalars.shape[-1]
    tiling = _Tiling.of(n)
    per_row = 4 * TILE_STRIDE + 4 * (WIDE_STRIDE + num_scalars + FEATURES + 1)
    rows = (
        ((0, "TIMED_nodes"), (2, "TIMED_maxima"), (10, "TIMED_logits")),
        ((0, "TIMED_operands"), (1, "TIMED_operands"), (6, "TIMED_small")),
    )
    kernel = _kernel("latent_pointer_backward", nodes, scalars, columns, per_row, rows)
    factor = ((samples, tiling.tiles, tiling.rows, H), jnp.bfloat16)
    operand, cotangent, d_first, d_second, d_scalars, d_maxima, small = kernel(
        nodes, scalars, latents.maxima, weights.directions, weights.offset, latents.weight, latents.bias,
        *weights.fragments, weights.score, d_logits,
        outputs=[
            factor,
            factor,
            ((samples, tiling.target_blocks, n, H), jnp.float32),
            ((samples, tiling.source_blocks, n, H), jnp.float32),
            (scalars.shape, jnp.float32),
            (latents.maxima.shape, jnp.float32),
            ((samples, tiling.tiles, num_scalars + 3 + FEATURES + 1, H), jnp.float32),
        ],
    )  # fmt: skip
    d_latent = jnp.einsum(
        "btrh,btrg->hg",
        checkpoint_name(operand, STACKED),
        checkpoint_name(cotangent, STACKED),
        preferred_element_type=jnp.float32,
    )
    small = checkpoint_name(small, STACKED).sum((0, 1))
    of_pointer, of_latents = small[: num_scalars + 3], small[num_scalars + 3 :]
    no_gradient: Any = None
    d_weights = LatentPointerWeights(
        of_pointer[:-3], of_pointer[-3], d_latent, of_pointer[-2], of_pointer[-1, :1], no_gradient
    )
    d_nodes = side_by_side({columns[0]: d_first.sum(1), columns[1]: d_second.sum(1)}, width)
    return d_nodes, d_scalars, NarrowLatents(d_maxima, of_latents[:-1], of_latents[-1]), d_weights


_logits: Any = jax.custom_vjp(_forward_only, nondiff_argnums=(4,))
_logits.defvjp(_forward, _backward)
