"""The conversion of logits to values: soft ones that are fed back into the network, and hard ones that are scored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, PRNGKeyArray

from narkit.loops.deferred_gradients import SAVED
from narkit.spec import Kind, Probe, Spec, first_mask_name

SINKHORN_TEMPERATURE = 0.1
DECODER_SINKHORN_STEPS = 10
SCORING_SINKHORN_STEPS = 50
DIAGONAL_LOGIT = -1e6  # nothing precedes itself
GUMBEL_EPSILON = 1e-12


def log_sinkhorn(
    logits: Float[Array, "*batch node node"], steps: int, key: PRNGKeyArray | None = None
) -> Float[Array, "*batch node node"]:
    """Returns the logarithm of a nearly doubly stochastic matrix with an empty diagonal (Mena et al., 2018).

    With a key, Gumbel noise is added first; training does so.
    """
    if key is not None:
        uniform = jax.random.uniform(key, logits.shape, logits.dtype)
        logits = logits - jnp.log(-jnp.log(uniform + GUMBEL_EPSILON) + GUMBEL_EPSILON)
    logits = logits / SINKHORN_TEMPERATURE + DIAGONAL_LOGIT * jnp.eye(logits.shape[-1], dtype=logits.dtype)

    def normalise(_, x):
        return jax.nn.log_softmax(jax.nn.log_softmax(x, axis=-1), axis=-2)

    return jax.lax.fori_loop(0, steps, normalise, logits)


def finish_logits(spec: Spec, logits: Mapping[str, Array], key: PRNGKeyArray | None) -> dict[str, Array]:
    """Returns logits as decoders give them out: those of permutations pass through Sinkhorn's iteration."""
    finished = dict(logits)
    permutations = [name for name in logits if spec[name].kind is Kind.PERMUTATION_POINTER]
    keys = [None] * len(permutations) if key is None else jax.random.split(key, len(permutations))
    for name, permutation_key in zip(permutations, keys, strict=True):
        finished[name] = log_sinkhorn(logits[name], DECODER_SINKHORN_STEPS, permutation_key)
    return finished


def soften(probe: Probe, logits: Array) -> Array:
    """Returns values that gradients flow through: probabilities, or scalars as they are."""
    match probe.kind:
        case Kind.SCALAR:
            return logits
        case Kind.MASK:
            return jax.nn.sigmoid(logits)
        case Kind.MASK_ONE | Kind.CATEGORICAL | Kind.POINTER:
            return _softmax(logits)
        case Kind.PERMUTATION_POINTER:
            return jnp.exp(log_sinkhorn(logits, SCORING_SINKHORN_STEPS // 2))
        case Kind.SHOULD_BE_PERMUTATION:
            raise ValueError("raw permutations cannot be predicted; transform the batch first")
        case _:
            assert_never(probe.kind)


@jax.custom_vjp
def _softmax(logits: Array) -> Array:
    """Computes a softmax over the last axis, whose gradient needs the result only. A loop over time saves that."""
    return jax.nn.softmax(logits, axis=-1)


def _softmax_forward(logits: Array) -> tuple[Array, Array]:
    probabilities = checkpoint_name(_softmax(logits), SAVED)
    return probabilities, probabilities


def _softmax_backward(probabilities: Array, cotangent: Array) -> tuple[Array]:
    expected = jnp.sum(probabilities * cotangent, axis=-1, keepdims=True)
    return (probabilities * (cotangent - expected),)


_softmax.defvjp(_softmax_forward, _softmax_backward)


def harden(probe: Probe, logits: Array) -> Array:
    """Returns the likeliest values, in the form that networks read; no gradient flows through them."""
    match probe.kind:
        case Kind.SCALAR:
            return jax.lax.stop_gradient(logits)
        case Kind.MASK:
            return (logits > 0).astype(logits.dtype)
        case Kind.MASK_ONE | Kind.CATEGORICAL | Kind.POINTER:
            return jax.nn.one_hot(logits.argmax(-1), logits.shape[-1], dtype=logits.dtype)
        case Kind.PERMUTATION_POINTER:
            sharpened = log_sinkhorn(logits, SCORING_SINKHORN_STEPS)
            return jax.nn.one_hot(sharpened.argmax(-1), logits.shape[-1], dtype=logits.dtype)
        case Kind.SHOULD_BE_PERMUTATION:
            raise ValueError("raw permutations cannot be predicted; transform the batch first")
        case _:
            assert_never(probe.kind)


def decode_outputs(spec: Spec, logits: Mapping[str, Array]) -> dict[str, Array]:
    """Returns predicted outputs, or hints, in the stored form and under the raw names: pointers are indices, a
    permutation and its first-node mask are one predecessor pointer again."""
    first_masks = {first_mask_name(name) for name in logits if spec[name].kind is Kind.PERMUTATION_POINTER}
    decoded = {}
    for name, values in logits.items():
        if name in first_masks:
            continue
        probe = spec[name]
        hard = harden(probe, values)
        match probe.kind:
            case Kind.SCALAR:
                decoded[name] = hard
            case Kind.MASK | Kind.MASK_ONE | Kind.CATEGORICAL:
                decoded[name] = hard.astype(jnp.int8)
            case Kind.POINTER:
                decoded[name] = hard.argmax(-1).astype(jnp.int16)
            case Kind.PERMUTATION_POINTER:
                first = logits[first_mask_name(name)].argmax(-1)[..., None]
                nodes = jnp.arange(hard.shape[-1])
                decoded[name] = jnp.where(nodes == first, nodes, hard.argmax(-1)).astype(jnp.int16)
            case Kind.SHOULD_BE_PERMUTATION:
                raise ValueError("raw permutations cannot be predicted; transform the batch first")
            case _:
                assert_never(probe.kind)
    return decoded
