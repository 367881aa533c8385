"""Published weights scored again, to see that a network reaches its record's test score on the official test."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from narkit.data.splits import load_split
from narkit.models.serialization import load
from narkit.training.evaluation import EvaluationSet, as_run
from narkit.training.programs import Programs
from narkit.training.record import RunRecord

TOLERANCE = 0.5  # percentage points: weights are published in bfloat16, and devices round differently
PART = 32


@dataclass(frozen=True)
class Rescored:
    """The test score of published weights in percent: what the record says, and what was found now."""

    path: Path
    algorithm: str
    said: float
    found: float

    @property
    def agrees(self) -> bool:
        return abs(self.found - self.said) <= TOLERANCE


def choose(records: Iterable[tuple[Path, RunRecord]], count: int | None) -> list[tuple[Path, RunRecord]]:
    """Chooses so many of the records at random, or all, that can be scored again: with weights and test scores."""
    possible = [(path, record) for path, record in records if record.weights is not None and record.test]
    if count is None or count >= len(possible):
        return possible
    chosen = sorted(random.SystemRandom().sample(range(len(possible)), count))
    return [possible[place] for place in chosen]


def rescore(path: Path, record: RunRecord) -> list[Rescored]:
    """Scores the weights beside a record on the official test split of every algorithm of its run."""
    weights = record.weights
    if weights is None:
        raise ValueError(f"{path}: expected a record with weights")
    config, parameters = as_run(load(path.parent / weights.file))
    programs, row = Programs(config), record.config.seeds.index(weights.seed)
    results = []
    for name in record.test:
        (scores,) = EvaluationSet.of(load_split(name, "test"), PART).scores(programs, parameters)
        said = record.test[name][weights.rule][row]["score"]
        results.append(Rescored(path, name, 100 * said, 100 * scores.outputs["score"]))
    return results
