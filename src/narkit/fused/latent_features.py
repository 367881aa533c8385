"""What the latents of edges are made of, few numbers per edge: two kernels forward, two backward.

With Triplet Edge Attention over the scalars s of edges and, beside it, narrow maxima over third nodes:

    logit_ijk = scale a . LeakyReLU(x_i + x_j + x_k + s_ij E1 + s_ik E2 + s_jk E3) + added_ijk
    alpha_ijk = softmax_k(logit_ijk)
    c_ij      = [sum_k alpha_ijk s_ik || sum_k alpha_ijk s_jk || s_ij || max_k m_ijk]

of which all but the first are optional, as is what is added to logits, and m has 8 features (see `triplet_messages`,
which finds the maxima with other names for nodes). Latents are `ReLU(c C + v)`: they are made by their readers, the
messages and the decoders.

The scalars of an edge are those of both its directions, `[s_ij || s_ji]`, where anything reads both. So
s_ji is s_ij with its halves exchanged.

The forward kernel is the attention's part of that in `messages`, and so is the backward kernel, which also reads
gradients of averages of s_jk. Whoever adds to the logits gets the weights alpha, too, made of what the backward pass
reads, and may give gradients of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from narkit.fused import triplet_messages
from narkit.fused.launch import Kernel, in_float32
from narkit.fused.messages import ROWS_READ, WARPS, Attention, OfFeatures, Tiling, attention_backward, attention_bytes
from narkit.fused.triplet_messages import FEATURES as NUM_MAXIMA
from narkit.loops.deferred_gradients import keep_values


class FeatureWeights(NamedTuple):
    """The parameters of one network, folded for edges with `scalar` scalars (at least one)."""

    attention: Attention
    maxima: Float[Array, "3 scalar 8"] | None  # as `triplet_messages` wants them: of s_ki, of s_kj and of s_ij


class Options(NamedTuple):
    """The options that are not learnt."""

    slope: float  # of the attention's LeakyReLU
    scale: float = 1.0  # of the logits
    values_of_jk: bool = False  # whether averages of s_jk are among the features
    residual: bool = False  # whether the edge itself is


class Made(NamedTuple):
    """The results: features of edges, and the attention's weights where others read them."""

    features: Float[Array, "sample node node feature"]  # c
    attention: Float[Array, "sample node node node"] | None  # alpha, where something is added to the logits


class Saved(NamedTuple):
    """The results of the forward kernels in training."""

    features: Float[Array, "sample node node feature"]  # c
    record: Float[Array, "sample node node numbers"]  # of the attention: logits and their normaliser
    winners: Int[Array, "sample node node 8"] | None  # of the maxima: the third nodes

    def made(self, *, attends: bool) -> Made:
        """Returns the features and, if others read them, the attention's weights."""
        logits, normaliser = self.record[..., :-1], self.record[..., -1:]
        return Made(self.features, jnp.exp(logits - normaliser) if attends else None)


class Gradients(NamedTuple):
    """The results of the backward kernels."""

    attention_terms: list[Array]  # of x_i, x_j and x_k, in this order
    maxima_terms: list[Array]  # (sample, node, 24), if there are maxima
    scalars: Array
    weights: FeatureWeights
    added: Array | None


def latent_features(
    terms: Float[Array, "sample node terms"],
    scalars: Float[Array, "sample node node scalar"],
    weights: FeatureWeights,
    options: Options,
    added: Float[Array, "sample node node node"] | None = None,
) -> Made:
    """Returns c for all edges.

    The first of `terms` are x_i, x_j and x_k; with maxima the last 24 are theirs: those of k, i and j. Arrays of
    several seeds come through `jax.vmap`.
    """
    return _features(terms, scalars, weights, options, added)


def forward(terms: Array, scalars: Array, weights: FeatureWeights, options: Options, added: Array | None) -> Made:
    """Computes c for all edges."""
    if added is not None:
        return forward_saving(terms, scalars, weights, options, added).made(attends=True)
    maxima = []
    if weights.maxima is not None:
        maxima = triplet_messages.forward(terms, scalars, weights.maxima, save=False)
    return Made(_run(terms, scalars, weights, maxima, options, None, ())[0], None)


