"""A whole step of message passing, with or without a gate and Triplet Edge Attention, in fused kernels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from narkit.fused import messages, update
from narkit.fused.messages import MessageWeights, Options
from narkit.fused.update import UpdateWeights
from narkit.loops.deferred_gradients import keep_values, stack_values


def message_step(
    terms: Float[Array, "sample node terms"],
    scalars: Float[Array, "sample node node scalar"],
    hidden: Float[Array, "sample node hidden"],
    message_weights: MessageWeights,
    update_weights: UpdateWeights,
    slope: float,
    connected: Int[Array, "sample node node"] | None = None,
) -> tuple[Float[Array, "sample node hidden"], Float[Array, "sample node terms"]]:
    """Returns the next hidden state of every node, and the terms for others who read columns behind those of the step.

    `terms` is, concatenated, what every node contributes: with attention x_i, x_j and x_k; then what it adds as the
    receiver and as the sender of a message; then to its update and, if there is one, to the gate. `connected[i, j]`, of
    eight bits, lets i send to j; None lets everyone. Arrays of several seeds come through `jax.vmap`.

    The gradient of what others read is concatenated with those of the step's own terms. If others read the argument
    `terms`, the two would be padded and added.
    """
    options = Options(slope, masked=connected is not None)
    return _step(terms, scalars, hidden, message_weights, update_weights, connected, options)


def _primal(terms, scalars, hidden, message_weights, update_weights, connected, options):
    message = messages.forward(terms, scalars, message_weights, options, connected)
    return update.forward(message, terms, hidden, update_weights), terms


def _forward(terms, scalars, hidden, message_weights, update_weights, connected, options):
    # A time loop keeps what is named so for its backward pass, in place of running the kernels once more.
    saved = keep_values(messages.forward_saving(terms, scalars, message_weights, options, connected))
    result = keep_values(update.forward(saved.message, terms, hidden, update_weights))
    return (result, terms), (terms, scalars, hidden, message_weights, update_weights, saved)


def _backward(options, residuals, cotangents):
    terms, scalars, hidden, message_weights, update_weights, saved = residuals
    d_result, d_read_by_others = cotangents
    d_message, d_last, d_hidden, d_gate, d_vectors = update.backward(
        saved.message, terms, hidden, update_weights, d_result
    )
    d_first, d_scalars, d_message_weights = messages.backward(
        terms, scalars, message_weights, saved, d_message, options
    )
    first = len(d_first) * hidden.shape[-1]
    own = first + d_last.shape[-1]
    d_terms = jnp.concatenate([*d_first, d_last, d_read_by_others[..., own:]], axis=-1)
    d_terms = stack_values(d_terms)
    d_update_weights = update.gradients_of_weights(saved.message, d_terms[..., first:own], d_gate, d_vectors)
    return d_terms, d_scalars, d_hidden, d_message_weights, d_update_weights, None


_step: Any = jax.custom_vjp(_primal, nondiff_argnums=(6,))
_step.defvjp(_forward, _backward)
