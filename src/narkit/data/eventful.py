"""Random runs in which something happens, for looking at: a spanning tree of two edges shows nothing."""

from __future__ import annotations

import itertools

import numpy as np

from narkit.data.batch import Batch
from narkit.data.execution import random_run
from narkit.spec import Kind, Stage, stage_of

TRIED_SEEDS = 24
SMALL = 5
LARGER = {  # where a size of five means next to nothing: components of one node, needles of one character
    "strongly_connected_components": 8,
    "lcs_length": 8,
    "naive_string_matcher": 12,
    "kmp_matcher": 12,
}


def readable_size(algorithm: str, smallest: int = SMALL) -> int:
    """Returns a size at which a run can be followed by eye and yet something happens."""
    return max(smallest, LARGER.get(algorithm, 0))


def eventful_run(algorithm: str, size: int, density: float) -> Batch:
    """Returns the run of the first of a few seeds whose output is least trivial and in which most hints change."""
    runs = (random_run(algorithm, size, seed, density) for seed in range(TRIED_SEEDS))
    return max(runs, key=_events)


def _events(batch: Batch) -> tuple[float, int, int]:
    """Returns how much an output says, how many hints change during the run, and how many letters there are, if any."""
    outputs = stage_of(batch.spec, Stage.OUTPUT)
    said = min(_variety(probe.kind, batch.outputs[name][0]) for name, probe in outputs.items())
    changing = sum(
        any((before != after).any() for before, after in itertools.pairwise(values[: batch.lengths[0], 0]))
        for values in batch.hints.values()
    )
    letters = batch.inputs["key"][0] if batch.inputs.get("key", np.zeros(0)).ndim == 3 else np.zeros((0, 0))
    return said, changing, int(letters.any(axis=0).sum())


def _variety(kind: Kind, values: np.ndarray) -> float:
    """Rates values from 0 (all alike) to 1: how evenly a mask is split, how many nodes pointers name."""
    match kind:
        case Kind.POINTER | Kind.SHOULD_BE_PERMUTATION | Kind.PERMUTATION_POINTER:
            moved = values != np.arange(values.shape[-1])
            return float(min(1, moved.mean()) * (len(np.unique(values)) > 2))
        case Kind.MASK if values.ndim == 2:  # edges, in both directions: as many as a tree has, but not all
            ones = int((values == 1).sum())
            return min(1.0, ones / (2 * len(values) - 2)) * float((values == 0).any())
        case Kind.MASK:
            return float((values == 1).any() and (values.ndim == 0 or (values == 0).any()))
        case Kind.MASK_ONE:
            return float(0 < values.argmax() < len(values) - 1)
        case Kind.CATEGORICAL | Kind.SCALAR:
            return float(len(np.unique(values)) > 2)
