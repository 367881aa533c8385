"""Scores of predictions: pooled F1 for masks, accuracy for the rest, squared error for scalars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, assert_never, runtime_checkable

import numpy as np

from narkit.algorithms import ALGORITHMS
from narkit.data.batch import Batch
from narkit.errors import BatchError
from narkit.spec import Kind, Probe, Stage, first_mask_name, stage_of


@runtime_checkable
class HasOutputs(Protocol):
    """The result of `narkit.predict`, as far as scoring is concerned; this file needs no JAX."""

    @property
    def outputs(self) -> Mapping[str, Any]: ...


def evaluate(algorithm: str, predictions: HasOutputs | Mapping[str, Any], batch: Batch) -> dict[str, float]:
    """Returns the score of every output, and under "score" their mean.

    `predictions` is what `narkit.predict` returns, or a mapping of decoded outputs under the raw names. Masks score by
    F1 pooled over the whole batch, everything else by accuracy; values that are masked out do not count.

    A mapping may also be decoded hints, `predictions.hints`: then the scores are those of the hints, pooled over all
    steps that samples have (of scalars the mean squared error), and there is no "score" beside them.
    """
    entry = ALGORITHMS[algorithm]
    if not isinstance(batch, Batch):
        raise TypeError(f"evaluate: expected a narkit.Batch, got {type(batch).__name__}")
    if batch.algorithm != entry.name:
        raise BatchError(f"expected a batch of {entry.name}, got one of {batch.algorithm}")
    if not len(batch):
        raise BatchError("evaluate: expected a batch with samples, got an empty one")
    predicted = predictions if isinstance(predictions, Mapping) else getattr(predictions, "outputs", None)
    if not isinstance(predicted, Mapping):
        raise TypeError(
            "evaluate: expected what narkit.predict returns, or a mapping of outputs, got a "
            f"{type(predictions).__name__}"
        )
    hints = stage_of(entry.transformed_spec, Stage.HINT)
    if predicted and set(predicted) <= set(hints):
        return {name: _hint_score(name, hints[name], np.asarray(predicted[name]), batch) for name in predicted}
    truth = raw_outputs(batch)
    if set(predicted) != set(truth):
        raise BatchError(f"expected predictions of {sorted(truth)}, got {sorted(predicted)}")
    scores = {}
    for name, probe in stage_of(entry.spec, Stage.OUTPUT).items():
        values = np.asarray(predicted[name])
        if values.shape != truth[name].shape:
            raise BatchError(f"output {name!r}: expected predictions of shape {truth[name].shape}, got {values.shape}")
        scores[name] = score(probe, values, truth[name])
    return scores | {"score": float(np.mean(list(scores.values())))}


def _hint_score(name: str, probe: Probe, predicted: np.ndarray, batch: Batch) -> float:
    """Returns a hint's score over all steps but the first, which networks are given; not a number if there are none."""
    truth = batch.hints[name][1:]
    if predicted.shape[1:] != truth.shape[1:] or len(predicted) < len(truth):
        raise BatchError(f"hint {name!r}: expected predictions of shape {truth.shape}, got {predicted.shape}")
    in_time = np.arange(1, 1 + len(truth))[:, None] < batch.lengths
    return score(probe, predicted[: len(truth)][in_time], truth[in_time]) if in_time.any() else float("nan")


def raw_outputs(batch: Batch) -> dict[str, np.ndarray]:
    """Returns a batch's outputs under the raw names: a permutation and its first-node mask are one pointer again."""
    if not batch.transformed:
        return dict(batch.outputs)
    entry = ALGORITHMS[batch.algorithm]
    outputs = {}
    for name, probe in stage_of(entry.spec, Stage.OUTPUT).items():
        values = batch.outputs[name]
        if probe.kind is Kind.SHOULD_BE_PERMUTATION:
            is_first = batch.outputs[first_mask_name(name)] > 0
            values = np.where(is_first, np.arange(values.shape[-1]), values).astype(values.dtype)
        outputs[name] = values
    return outputs


def score(probe: Probe, predicted: np.ndarray, truth: np.ndarray) -> float:
    """Returns the score of one probe over all given samples."""
    match probe.kind:
        case Kind.SCALAR:
            return float(np.mean((predicted - truth) ** 2))
        case Kind.MASK:
            return _pooled_f1(predicted > 0.5, truth)
        case Kind.MASK_ONE | Kind.CATEGORICAL:
            counts = (truth != -1).all(-1)
            right = predicted.argmax(-1) == truth.argmax(-1)
            return float(right[counts].mean())
        case Kind.POINTER | Kind.SHOULD_BE_PERMUTATION | Kind.PERMUTATION_POINTER:
            return float(np.mean(predicted == truth))
        case _:
            assert_never(probe.kind)


def _pooled_f1(predicted: np.ndarray, truth: np.ndarray) -> float:
    """Returns F1 over all values that count; precision or recall without any case is 1."""
    counts = truth != -1
    true_positives = np.sum(predicted & (truth == 1))
    false_positives = np.sum(predicted & (truth == 0) & counts)
    false_negatives = np.sum(~predicted & (truth == 1))
    found, actual = true_positives + false_positives, true_positives + false_negatives
    precision = true_positives / found if found else 1.0
    recall = true_positives / actual if actual else 1.0
    return float(2 * precision * recall / (precision + recall)) if precision + recall else 0.0
