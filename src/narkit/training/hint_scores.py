"""Scores of hints without keeping predictions: counts are taken at every step, and added up at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from narkit.models.predictions import harden
from narkit.spec import Kind, Probe, Spec


def count(
    spec: Spec, logits: dict[str, Array], truth: dict[str, Array], in_time: Bool[Array, " batch"]
) -> dict[str, Array]:
    """Returns what `unroll` should keep of each step so that `scores` can be computed: three numbers per hint."""
    return {name: _count(spec[name], values, truth[name], in_time) for name, values in logits.items()}


def _count(probe: Probe, logits: Array, truth: Array, in_time: Array) -> Array:
    """Counts, for masks, the true positives, false positives and false negatives; else the correct ones (of scalars:
    the sum of squared errors), and how many there were."""
    match probe.kind:
        case Kind.MASK:
            predicted, counts = logits > 0, _per_sample(in_time, truth) & (truth != -1)
            cases = (predicted & (truth == 1), predicted & (truth == 0), ~predicted & (truth == 1))
            return jnp.stack([jnp.sum(case & counts) for case in cases])
        case Kind.SCALAR:
            counts = jnp.broadcast_to(_per_sample(in_time, truth), truth.shape)
            return jnp.stack([jnp.sum(jnp.where(counts, (logits - truth) ** 2, 0.0)), counts.sum(), 0.0])
        case Kind.MASK_ONE | Kind.CATEGORICAL:
            right, counts = logits.argmax(-1) == truth.argmax(-1), (truth != -1).all(-1)
        case Kind.POINTER:
            right, counts = logits.argmax(-1) == truth, jnp.ones(truth.shape, bool)
        case Kind.PERMUTATION_POINTER:
            right, counts = harden(probe, logits).argmax(-1) == truth, jnp.ones(truth.shape, bool)
        case Kind.SHOULD_BE_PERMUTATION:
            raise ValueError("raw permutations cannot be predicted; transform the batch first")
        case _:
            assert_never(probe.kind)
    counts = counts & _per_sample(in_time, counts)
    return jnp.stack([jnp.sum(right & counts), counts.sum(), jnp.zeros((), jnp.int32)])


def _per_sample(in_time: Array, like: Array) -> Array:
    return in_time.reshape(-1, *(1,) * (like.ndim - 1))


def scores(spec: Spec, counts: Iterable[Mapping[str, np.ndarray]]) -> dict[str, float]:
    """Returns the score of every hint over all steps and samples: pooled F1 of masks, the mean squared error of
    scalars, the share of correct ones of the rest.

    `counts` has, part by part, arrays (step, 3). A hint that never occurs is left out.
    """
    totals: dict[str, np.ndarray] = {}
    for part in counts:
        for name, values in part.items():
            totals[name] = totals.get(name, np.zeros(3)) + np.asarray(values).astype(np.float64).sum(0)
    results = {}
    for name, (first, second, third) in totals.items():
        if spec[name].kind is Kind.MASK:
            cases = 2 * first + second + third
            results[name] = float(2 * first / cases) if cases else 1.0  # nothing to find, nothing found: as for outputs
        elif second:
            results[name] = float(first / second)
    return results
