"""Scores of many networks at once on fixed sets, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Float

from narkit.data.batch import Batch
from narkit.data.transforms import transform
from narkit.models.network import DeviceBatch
from narkit.models.scoring import evaluate
from narkit.training.programs import Programs


@dataclass(frozen=True)
class EvaluationSet:
    """A set of instances, cut into equal batches that are on the device already."""

    batch: Batch
    parts: tuple[DeviceBatch, ...]
    counts: tuple[int, ...]  # how many samples of each part count; the last part may be filled up

    @classmethod
    def of(cls, batch: Batch, part_size: int) -> EvaluationSet:
        """Raw batches are transformed, their positions kept."""
        batch = transform(batch, random_positions=False)
        part_size = min(part_size, len(batch))
        parts, counts = [], []
        for start in range(0, len(batch), part_size):
            samples = np.arange(start, start + part_size)
            counts.append(int(np.sum(samples < len(batch))))
            parts.append(jax.device_put(DeviceBatch.of(batch[np.minimum(samples, len(batch) - 1)])))
        return cls(batch, tuple(parts), tuple(counts))

    def scores(
        self, programs: Programs, parameters: Float[Array, "seed parameter"]
    ) -> tuple[list[dict[str, float]], np.ndarray]:
        """For every row of parameters the score of each output and their mean, and the mean output loss."""
        predicted, losses = [], []
        for part, count in zip(self.parts, self.counts, strict=True):
            outputs, loss = programs.predict(parameters, part)
            predicted.append({name: values[:, :count] for name, values in outputs.items()})
            losses.append(loss)
        names = predicted[0]
        joined = {name: np.concatenate([part[name] for part in predicted], axis=1) for name in names}
        scores = [
            evaluate(self.batch.algorithm, {name: joined[name][row] for name in names}, self.batch)
            for row in range(len(parameters))
        ]
        return scores, np.average(losses, axis=0, weights=self.counts)


def distinct_rows(parameters: dict[str, np.ndarray]) -> Iterator[tuple[list[str], np.ndarray]]:
    """Groups of rules that chose the same parameters, so that each choice is scored once."""
    groups: list[tuple[list[str], np.ndarray]] = []
    for rule, values in parameters.items():
        for rules, known in groups:
            if np.array_equal(known, values):
                rules.append(rule)
                break
        else:
            groups.append(([rule], values))
    yield from groups