def forward_saving(
    terms: Array, scalars: Array, weights: FeatureWeights, options: Options, added: Array | None
) -> Saved:
    """Does the same, and also returns what the backward pass needs."""
    maxima, winners = [], None
    if weights.maxima is not None:
        highest, winners = triplet_messages.forward(terms, scalars, weights.maxima, save=True)
        maxima = [highest]
    rows = ((*ROWS_READ, (4, "TIMED_maxima"))[: 2 + len(maxima)], ((0, "TIMED_features"), (1, "TIMED_record")))
    features, record = _run(terms, scalars, weights, maxima, options, added, rows)
    return Saved(features, record, winners)


def _run(terms, scalars, weights, maxima: list[Array], options: Options, added, rows) -> list[Array]:
    samples, n, _, num_scalars = scalars.shape
    tiling = Tiling.of(n)
    num_maxima = NUM_MAXIMA * len(maxima)
    num_features = (1 + options.values_of_jk + options.residual) * num_scalars + num_maxima
    macros = {
        "N": n, "P": num_scalars, "SAMPLES": samples, "TERMS": terms.shape[-1], "SLOPE": float(options.slope),
        "SCALE": float(options.scale), "SENDERS": tiling.senders, "RECEIVERS": tiling.receivers,
        "FEATURES": num_features, "VALUES_OF_JK": int(options.values_of_jk), "RESIDUAL": int(options.residual),
        "MAXIMA": num_maxima, "ADDED": int(added is not None), "SAVE": int(bool(rows)),
    }  # fmt: skip
    shared = attention_bytes(n, num_scalars) + 4 * WARPS * 16 * 17
    grid = (samples * tiling.receiver_blocks, 1)
    kernel = Kernel("latent_features.cu", "features_forward", tuple(macros.items()), grid, shared, *rows)
    outputs = in_float32((samples, n, n, num_features), (samples, n, n, n + 1))
    to_logits = [] if added is None else [added]
    return kernel(terms, scalars, *weights.attention, *maxima, *to_logits, outputs=outputs[: 2 if rows else 1])


def backward(
    terms: Array, scalars: Array, weights: FeatureWeights, saved: Saved, cotangents: Made, options: Options
) -> Gradients:
    num_scalars, d_features = scalars.shape[-1], cotangents.features
    of_features = OfFeatures(saved.features, options.values_of_jk, options.scale, cotangents.attention)
    d_nodes, d_scalars, d_attention, d_added = attention_backward(
        terms, scalars, weights.attention, saved.record, d_features, options.slope, of_features
    )
    first = (1 + options.values_of_jk) * num_scalars
    if options.residual:
        d_scalars = d_scalars + d_features[..., first : first + num_scalars]
        first += num_scalars
    d_of_maxima, d_directions = [], None
    if weights.maxima is not None and saved.winners is not None:
        of_maxima, through_maxima, d_directions = triplet_messages.backward(
            terms, scalars, weights.maxima, saved.winners, d_features, first
        )
        d_of_maxima, d_scalars = [of_maxima], d_scalars + through_maxima
    return Gradients(d_nodes, d_of_maxima, d_scalars, FeatureWeights(d_attention, d_directions), d_added)


def _forward(terms, scalars, weights, options, added):
    saved = keep_values(forward_saving(terms, scalars, weights, options, added))
    return saved.made(attends=added is not None), (terms, scalars, weights, saved)


def _backward(options, residuals, cotangents):
    terms, scalars, weights, saved = residuals
    out = backward(terms, scalars, weights, saved, cotangents, options)
    own = [*out.attention_terms, *out.maxima_terms]
    others = jnp.zeros((*terms.shape[:2], terms.shape[-1] - sum(part.shape[-1] for part in own)))
    d_terms = jnp.concatenate([*out.attention_terms, others, *out.maxima_terms], axis=-1)
    return d_terms, out.scalars, out.weights, out.added


_features: Any = jax.custom_vjp(forward, nondiff_argnums=(3,))
_features.defvjp(_forward, _backward)
