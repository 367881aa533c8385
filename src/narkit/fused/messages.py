"""From the scalars of edges to the message that each node receives: one kernel forward, two backward.

For every receiver j, over all senders i and third nodes k:

    logit_ijk  = a . LeakyReLU(x_i + x_j + x_k + s_ij E1 + s_ik E2 + s_jk E3)
    latent_ij  = ReLU((sum_k softmax_k(logit_ijk) s_ik) V + v)
    message_ij = ReLU(ReLU(latent_ij Me + receive_j + send_i) W1 + b1) W2 + b2
    message_j  = max over i of message_ij

Without attention, the first line of the message is `ReLU(s_ij V + v + receive_j + send_i)`. With three products but
without attention, latents are made of what edges are given: `latent_ij = ReLU(s_ij V + v)`, where s_ij are all features
that latents are made of, see `latent_features`; they may be normalised over their features, as by a LayerNorm whose
scale and offset are part of Me and receive. Where not everyone may send to everyone,
message_ij is -1e6 for an i that may not send to j.

The forward kernel holds a tile of edges (i, j), walks over k with a running softmax, and hands the tile through the
products. With LeakyReLU(t) = (1 + slope) / 2 t + (1 - slope) / 2 |t| the linear part of the logits is a sum over
pairs, and what does not depend on k cancels in the softmax. In training it keeps the inputs of the products, which the
gradients of their weights need: these are multiplied after the time loop, for all steps at once. It also keeps where
these inputs are above zero, as bits, which is all that the backward kernel needs of them.

Backward, the first kernel pulls the cotangent of the message through the products, and keeps what the weights'
gradients need of it. The second one sums the gradient of t_ijk over k, over j and over i.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from narkit.fused import launch
from narkit.fused.launch import Kernel, Output, in_float32
from narkit.fused.weights import HIDDEN_SIZE as H
from narkit.fused.weights import NO_GRADIENT, frozen
from narkit.loops.deferred_gradients import stack_values

TILE_STRIDE, WARPS = 136, 4  # as in common.cuh
BACKWARD_THREADS = 256  # of a block in the backward kernel of the products, as in messages.cu
ROOM_FOR_TWO = 113 * 1024  # of shared memory per block, if two blocks share a multiprocessor of a large GPU
SMALLEST_GROUP = 4  # of nodes j that a block of the attention's backward kernel has at a time
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

    @property
    def has_latents(self) -> bool:
        """True if messages read latents of edges, and not the edges themselves."""
        return len(self.products) == 3

    @property
    def is_wide(self) -> bool:
        """True if latents are made of what edges are given: many numbers per edge."""
        return self.has_latents and self.attention is None


class Options(NamedTuple):
    """The options that are not learnt."""

    slope: float = 0.0  # of the attention's LeakyReLU
    masked: bool = False  # whether not everyone may send to everyone
    norm: bool = False  # whether latents, of what edges are given, are normalised over their features


class Tiling(NamedTuple):
    """The numbers of tiles that the edges (i, j) of a graph are cut into, and their sizes."""

    num_nodes: int
    senders: int
    receivers: int

    @classmethod
    def of(cls, num_nodes: int) -> Tiling:
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

    @property
    def tiles(self) -> int:
        return self.receiver_blocks * self.sender_blocks

    def operand(self, samples: int) -> Output:
        """Returns the shape and type of a product's input or cotangent, tile by tile."""
        return (samples, self.tiles, self.rows, H), jnp.bfloat16

    def signs(self, samples: int, num_products: int) -> Output:
        """Returns those of their signs: a word per thread of the backward kernel."""
        return (samples, self.tiles, num_products, BACKWARD_THREADS), jnp.int32


