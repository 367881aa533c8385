"""The transformation of raw trajectories, as the benchmark publishes them, to what the networks read."""

from __future__ import annotations

import numpy as np

from narkit.algorithms.compilation import permutations
from narkit.algorithms.positions import ONE_STRING, close_to_cycle, randomise_positions
from narkit.data.batch import Arrays, Batch
from narkit.data.execution import NUM_SEEDS, transformed_batch
from narkit.errors import BatchError
from narkit.settings import whole_number
from narkit.spec import ALGORITHMS, first_mask_name


def transform(batch: Batch, seed: int = 0, random_positions: bool = True) -> Batch:
    """Returns the batch as networks read it; one that is transformed already is returned as it is.

    - Positions become sorted random numbers, drawn from `seed`; where there are two strings, sorted within each.
      `random_positions=False` keeps the evenly spaced ones, as the official test does.
    - Constant hints become inputs: `pred_h` -> `pred`.
    - A should-be permutation, the predecessors in a linear order, becomes a cyclic permutation (the first node
      points to the last) and a mask of the first node.

    This is a pure function of its arguments: the given batch stays as it is, though the result shares arrays with it.
    """
    if not isinstance(batch, Batch):
        raise TypeError(f"transform: expected a narkit.Batch, got {type(batch).__name__}")
    if not 0 <= whole_number("seed", seed) < NUM_SEEDS:
        raise BatchError(f"transform: expected a seed in 0..{NUM_SEEDS - 1}, got {seed}")
    if batch.transformed:
        return batch
    entry = ALGORITHMS[batch.algorithm]
    arrays: Arrays = {**batch.inputs, **batch.hints, **batch.outputs}
    masks: Arrays = {}
    for name, probe in entry.spec.items():
        if probe.constant:
            arrays[name] = batch.hints[name][0]
    for name in permutations(entry):
        arrays[name], masks[first_mask_name(name)] = _cycles(batch, name, arrays[name])
    if random_positions:
        arrays["pos"] = _random_positions(batch, seed)
    return transformed_batch(entry, arrays, masks, batch.lengths)


def _random_positions(batch: Batch, seed: int) -> np.ndarray:
    """Draws positions one sample after the other, so that a sample's depend on no later ones."""
    rng = np.random.RandomState(np.random.Philox(key=seed))
    pos = batch.inputs["pos"].copy()
    strings = batch.inputs.get("string")
    for b in range(len(batch)):
        # Run as plain Python (see `randomness`): nothing to compile for a split that is transformed once.
        randomise_positions.py_func(rng, pos[b], ONE_STRING if strings is None else strings[b])
    return pos


def _cycles(batch: Batch, name: str, orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns cyclic permutations and masks of their first nodes, from predecessor pointers (batch, nodes)."""
    pred = orders.copy()
    first_mask = np.zeros(pred.shape, np.int8)
    for b in range(len(batch)):
        close_to_cycle.py_func(pred[b], first_mask[b])
        if first_mask[b].sum() != 1 or len(np.unique(pred[b])) != len(pred[b]):
            raise BatchError(
                f"{name!r} of a {batch.algorithm} batch, sample {b}: expected the predecessors in a linear order of "
                f"the nodes, the first pointing to itself, got {orders[b].tolist()}"
            )
    return pred, first_mask
