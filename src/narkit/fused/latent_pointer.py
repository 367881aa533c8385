"""The logits of pointers from nodes to nodes where edges have latents: one kernel forward and one backward.

    latent_pi = ReLU(m_pi O + o)                                     (from few features to the hidden size)
    logit_ip  = sum_h w_h max(a_i, b_p + s_pi D + c + latent_pi L)_h + bias

and, where it is fed back, the softmax over p. A block holds a tile of edges (p, i), makes their latents in shared
memory and multiplies them by L on the matrix units, so nothing of the size n^2 hidden is written. Backward, the tile is
made again; what is written are the operands of L's gradient, which are multiplied after the time loop for all steps at
once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.launch import Kernel, in_float32
from narkit.fused.messages import Tiling
from narkit.fused.narrow_latents import NarrowLatents
from narkit.fused.pointer import Options, at_columns
from narkit.fused.weights import HIDDEN_SIZE as H
from narkit.fused.weights import NO_GRADIENT, at_least_one, frozen
from narkit.loops.deferred_gradients import keep_values, stack_values

TILE_STRIDE, WIDE_STRIDE = 136, 132  # as in common.cuh and latent_pointer.cu
MANY_THREADS = 256  # of a block
MOST_STAGED = 8  # features of an edge that stay in shared memory backward, as in latent_pointer.cu


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
    scalars: Float[Array, "sample node node scalar"],
    latents: NarrowLatents,
    weights: LatentPointerWeights,
    options: Options,
) -> tuple[Float[Array, "sample node node"], ...]:
    """Returns how strongly every node i points to every node p and, if it is wanted, the softmax over the nodes p.

    Scalars and features of latents are those of the edges (p, i).
    """
    scalars = at_least_one(scalars)
    weights = weights._replace(directions=at_least_one(weights.directions, axis=0))
    return _results(nodes, scalars, latents, weights, options)


def _kernel(
    name: str, nodes: Array, scalars: Array, features: Array, options: Options, blocks: int, shared_floats: int, *rows
) -> Kernel:
    samples, n, width = nodes.shape
    macros = {
        "N": n, "P": scalars.shape[-1], "FEATURES": features.shape[-1], "SAMPLES": samples, "WIDTH": width,
        "FIRST": options.first, "SECOND": options.second, "SOFTMAX": int(options.softmax),
        "TARGETS": Tiling.of(n).senders,  # p sends the edges (p, i), and i, which points, receives them
    }  # fmt: skip
    given, grid = tuple(macros.items()), (samples * blocks, 1)
    return Kernel("latent_pointer.cu", name, given, grid, 4 * shared_floats, *rows, threads=MANY_THREADS)


def _forward_only(nodes, scalars, latents, weights, options):
    samples, n, _ = nodes.shape
    tiling = Tiling.of(n)
    rows_written = ((0, "TIMED_logits"), (1, "TIMED_probabilities"))[: 1 + options.softmax]
    shared = tiling.rows * (TILE_STRIDE // 2 + MANY_THREADS // 32 + scalars.shape[-1]) + n * tiling.receivers
    kernel = _kernel(
        "latent_pointer_forward", nodes, scalars, latents.features, options, tiling.receiver_blocks, shared,
        ((0, "TIMED_nodes"), (1, "TIMED_edges"), (2, "TIMED_narrow")), rows_written, (1,),
    )  # fmt: skip
    results = kernel(
        nodes, scalars, latents.features, weights.directions, weights.offset, latents.weight, latents.bias,
        weights.fragments.plain, weights.score, weights.bias,
        outputs=in_float32((samples, n, n), (samples, n, n))[: 1 + options.softmax],
    )  # fmt: skip
    return tuple(results)


def _forward(nodes, scalars, latents, weights, options):
    logits, *rest = _forward_only(nodes, scalars, latents, weights, options)
    probabilities = keep_values(rest)
    return (logits, *probabilities), (nodes, scalars, latents, weights, probabilities)


def _backward(options, saved, cotangents):
    nodes, scalars, latents, weights, probabilities = saved
    samples, n, width = nodes.shape
    num_scalars, num_features = scalars.shape[-1], latents.features.shape[-1]
    tiling = Tiling.of(n)
    # Where the product of the second half of the rows was, sums over targets come, which may be more.
    wide_rows = tiling.rows // 2 + max(tiling.rows // 2, tiling.receivers + num_scalars + 2)
    staged = num_features if num_features <= MOST_STAGED else 0
    shared = tiling.rows * (TILE_STRIDE + num_scalars + staged + 1) + wide_rows * WIDE_STRIDE
    rows_read = ((0, "TIMED_nodes"), (1, "TIMED_edges"), (2, "TIMED_narrow"))
    rows_read += ((10, "TIMED_logits"), (11, "TIMED_probabilities"))[: 1 + options.softmax]
    rows_written = ((0, "TIMED_operands"), (1, "TIMED_operands"), (6, "TIMED_small"))
    kernel = _kernel(
        "latent_pointer_backward", nodes, scalars, latents.features, options, tiling.tiles, shared,
        rows_read, rows_written,
    )  # fmt: skip
    d_logits, *d_probabilities = cotangents
    of_nodes = [(samples, blocks, n, H) for blocks in (tiling.sender_blocks, tiling.receiver_blocks)]
    of_tiles = (samples, tiling.tiles, num_scalars + 3 + num_features + 1, H)
    outputs = [tiling.operand(samples)] * 2 + in_float32(*of_nodes, scalars.shape, latents.features.shape, of_tiles)
    operand, cotangent, d_first, d_second, d_scalars, d_features, small = kernel(
        nodes, scalars, latents.features, weights.directions, weights.offset, latents.weight, latents.bias,
        *weights.fragments, weights.score, d_logits, *probabilities, *d_probabilities, outputs=outputs,
    )  # fmt: skip
    factors = stack_values((operand, cotangent))
    d_latent = jnp.einsum("btrh,btrg->hg", *factors, preferred_element_type=jnp.float32)
    small = stack_values(small).sum((0, 1))
    of_pointer, of_latents = small[: num_scalars + 3], small[num_scalars + 3 :]
    d_weights = LatentPointerWeights(
        of_pointer[:-3], of_pointer[-3], d_latent, of_pointer[-2], of_pointer[-1, :1], NO_GRADIENT
    )
    d_nodes = at_columns({options.first: d_first.sum(1), options.second: d_second.sum(1)}, width)
    return d_nodes, d_scalars, NarrowLatents(d_features, of_latents[:-1], of_latents[-1]), d_weights


_results: Any = jax.custom_vjp(_forward_only, nondiff_argnums=(4,))
_results.defvjp(_forward, _backward)