def attention_bytes(num_nodes: int, num_scalars: int) -> int:
    """Returns the size of what the warps of a block share for the attention, forward: of `AttentionMemory`."""
    steps = -(-num_scalars // 8)
    directions = 3 * steps * (H // 8) * 32  # operands of the matrix units, eight scalars a step
    exchanged = WARPS * 8 * 32 if Tiling.of(num_nodes).senders < 4 * WARPS else 0
    return 4 * (directions + 512 + 8 * steps + num_nodes + exchanged)


def _kernel(name, terms, scalars, weights, options: Options, grid, shared_bytes, rows=(), threads=128) -> Kernel:
    """Returns a kernel of messages.cu. A forward kernel that writes no rows saves nothing for the backward pass."""
    samples, n = terms.shape[:2]
    tiling = Tiling.of(n)
    macros = {
        "N": n, "P": scalars.shape[-1], "SAMPLES": samples, "ATTENTION": int(weights.attention is not None),
        "LATENT": int(weights.has_latents), "MASK": int(options.masked), "NORM": int(options.norm),
        "SLOPE": float(options.slope), "SAVE": int(bool(rows)),
        "SENDERS": tiling.senders, "RECEIVERS": tiling.receivers, "TERMS": terms.shape[-1],
    }  # fmt: skip
    grid = (samples * grid[0], grid[1])
    return Kernel("messages.cu", name, tuple(macros.items()), grid, shared_bytes, *rows, threads=threads)


class Saved(NamedTuple):
    """The results of the forward kernel in training; there is one `tile` per block of senders and receivers."""

    message: Float[Array, "sample node hidden"]
    best: Int[Array, "sample node hidden"]  # the sender that it came from
    record: Float[Array, "sample node node numbers"]  # of the attention: logits, their normaliser, mixed scalars
    signs: Int[Array, "sample tile product word"]  # bits: which inputs of the products are above zero
    operands: tuple[Array, ...]  # these inputs (sample, tile, row, hidden)
    spreads: Float[Array, "sample tile row"] | None  # of latents that are normalised: 1 / their standard deviations


def _products_backward(terms, scalars, weights, saved: Saved, d_message, d_given, options) -> list[Array]:
    """Returns the cotangents of all products; then the gradients of what is received, per block of senders, of what is
    sent, per block of receivers, of the mixed scalars and, per tile, of V, v, b1 and b2.
    """
    samples, n = terms.shape[:2]
    num_scalars, num_products = scalars.shape[-1], len(weights.products)
    tiling = Tiling.of(n)
    # As in messages.cu.
    steps = 1 if weights.is_wide else -(-num_scalars // 8)
    tile, shares = tiling.rows * TILE_STRIDE * 2, BACKWARD_THREADS // 32 * tiling.rows * 8 * steps * 4
    shared = tile + max(tile, shares) + tiling.rows * num_scalars * 4
    rows_read = ((0, "TIMED_scalars"), (3, "TIMED_best"), (4, "TIMED_record"), (5, "TIMED_signs"))
    before_norm = [] if saved.spreads is None else [saved.operands[0], saved.spreads]
    if before_norm:
        first = 7 + len(d_given)
        rows_read += ((first, "TIMED_latents"), (first + 1, "TIMED_spreads"))
    rows_written = (*((i, "TIMED_cotangents") for i in range(num_products)), (num_products + 3, "TIMED_small"))
    kernel = _kernel(
        "messages_backward", terms, scalars, weights, options, (tiling.tiles, 1), shared,
        rows=(rows_read, rows_written), threads=BACKWARD_THREADS,
    )  # fmt: skip
    outputs = [tiling.operand(samples)] * num_products + in_float32(
        (samples, tiling.sender_blocks, n, H),
        (samples, tiling.receiver_blocks, n, H),
        (samples, n, n, num_scalars + (not weights.is_wide)),
        (samples, tiling.tiles, num_scalars + 3, H),
    )
    return kernel(
        scalars, weights.value, weights.transposed, saved.best, saved.record, saved.signs, d_message, *d_given,
        *before_norm, outputs=outputs,
    )  # fmt: skip


class OfFeatures(NamedTuple):
    """The gradients of the features that latents are made of, as the backward kernel of the attention reads them."""

    features: Float[Array, "sample node node feature"]
    values_of_jk: bool
    scale: float  # of the logits
    # Where others read the attention's weights, and add to its logits, behind their scale: gradients of the weights.
    d_weights: Float[Array, "sample node node node"] | None = None


def _attention_backward_bytes(num_nodes: int, num_scalars: int, group: int, has_features: bool) -> int:
    """Returns the bytes that warps share, of a cell of four nodes, `sent` and `width`; see attention_backward.cu."""
    sent = min(-(-num_nodes // 4) * 4, group)
    halves = 1 if num_nodes <= 8 else 2
    width, rows, steps = 8 * halves, (sent + 4) * halves + sent // 2, -(-num_scalars // 8)
    flipped = 4 * num_scalars if 4 < num_scalars < 8 else 32
    words = rows * (32 * (1 if num_scalars <= 4 else 2 * steps) + flipped * steps)  # operands: scalars of edges
    words += sent * 4 * (4 * halves + 4) + 16 * halves  # gradients of logits
    words += WARPS * sent * 64  # what pairs add
    if not 4 < num_scalars <= 8:  # directions and their gradients
        words += 128 * 4 * (steps + 2 * -(-(num_scalars + 4) // 8))
    gradients = WARPS * rows * 8 * (num_scalars + num_scalars % 2)
    if has_features and num_scalars > 6:  # two in a word
        gradients //= 2
    words += max(gradients, 4 * sent * width + 128) + 128 * num_scalars + WARPS
    if has_features:
        words += 4 * sent
    return 4 * words


def features_fit(num_scalars: int) -> bool:
    """Returns whether the GPU in use has room for the attention over edges with this many scalars, at any size."""
    return _attention_backward_bytes(16, num_scalars, SMALLEST_GROUP, True) <= launch.shared_bytes_of_a_block()


def attention_backward(
    terms: Array,
    scalars: Array,
    attention: Attention,
    record: Array,
    d_mixed: Array,
    slope: float,
    of_features: OfFeatures | None = None,
) -> tuple[list[Array], Array, Attention, Array | None]:
    """Returns the gradients of x_i, x_j and x_k (sample, node, hidden), of the scalars, E1, E2, E3 and a, and of what
    others have added to the logits, if they have.

    `d_mixed` are gradients of mixed scalars and, behind those, their inner products with these; or of all features that
    latents are made of.
    """
    samples, n = terms.shape[:2]
    num_scalars = scalars.shape[-1]
    fours = -(-n // 4)
    parts = min(fours, MOST_PARTS)
    room, has_features = launch.shared_bytes_of_a_block(), of_features is not None
    group = 8 if num_scalars > 8 else 16
    if _attention_backward_bytes(n, num_scalars, group, has_features) > room:
        group = SMALLEST_GROUP
    if has_features and _attention_backward_bytes(n, num_scalars, 16, has_features) <= min(ROOM_FOR_TWO, room):
        group = 16
    shared = _attention_backward_bytes(n, num_scalars, group, has_features)
    macros = {"N": n, "P": num_scalars, "SAMPLES": samples, "SLOPE": float(slope), "TERMS": terms.shape[-1]}
    macros |= {"PARTS": parts, "SHARED_BYTES": shared, "GROUP": group, "FEATURES": 0}
    rows_read, features, d_weights = (*ROWS_READ, (4, "TIMED_record")), [], []
    if of_features is not None:
        features = [of_features.features]
        macros |= {"FEATURES": d_mixed.shape[-1], "VALUES_OF_JK": int(of_features.values_of_jk)}
        d_weights = [] if of_features.d_weights is None else [of_features.d_weights]
        macros |= {"SCALE": float(of_features.scale), "ADDED": len(d_weights)}
        rows_read += ((5, "TIMED_features"),)
    kernel = Kernel(
        "attention_backward.cu", "attention_backward", tuple(macros.items()), (samples * parts, 1), shared,
        rows_read, ((4, "TIMED_small"),),
    )  # fmt: skip
    by_part, of_edges = (samples, parts, n, H), (samples, 2 + parts, n, n, num_scalars)
    of_weights, of_logits = (samples, parts, 3 * num_scalars + 1, H), [(samples, n, n, n)] * len(d_weights)
    d_i, d_j, d_k, d_scalars, small, *d_added = kernel(
        terms, scalars, *attention, record, *features, d_mixed, *d_weights,
        outputs=in_float32((samples, n, H), by_part, by_part, of_edges, of_weights, *of_logits),
    )  # fmt: skip
    small = stack_values(small).sum((0, 1))
    d_attention = Attention(small[:-1].reshape(3, num_scalars, H), small[-1])
    return [d_i, d_j.sum(1), d_k.sum(1)], d_scalars.sum(1), d_attention, d_added[0] if d_added else None


def forward(
    terms: Float[Array, "sample node terms"],
    scalars: Float[Array, "sample node node scalar"],
    weights: MessageWeights,
    options: Options,
    connected: Int[Array, "sample node node"] | None = None,
) -> Float[Array, "sample node hidden"]:
    """Returns the message of every node.

    `terms` is, concatenated, what every node adds: with latents x_i, x_j and x_k; then receive and send; then those
    for the update, which are not read here. `connected[i, j]`, of eight bits, lets i send to j; it is given if the
    options say that messages are masked.
    """
    return _run_forward(terms, scalars, weights, options, connected, (), in_float32((*terms.shape[:2], H)))[0]


def forward_saving(
    terms: Array, scalars: Array, weights: MessageWeights, options: Options, connected: Array | None = None
) -> Saved:
    """Does the same, and also returns what the backward pass needs."""
    samples, n = terms.shape[:2]
    num_products = len(weights.products)
    record = (n + 1 + scalars.shape[-1]) if weights.attention is not None else 1
    outputs = [((samples, n, H), jnp.float32), ((samples, n, H), jnp.int32), ((samples, n, n, record), jnp.float32)]
    tiling = Tiling.of(n)
    outputs.append(tiling.signs(samples, num_products))
    written = [(0, "TIMED_message"), (1, "TIMED_best"), (2, "TIMED_record"), (3, "TIMED_signs")]
    if options.norm:
        written.append((len(outputs), "TIMED_spreads"))
        outputs.append(((samples, tiling.tiles, tiling.rows), jnp.float32))
    written += [(len(outputs) + i, "TIMED_operands") for i in range(num_products)]
    outputs += [tiling.operand(samples)] * num_products
    rows = (ROWS_READ, tuple(written))
    message, best, record, signs, *rest = _run_forward(terms, scalars, weights, options, connected, rows, outputs)
    spreads = rest.pop(0) if options.norm else None
    return Saved(message, best, record, signs, tuple(rest), spreads)


def _run_forward(terms, scalars, weights, options: Options, connected, rows, outputs) -> list[Array]:
    assert options.masked == (connected is not None)
    n, num_scalars = terms.shape[1], scalars.shape[-1]
    tiling = Tiling.of(n)
    shared = 2 * tiling.rows * TILE_STRIDE * 2
    if weights.attention is not None:  # what the attention needs is there first
        shared = max(shared, attention_bytes(n, num_scalars))
    steps = -(-num_scalars // 16)
    shared += tiling.rows * 4 * (16 * steps + 8 if weights.is_wide else num_scalars)
    shared += tiling.rows * WARPS * 8 * options.norm
    kernel = _kernel("messages_forward", terms, scalars, weights, options, (tiling.receiver_blocks, 1), shared, rows)
    # Without attention its operands are not read; any will do.
    attention = weights.attention or Attention(weights.value, weights.value_offset)
    operands = (*attention, weights.value, weights.value_offset, weights.fragments, weights.biases)
    masks = [] if connected is None else [connected]
    return kernel(terms, scalars, *operands, *masks, outputs=outputs)


def backward(
    terms: Array,
    scalars: Array,
    weights: MessageWeights,
    saved: Saved,
    d_message: Array,
    options: Options,
    d_given: Array | None = None,
) -> tuple[list[Array], Array, MessageWeights]:
    """Returns the gradients of the terms that are read, one by one, of the scalars and of the weights.

    Where latents are made of what edges are given, `d_given` is what the gradients of that, found elsewhere, are added
    to.
    """
    given = [d_given] if weights.is_wide else []
    *cotangents, receive, send, d_mixed, small = _products_backward(
        terms, scalars, weights, saved, d_message, given, options
    )
    d_products = tuple(
        jnp.einsum("btrh,btrg->hg", operand, stack_values(cotangent), preferred_element_type=jnp.float32)
        for operand, cotangent in zip(saved.operands, cotangents, strict=True)
    )
    small = stack_values(small).sum((0, 1))
    d_terms = [receive.sum(1), send.sum(1)]
    if weights.is_wide:
        d_attention, d_scalars = None, d_mixed
    elif weights.attention is None:
        d_attention, d_scalars = None, d_mixed[..., :-1]
    else:
        d_nodes, d_scalars, d_attention, _ = attention_backward(
            terms, scalars, weights.attention, saved.record, d_mixed, options.slope
        )
        d_terms = [*d_nodes, *d_terms]
    d_weights = MessageWeights(d_attention, small[:-3], small[-3], d_products, small[-2:], NO_GRADIENT, NO_GRADIENT)
    return d_terms, d_scalars, d_weights
