"""The training objective: the loss of every predicted probe."""

from __future__ import annotations

from typing import assert_never

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from narkit.algorithms import ALGORITHMS
from narkit.models.encoders import as_value
from narkit.models.network import Bind, DeviceBatch, Reasoner
from narkit.models.unrolling import DEFAULT_UNROLLING, Unrolling, unroll
from narkit.spec import Kind, Probe

SMALLEST_COUNT = 1e-12  # a probe without any value that counts costs nothing


def loss(
    reasoner: Reasoner,
    batch: DeviceBatch,
    *,
    key: PRNGKeyArray | None = None,
    options: Unrolling = DEFAULT_UNROLLING,
    training: bool = True,
    num_steps: Int[Array, ""] | None = None,
    bind: Bind | None = None,
) -> Float[Array, ""]:
    """Returns the sum of the losses of all outputs and hints, each the mean over its values that count.

    `num_steps` and `bind` are as for `unroll`.
    """
    output_logits, hint_logits = unroll(
        reasoner, batch, options=options, training=training, key=key, num_steps=num_steps, bind=bind
    )
    parts = output_losses(batch, output_logits) | hint_losses(batch, hint_logits)
    return sum(parts.values(), jnp.zeros(()))


def output_losses(batch: DeviceBatch, logits: dict[str, Array]) -> dict[str, Float[Array, ""]]:
    """Returns the loss of every output."""
    spec = ALGORITHMS[batch.algorithm].transformed_spec
    return {name: _mean(*_costs(spec[name], values, batch.outputs[name])) for name, values in logits.items()}


def hint_losses(batch: DeviceBatch, logits: dict[str, Array]) -> dict[str, Float[Array, ""]]:
    """Returns the loss of every hint: the prediction of step i is compared with the hint of step i + 1."""
    spec = ALGORITHMS[batch.algorithm].transformed_spec
    sums, numbers = {}, {}
    for name, values in logits.items():
        truth = batch.hints[name][1:]
        if not len(truth):  # trajectories of a single step predict no hint
            continue
        cost, counts = _costs(spec[name], values, truth)
        in_time = batch.lengths > jnp.arange(1, len(truth) + 1)[:, None]
        counts = counts & in_time.reshape(*in_time.shape, *(1,) * (counts.ndim - 2))
        of_a_step = tuple(range(1, cost.ndim))
        sums[name] = jnp.where(counts, cost, 0.0).sum(of_a_step)
        numbers[name] = counts.sum(of_a_step)
    if not sums:
        return {}
    # Steps are added up behind a barrier: XLA would make one sum of the two, for which a GPU has a single block per
    # seed, and would compute the costs there.
    sums = jax.lax.optimization_barrier(sums)
    total = jnp.stack(list(sums.values())).sum(1)
    number = jnp.stack(list(numbers.values())).sum(1)
    means = total / jnp.maximum(number, SMALLEST_COUNT)
    return {name: means[i] for i, name in enumerate(sums)}


def _mean(cost: Array, counts: Array) -> Float[Array, ""]:
    return jnp.sum(jnp.where(counts, cost, 0.0)) / jnp.maximum(counts.sum(), SMALLEST_COUNT)


def _costs(probe: Probe, logits: Array, truth: Array) -> tuple[Array, Array]:
    """Returns the loss of every predicted value, and which of them count."""
    match probe.kind:
        case Kind.SCALAR:
            return (logits - truth) ** 2, jnp.ones(logits.shape, bool)
        case Kind.MASK:
            cost = jnp.maximum(logits, 0) - logits * truth + jnp.log1p(jnp.exp(-jnp.abs(logits)))
            return cost, truth != -1
        case Kind.MASK_ONE | Kind.CATEGORICAL:
            is_true = truth == 1
            return -jnp.sum(jnp.where(is_true, jax.nn.log_softmax(logits), 0.0), axis=-1), is_true.any(-1)
        case Kind.POINTER | Kind.PERMUTATION_POINTER:
            # Sinkhorn's result is a logarithm of probabilities already.
            log_probabilities = jax.nn.log_softmax(logits) if probe.kind is Kind.POINTER else logits
            cost = -jnp.sum(as_value(probe, truth, logits.shape[-1]) * log_probabilities, axis=-1)
            return cost, jnp.ones(cost.shape, bool)
        case Kind.SHOULD_BE_PERMUTATION:
            raise ValueError("raw permutations cannot be trained on; transform the batch first")
        case _:
            assert_never(probe.kind)
