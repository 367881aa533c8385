"""Scores of many networks at once on fixed sets, in bounded memory."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from narkit.data.batch import Batch
from narkit.data.splits import SPLITS, benchmark_set, load_split, validation_set
from narkit.data.transforms import transform
from narkit.models.network import DeviceBatch, Reasoner
from narkit.models.scoring import evaluate
from narkit.spec import ALGORITHMS
from narkit.training import hint_scores
from narkit.training.config import BENCHMARK, TrainConfig, Validation
from narkit.training.programs import Programs

VALIDATION_PART = 128
TEST_PART = 32
LARGEST_WHOLE = 32  # instances beyond this size are validated in parts as small as those of the test


def validation_part(size: int) -> int:
    """Returns the number of instances of this size that a validation predicts at once."""
    return VALIDATION_PART if size <= LARGEST_WHOLE else TEST_PART


@dataclass(frozen=True)
class Scores:
    """The scores of one network on a set: of each output and, under "score", their mean; of each hint, where asked for;
    and the mean loss of the outputs."""

    outputs: dict[str, float]
    hints: dict[str, float]
    loss: float


@dataclass(frozen=True)
class EvaluationSet:
    """A set of instances, predicted and scored part by part.

    Only a part at a time is on the device, unless the set is kept there because it is used again and again. Without
    hints, only their first row is moved. A part has samples of about the same length: it runs as many steps as its
    longest one.
    """

    batch: Batch
    part_size: int
    with_hints: bool = False
    kept_parts: tuple[DeviceBatch, ...] = ()

    @classmethod
    def of(cls, batch: Batch, part_size: int, *, with_hints: bool = False, keep: bool = False) -> EvaluationSet:
        """Makes a set from a batch; raw batches are transformed, their positions kept."""
        batch = transform(batch, random_positions=False)
        made = cls(batch, min(part_size, len(batch)), with_hints)
        return replace(made, kept_parts=tuple(map(jax.device_put, made.parts()))) if keep else made

    @classmethod
    def of_validation(cls, algorithm: str, validation: Validation) -> EvaluationSet:
        """Makes a set that is scored again and again during training."""
        return cls.of(validation_batch(algorithm, validation), validation_part(validation.size), keep=True)

    @classmethod
    def of_test(cls, algorithm: str) -> EvaluationSet:
        """Makes the official test split, whose hints are scored, too."""
        return cls.of(load_split(algorithm, "test"), TEST_PART, with_hints=True)

    @functools.cached_property
    def order(self) -> np.ndarray:
        """The numbers of the samples, the longest first, as parts have them."""
        return np.argsort(-self.batch.lengths, kind="stable")

    @property
    def counts(self) -> list[int]:
        """The number of samples of each part that count; the last part may be filled up."""
        starts = range(0, len(self.batch), self.part_size)
        return [min(self.part_size, len(self.batch) - start) for start in starts]

    def parts(self) -> Iterator[DeviceBatch]:
        if self.kept_parts:
            yield from self.kept_parts
            return
        for start in range(0, len(self.batch), self.part_size):
            chosen = self.batch[self.order[np.minimum(np.arange(start, start + self.part_size), len(self.batch) - 1)]]
            if self.with_hints:  # samples that only fill up must not be counted
                lengths = np.where(np.arange(start, start + self.part_size) < len(self.batch), chosen.lengths, 1)
                hints = chosen.hints
            else:
                lengths, hints = chosen.lengths, {name: values[:1] for name, values in chosen.hints.items()}
            yield DeviceBatch(chosen.algorithm, chosen.inputs, hints, chosen.outputs, lengths)

    def scores(
        self,
        programs: Programs,
        parameters: Float[Array, "seed parameter"],
        before_part: Callable[[], None] = lambda: None,
    ) -> list[Scores]:
        """Scores every row of parameters. `before_part` is called before each part; it may raise to end this."""
        outputs, losses, hint_counts = [], [], []
        for part, count in zip(self.parts(), self.counts, strict=True):
            before_part()
            predicted = programs.predict(parameters, part, self.with_hints)
            outputs.append({name: values[:, :count] for name, values in predicted.outputs.items()})
            losses.append(predicted.losses)
            hint_counts.append(predicted.hint_counts)
        places = np.argsort(self.order)
        joined = {name: np.concatenate([part[name] for part in outputs], axis=1)[:, places] for name in outputs[0]}
        loss = np.average(losses, axis=0, weights=self.counts)
        return [
            Scores(
                evaluate(self.batch.algorithm, {name: values[row] for name, values in joined.items()}, self.batch),
                hint_scores.scores(
                    self.batch.spec, ({name: counts[row] for name, counts in part.items()} for part in hint_counts)
                ),
                float(loss[row]),
            )
            for row in range(len(parameters))
        ]


def as_run(reasoner: Reasoner) -> tuple[TrainConfig, Float[Array, "seed parameter"]]:
    """Returns a network as a run of one seed, whose programs predict what it predicts, and its parameters."""
    config = TrainConfig(
        reasoner.algorithms,
        reasoner.processor_name,
        processor_options=json.loads(reasoner.processor_options),
        hidden_size=reasoner.hidden_size,
        hints=reasoner.hints.value,
        seeds=(0,),
        **reasoner.interfaces.options,
    )
    return config, ravel_pytree(reasoner)[0][None]


def validation_batch(algorithm: str, validation: Validation) -> Batch:
    """Returns the instances of a validation set, as networks read them."""
    size, seed = validation.size, validation.seed
    if validation.distribution == BENCHMARK:
        num_samples = validation.num_samples * ALGORITHMS[algorithm].multiplier
        drawn = benchmark_set(algorithm, size, num_samples, SPLITS["val"].seed if seed is None else seed)
        return transform(drawn, random_positions=False)
    return validation_set(algorithm, size, validation.num_samples, seed or 0)
