"""From the scalars of edges to the message that each node receives: one kernel forward, two backward.

For every receiver j, over all senders i and third nodes k:

    logit_ijk  = a . LeakyReLU(x_i + x_j + x_k + s_ij E1 + s_ik E2 + s_jk E3)
    latent_ij  = ReLU((sum_k softmax_k(logit_ijk) s_ik) V + v)
    message_ij = ReLU(ReLU(latent_ij Me + receive_j + send_i) W1 + b1) W2 + b2
    message_j  = max over i of message_ij

Without attention, the first line of the message is `ReLU(s_ij V + v + receive_j + send_i)`.

The forward kernel holds a tile of edges (i, j), walks over k with a running softmax, and hands the tile through the
products; nothing of the size of n^2 hidden is written. With LeakyReLU(t) = (1 + slope) / 2 t + (1 - slope) / 2 |t| the
linear part of the logits is a sum over pairs, and what does not depend on k cancels in the softmax.

Backward, the first kernel recomputes the tile and pulls the cotangent of the message through the products. It writes
the operands of the weights' gradients, which are multiplied after the time loop for all steps at once. The second one
sums the gradient of t_ijk over k, over j and over i.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from narkit.kernels.deferred_gradients import STACKED
from narkit.kernels.fused.launch import Kernel
from narkit.kernels.fused.weights import HIDDEN_SIZE as H
from narkit.kernels.fused.weights import frozen

TILE_STRIDE, WARPS = 136, 4  # as in common.cuh
MOST_PARTS = 8  # blocks that share the backward of a sample's attention; each has its own part of some sums

ROWS_READ = ((0, "TIMED_terms"), (1, "TIMED_scalars"))
"""Operands that may be rows of stacks over time, for all kernels."""


class Attention(NamedTuple):
    """The parameters of Triplet Edge Attention."""

    triplet: Float[Array, "3 scalar hidden"]  # E1, E2, E3
    weights: Float[Array, " hidden"]  # a


class MessageWeights(NamedTuple):
    """The parameters of one network, folded for edges with `scalar` scalars (at least one)."""

    attention: Attention | None
    value: Float[Array, "scalar hidden"]  # V
    value_offset: Float[Array, " hidden"]  # v
    products: tuple[Float[Array, "hidden hidden"], ...]  # Me (with attention), W1, W2
    biases: Float[Array, "2 hidden"]  # b1, b2
    fragments: Array  # of the products
    transposed: Array  # of the products transposed

    @classmethod
    def of(cls, attention: Attention | None, value, value_offset, products, biases) -> MessageWeights:
        products = tuple(products)
        both = (frozen(jnp.stack(products), flip) for flip in (False, True))
        return cls(attention, value, value_offset, products, biases, *both)


class _Tiling(NamedTuple):
    """How the edges (i, j) of a graph are cut into tiles."""

    num_nodes: int
    senders: int
    receivers: int

    @classmethod
    def of(cls, num_nodes: int) -> _Tiling:
        return cls(num_nodes, 4 if num_nodes <= 4 else 8 if num_nodes <= 8 else 16, receivers=4)

    @property
    def receiver_blocks(self) -> int:
        return -(-self.num_nodes // self.receivers)

    @property
    def sender_blocks(self) -> int:
        return -(-self.num_nodes // self.senders)

    @property
    def rows(self) -> int:
        return self.senders * self.receivers


def _direction_words(num_scalars: int) -> int:
    """The directions of pairs as operands of the matrix units, eight scalars a step."""
    return 3 * -(-num_scalars // 8) * (H // 8) * 32


def _kernel(name, terms, scalars, slope, attends, grid, shared_bytes, rows=(), threads=128) -> Kernel:
    samples, n = terms.shape[:2]
    tiling = _Tiling.of(n)
    macros = {
        "N": n, "P": scalars.shape[-1], "SAMPLES": samples, "ATTENTION": int(attends), "SLOPE": float(slope),
        "SENDERS": tiling.senders, "RECEIVERS": tiling.receivers, "TERMS": terms.shape[-1],
    }  # fmt: skip
    grid = (samples * grid[0], grid[1])
    return Kernel("messages.cu", name, tuple(macros.items()), grid, shared_bytes, *rows, threads=threads)


class _Gradients(NamedTuple):
    """What the backward kernel of the products writes; there is one `tile` per block of senders and receivers."""

    operands: list[Array]  # per product (sample, tile, row, hidden)
    cotangents: list[Array]
    receive: Array  # (sample, sender block, node, hidden)
    send: Array  # (sample, receiver block, node, hidden)
    mixed: Array  # (sample, node, node, scalar + 1)
    small: Array  # (sample, tile, scalar + 3, hidden): V, v, b1, b2


def _products_backward(terms, scalars, weights, best, record, d_message, slope) -> _Gradients:
    samples, n = terms.shape[:2]
    num_scalars, num_products = scalars.shape[-1], len(weights.products)
    tiling = _Tiling.of(n)
    tiles = tiling.receiver_blocks * tiling.sender_blocks
    # As in messages.cu. Eight warps share a tile; if it has more than 16 rows, they stand in two rows of four.
    tile = tiling.rows * TILE_STRIDE * 2
    m_warps = 2 if tiling.rows > 16 else 1
    of_warps = 8 // m_warps * num_scalars * tiling.rows + m_warps * (num_scalars + 1) * H
    shares = m_warps * (1 + tiling.senders) * H
    shared = tile + max(tile, 4 * of_warps) + 4 * max(2 * tiling.receivers * H, shares)
    shared += tiling.rows * num_scalars * 4
    factors = 2 * num_products
    kernel = _kernel(
        "messages_backward", terms, scalars, slope, weights.attention is not None, (tiles, 1), shared, threads=256,
        rows=(
            (*ROWS_READ, (7, "TIMED_best"), (8, "TIMED_record")),
            (*((i, "TIMED_operands") for i in range(factors)), (factors + 3, "TIMED_small")),
        ),
    )  # fmt: skip
    layout = {
        "receive": ((samples, tiling.sender_blocks, n, H), jnp.float32),
        "send": ((samples, tiling.receiver_blocks, n, H), jnp.float32),
        "mixed": ((samples, n, n, num_scalars + 1), jnp.float32),
        "small": ((samples, tiles, num_scalars + 3, H), jnp.float32),
    }
    operands = (weights.value, weights.value_offset, weights.fragments, weights.transposed, weights.biases)
    factor = ((samples, tiles, tiling.rows, H), jnp.bfloat16)
    written = kernel(
        terms, scalars, *operands, best, record, d_message, outputs=[*[factor] * factors, *layout.values()]
    )
    return _Gradients(
        written[:num_products], written[num_products:factors], **dict(zip(layout, written[factors:], strict=True))
    )


def _attention_backward_bytes(num_nodes: int, num_scalars: int) -> int:
    """What its warps share, of a cell of four nodes, `sent` and `width`; see attention_backward.cu."""
    sent = min(-(-num_nodes // 4) * 4, 8 if num_scalars > 8 else 16)
    halves = 1 if num_nodes <= 8 else 2
    width, rows, steps = 8 * halves, (sent + 4) * halves + sent // 2, -(-num_scalars // 8)
    flipped = 4 * num_scalars if 4 < num_scalars < 8 else 32
    words = rows * (32 * (1 if num_scalars <= 4 else 2 * steps) + flipped * steps)  # operands: scalars of edges
    words += sent * 4 * (4 * halves + 4) + 16 * halves  # gradients of logits
    words += WARPS * sent * 64  # what pairs add
    if not 4 < num_scalars <= 8:  # directions and their gradients
        words += 128 * 4 * (steps + 2 * -(-(num_scalars + 4) // 8))
    gradients = WARPS * rows * 8 * (num_scalars + num_scalars % 2)
    words += max(gradients, 4 * sent * width + 128) + 128 * num_scalars + WARPS
    return 4 * words


def _attention_backward(terms, scalars, weights, record, d_mixed, slope):
    """Gradients of x_i, x_j and x_k (sample, node, hidden), of the scalars, and of E1, E2, E3 and a."""
    samples, n = terms.shape[:2]
    num_scalars = scalars.shape[-1]
    fours = -(-n // 4)
    parts = min(fours, MOST_PARTS)
    shared = _attention_backward_bytes(n, num_scalars)
    macros = {"N": n, "P": num_scalars, "SAMPLES": samples, "SLOPE": float(slope), "TERMS": terms.shape[-1]}
    macros |= {"PARTS": parts, "SHARED_BYTES": shared}
    rows_in_stacks = ((*ROWS_READ, (4, "TIMED_record")), ((4, "TIMED_small"),))
    kernel = Kernel(
        "attention_backward.cu", "attention_backward", tuple(macros.items()), (samples * parts, 1), shared,
        *rows_in_stacks,
    )  # fmt: skip
    d_i, d_j, d_k, d_scalars, small = kernel(
        terms, scalars, *weights.attention, record, d_mixed,
        outputs=[
            ((samples, n, H), jnp.float32),
            ((samples, parts, n, H), jnp.float32),
            ((samples, parts, n, H), jnp.float32),
            ((samples, 2 + parts, n, n, num_scalars), jnp.float32),
            ((samples, parts, 3 * num_scalars + 1, H), jnp.float32),
        ],
    )  # fmt: skip
    small = checkpoint_name(small, STACKED).sum((0, 1))
    d_attention = Attention(small[:-1].reshape(3, num_scalars, H), small[-1])
    return [d_i, d_j.sum(1), d_k.sum(1)], d_scalars.sum(1), d_attention


def forward(
    terms: Float[Array, "sample node terms"],
    scalars: Float[Array, "sample node node scalar"],
    weights: MessageWeights,
    slope: float,
    save: bool,
) -> tuple[Array, ...]:
    """The message of every node; with `save` also which sender it came from, and the record of the attention.

    `terms` has, side by side, what every node adds: with attention x_i, x_j and x_k; then receive and send; then two
    for the update, which are not read here.
    """
    samples, n = terms.shape[:2]
    num_scalars = scalars.shape[-1]
    tiling = _Tiling.of(n)
    shared = 2 * tiling.rows * TILE_STRIDE * 2
    if weights.attention is not None:  # what the attention needs is there first
        shared = max(shared, 4 * (_direction_words(num_scalars) + 512 + 8 * -(-num_scalars // 8) + n))
    shared += tiling.rows * num_scalars * 4
    attends = weights.attention is not None
    name = "messages_forward_saving" if save else "messages_forward"
    rows = (ROWS_READ, ((0, "TIMED_message"), (1, "TIMED_best"), (2, "TIMED_record"))) if save else ()
    kernel = _kernel(name, terms, scalars, slope, attends, (tiling.receiver_blocks, 1), shared, rows)
    shapes: list[Any] = [((samples, n, H), jnp.float32)]
    if save:
        record = (n + 1 + num_scalars) if attends else 1
        shapes += [((samples, n, H), jnp.int32), ((samples, n, n, record), jnp.float32)]
    # Without attention its operands are not read; any will do.
    attention = weights.attention or Attention(weights.value, weights.value_offset)
    operands = (*attention, weights.value, weights.value_offset, weights.fragments, weights.biases)
    return tuple(kernel(terms, scalars, *operands, outputs=shapes))


def backward(
    terms: Array, scalars: Array, weights: MessageWeights, best: Array, record: Array, d_message: Array, slope: float
) -> tuple[list[Array], Array, MessageWeights]:
    """Gradients of the terms that are read, one by one, of the scalars and of the weights."""
    out = _products_backward(terms, scalars, weights, best, record, d_message, slope)
    d_products = tuple(
        jnp.einsum(
            "btrh,btrg->hg",
            checkpoint_name(operand, STACKED),
            checkpoint_name(cotangent, STACKED),
            preferred_element_type=jnp.float32,
        )
        for operand, cotangent in zip(out.operands, out.cotangents, strict=True)
    )
    small = checkpoint_name(out.small, STACKED).sum((0, 1))
    d_terms = [out.receive.sum(1), out.send.sum(1)]
    if weights.attention is None:
        d_attention, d_scalars = None, out.mixed[..., :-1]
    else:
        d_nodes, d_scalars, d_attention = _attention_backward(terms, scalars, weights, record, out.mixed, slope)
        d_terms = [*d_nodes, *d_terms]
    no_gradient: Any = None
    d_weights = MessageWeights(d_attention, small[:-3], small[-3], d_products, small[-2:], no_gradient, no_gradient)
    return d_terms, d_scalars, d_weights
