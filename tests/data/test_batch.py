"""A batch built by hand is checked against its algorithm's spec, and arrays come in compact types."""

from typing import Any

import numpy as np
import pytest

import narkit
from narkit.data.splits import benchmark_set
from narkit.errors import BatchError

COMPACT = {
    "scalar": np.float32,
    "mask": np.int8,
    "mask_one": np.int8,
    "categorical": np.int8,
    "pointer": np.int16,
    "should_be_permutation": np.int16,
    "permutation_pointer": np.int16,
}


def fields(batch):
    return {
        "algorithm": batch.algorithm,
        "inputs": dict(batch.inputs),
        "hints": dict(batch.hints),
        "outputs": dict(batch.outputs),
        "lengths": batch.lengths,
    }


@pytest.fixture
def bfs():
    return fields(benchmark_set("bfs", 5, 3, seed=0))


@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_types_are_compact_and_padding_is_zero(name):
    batch = benchmark_set(name, 6, 4, seed=0)
    assert batch.lengths.dtype == np.int32
    for key, values in {**batch.inputs, **batch.hints, **batch.outputs}.items():
        assert values.dtype == COMPACT[batch.spec[key].kind], key
    for key, values in batch.hints.items():
        for b, length in enumerate(batch.lengths):
            assert not values[length:, b].any(), key
    assert batch.num_steps == batch.lengths.max()


@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_raw_batches_can_be_built_by_hand(name):
    batch = benchmark_set(name, 6, 4, seed=0)
    wide: dict[str, Any] = {
        key: {name: values.astype(np.float64) for name, values in value.items()} if isinstance(value, dict) else value
        for key, value in fields(batch).items()
    }
    rebuilt = narkit.Batch(**wide)
    assert not rebuilt.transformed
    for stage in ("inputs", "hints", "outputs"):
        for key, values in getattr(batch, stage).items():
            assert getattr(rebuilt, stage)[key].dtype == values.dtype, key
            np.testing.assert_array_equal(getattr(rebuilt, stage)[key], values)


def test_permutation_pointers_may_be_matrices():
    batch = narkit.transform(benchmark_set("quicksort", 6, 4, seed=0))
    given = fields(batch)
    given["outputs"]["pred"] = np.eye(6)[batch.outputs["pred"]]
    rebuilt = narkit.Batch(**given)
    assert rebuilt.transformed
    assert rebuilt.outputs["pred"].dtype == np.int16
    np.testing.assert_array_equal(rebuilt.outputs["pred"], batch.outputs["pred"])


def test_samples_can_be_chosen():
    batch = benchmark_set("bfs", 5, 6, seed=0)
    chosen = batch[[4, 1]]
    assert len(chosen) == 2
    np.testing.assert_array_equal(chosen.hints["pi_h"], batch.hints["pi_h"][:, [4, 1]])
    assert "2 samples, 5 nodes" in repr(chosen)


def with_(given, stage, name, values):
    return {**given, stage: {**given[stage], name: values}}


@pytest.mark.parametrize(
    ("stage", "name", "values", "message"),
    [
        ("inputs", "pos", np.zeros(5), r"'pos'.*expected shape \(batch, nodes\)"),
        ("inputs", "A", np.zeros((3, 5)), r"input 'A'.*expected shape \(3, 5, 5\), got \(3, 5\)"),
        ("inputs", "A", np.full((3, 5, 5), np.nan), "input 'A'.*expected finite numbers"),
        ("inputs", "A", np.full((3, 5, 5), "x"), "input 'A'.*expected numbers"),
        ("inputs", "adj", np.full((3, 5, 5), 2), "input 'adj'.*expected values -1, 0 or 1"),
        ("inputs", "unknown", np.zeros((3, 5)), "needs the probes.*unknown"),
        ("outputs", "pi", np.full((3, 5), 5), r"output 'pi'.*expected pointers to nodes 0\.\.4"),
        ("outputs", "pi", np.full((3, 5), 0.5), r"output 'pi'.*expected pointers"),
        ("hints", "pi_h", np.zeros((9, 3, 5)), "the same number of steps"),
    ],
)
def test_wrong_arrays_are_refused(bfs, stage, name, values, message):
    with pytest.raises(BatchError, match=message):
        narkit.Batch(**with_(bfs, stage, name, values))


def test_missing_probes_and_wrong_lengths_are_refused(bfs):
    with pytest.raises(BatchError, match="needs the probes"):
        narkit.Batch(**{**bfs, "outputs": {}})
    for lengths in ([0, 1, 1], [1.5, 1, 1], 3):
        with pytest.raises(BatchError, match="one whole number >= 1 per sample"):
            narkit.Batch(**{**bfs, "lengths": lengths})
    with pytest.raises(BatchError, match="expected at most"):
        narkit.Batch(**{**bfs, "lengths": [100, 1, 1]})
    with pytest.raises(ValueError, match="did you mean 'bfs'"):
        narkit.Batch(**{**bfs, "algorithm": "bfss"})


def test_constant_hints_that_change_are_refused():
    given = fields(benchmark_set("minimum", 5, 3, seed=0))
    changed = given["hints"]["pred_h"].copy()
    changed[2, 1, 3] = 0
    with pytest.raises(BatchError, match=r"'pred_h'.*same value at every step.*step 2 of sample 1"):
        narkit.Batch(**with_(given, "hints", "pred_h", changed))
