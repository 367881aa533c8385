"""A whole step of message passing over latents of edges, which decoders may read, too, in fused kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused import latent_features, messages, update
from narkit.fused.latent_features import FeatureWeights
from narkit.fused.latent_features import Options as FeatureOptions
from narkit.fused.messages import MessageWeights
from narkit.fused.update import UpdateWeights
from narkit.fused.weights import HIDDEN_SIZE as H
from narkit.loops.deferred_gradients import keep_values, stack_values


class StepWeights(NamedTuple):
    """The parameters of one network."""

    features: FeatureWeights
    messages: MessageWeights  # of latents: three products, no attention
    update: UpdateWeights


class StepOptions(NamedTuple):
    """The options that are not learnt."""

    features: FeatureOptions
    norm: bool = False  # whether latents are normalised over their features before messages read them

    @property
    def messages(self) -> messages.Options:
        return messages.Options(norm=self.norm)


def latent_step(
    terms: Float[Array, "sample node terms"],
    scalars: Float[Array, "sample node node scalar"],
    hidden: Float[Array, "sample node hidden"],
    weights: StepWeights,
    options: StepOptions,
    added: Float[Array, "sample node node node"] | None = None,
) -> tuple[Float[Array, "sample node hidden"], latent_features.Made]:
    """Returns the next hidden state of every node, and the features that latents of edges are made of.

    `terms` is, concatenated, what every node contributes: x_i, x_j and x_k to the attention; what it adds as the
    receiver and as the sender of a message; to its update and, if there is one, to the gate; with maxima, 24 for
    those. Where something is `added` to the attention's logits, its weights come with the features. Arrays of several
    seeds come through `jax.vmap`.
    """
    return _step(terms, scalars, hidden, weights, added, options)


def _primal(terms, scalars, hidden, weights, added, options):
    made = latent_features.forward(terms, scalars, weights.features, options.features, added)
    message = messages.forward(terms, made.features, weights.messages, options.messages)
    return update.forward(message, terms, hidden, weights.update), made


def _forward(terms, scalars, hidden, weights, added, options):
    # A time loop keeps what is named so for its backward pass, in place of running the kernels once more.
    saved = keep_values(latent_features.forward_saving(terms, scalars, weights.features, options.features, added))
    sent = keep_values(messages.forward_saving(terms, saved.features, weights.messages, options.messages))
    result = keep_values(update.forward(sent.message, terms, hidden, weights.update))
    return (result, saved.made(attends=added is not None)), (terms, scalars, hidden, weights, saved, sent)


def _backward(options, residuals, cotangents):
    terms, scalars, hidden, weights, saved, sent = residuals
    d_result, d_made = cotangents
    d_message, d_last, d_hidden, d_gate, d_vectors = update.backward(
        sent.message, terms, hidden, weights.update, d_result
    )
    d_first, d_features, d_message_weights = messages.backward(
        terms, saved.features, weights.messages, sent, d_message, options.messages, d_made.features
    )
    d_made = d_made._replace(features=d_features)
    out = latent_features.backward(terms, scalars, weights.features, saved, d_made, options.features)
    d_terms = jnp.concatenate([*out.attention_terms, *d_first, d_last, *out.maxima_terms], axis=-1)
    d_terms = stack_values(d_terms)
    of_update = slice(5 * H, 5 * H + d_last.shape[-1])
    d_update = update.gradients_of_weights(sent.message, d_terms[..., of_update], d_gate, d_vectors)
    return d_terms, out.scalars, d_hidden, StepWeights(out.weights, d_message_weights, d_update), out.added


_step: Any = jax.custom_vjp(_primal, nondiff_argnums=(5,))
_step.defvjp(_forward, _backward)
