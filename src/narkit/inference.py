"""Inference with a trained network."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import jax
from jax.core import Tracer

from narkit import fused
from narkit.algorithms import ALGORITHMS
from narkit.compiler import compiler_options
from narkit.data.batch import Batch
from narkit.errors import BatchError
from narkit.models import predictions
from narkit.models.network import AnyArray, Bind, DeviceBatch, Reasoner
from narkit.models.unrolling import Reprediction, Unrolling, unroll
from narkit.settings import flag


@dataclass(frozen=True)
class Predictions:
    """The predictions of a network for a batch.

    `output_logits` {name: (batch, ...)} and `hint_logits` {name: (steps, batch, ...)} go by the transformed spec;
    `outputs` are decoded to the stored form, under the raw names: a sort's `pred`, without `pred_mask`. `hints` are
    decoded in the same way. Row i of a hint is what step i predicts: compare it with row i + 1 of the batch.
    """

    output_logits: Mapping[str, AnyArray]
    hint_logits: Mapping[str, AnyArray]
    outputs: Mapping[str, AnyArray]
    hints: Mapping[str, AnyArray] = field(default_factory=dict)


def predict(
    reasoner: Reasoner, batch: Batch, *, reprediction: Reprediction | str = Reprediction.SOFT, keep_hints: bool = True
) -> Predictions:
    """Runs a trained network on a batch, raw or transformed. `keep_hints=False` saves memory on long runs."""
    if not isinstance(reasoner, Reasoner) or not isinstance(batch, Batch):
        raise TypeError(
            'predict: expected a narkit.Reasoner and a narkit.Batch, such as predict(reasoner, narkit.sample("bfs", '
            f"size=16)), got {type(reasoner).__name__} and {type(batch).__name__}"
        )
    options = Unrolling(reprediction=reprediction)
    reasoner.check_algorithm(batch.algorithm)
    if not len(batch):
        raise BatchError("predict: expected a batch with samples, got an empty one")
    keep_hints, arrays = flag("keep_hints", keep_hints), DeviceBatch.of(batch)
    # Inside someone's own `jax.jit` the options for XLA are theirs to give.
    is_traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((reasoner, arrays)))
    run = _predict if is_traced else _compiled_predict()
    return Predictions(*run(reasoner, arrays, options, keep_hints, fused.accelerate(reasoner, options).form))


@functools.cache
def _compiled_predict() -> Callable:
    return jax.jit(_predict, static_argnums=(2, 3, 4), compiler_options=compiler_options())


def _predict(reasoner: Reasoner, batch: DeviceBatch, options: Unrolling, keep_hints: bool, bind: Bind | None):
    output_logits, hint_logits = unroll(reasoner, batch, options=options, keep_hints=keep_hints, bind=bind)
    spec = ALGORITHMS[batch.algorithm].transformed_spec
    outputs, hints = (predictions.decode_outputs(spec, logits) for logits in (output_logits, hint_logits))
    return output_logits, hint_logits, outputs, hints
