"""Transforming gives what networks read, once, and leaves the raw batch alone."""

import numpy as np
import pytest

import narkit
from narkit.data.splits import benchmark_set
from narkit.errors import BatchError
from narkit.spec import Kind, Stage, stage_of

CONSTANT_PRED = {
    "activity_selector",
    "binary_search",
    "find_maximum_subarray_kadane",
    "jarvis_march",
    "kmp_matcher",
    "lcs_length",
    "matrix_chain_order",
    "minimum",
    "naive_string_matcher",
    "optimal_bst",
    "task_scheduling",
}
SORTS = {"insertion_sort", "bubble_sort", "heapsort", "quicksort"}


def arrays_of(batch):
    return {**batch.inputs, **batch.hints, **batch.outputs, "lengths": batch.lengths}


def assert_equal(first, second):
    first, second = arrays_of(first), arrays_of(second)
    assert list(first) == list(second)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], name)


@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_transformed_batch_follows_the_transformed_spec(name):
    raw = benchmark_set(name, 8, 5, seed=0)
    before = {key: values.copy() for key, values in arrays_of(raw).items()}
    batch = narkit.transform(raw)

    assert batch.transformed
    assert narkit.transform(batch, seed=9) is batch
    for stage, given in ((Stage.INPUT, batch.inputs), (Stage.HINT, batch.hints), (Stage.OUTPUT, batch.outputs)):
        probes = stage_of(batch.spec, stage)
        assert list(given) == list(probes)
        for key, probe in probes.items():
            time = (raw.num_steps,) if stage is Stage.HINT else ()
            assert given[key].shape == (*time, 5, *probe.shape(raw.num_nodes)), key
            assert given[key].dtype == probe.dtype, key
    for key, values in arrays_of(raw).items():
        np.testing.assert_array_equal(values, before[key], f"the raw batch's {key} has changed")
    rebuilt = narkit.Batch(
        algorithm=name, inputs=batch.inputs, hints=batch.hints, outputs=batch.outputs, lengths=batch.lengths
    )
    assert rebuilt.transformed
    assert_equal(rebuilt, batch)


def test_constant_hints_and_permutations_are_the_protocols():
    constant = {name for name, entry in narkit.ALGORITHMS.items() if any(p.constant for p in entry.spec.values())}
    permuted = {
        name
        for name, entry in narkit.ALGORITHMS.items()
        if any(p.kind is Kind.SHOULD_BE_PERMUTATION for p in entry.spec.values())
    }
    assert constant == CONSTANT_PRED
    assert permuted == SORTS


def test_a_pure_function_of_batch_and_seed():
    raw = benchmark_set("bfs", 8, 5, seed=0)
    assert_equal(narkit.transform(raw, seed=3), narkit.transform(raw, seed=3))
    first, second = narkit.transform(raw, seed=3), narkit.transform(raw, seed=4)
    assert (first.inputs["pos"] != second.inputs["pos"]).all()
    fewer = narkit.transform(raw[:2], seed=3)
    np.testing.assert_array_equal(fewer.inputs["pos"], first.inputs["pos"][:2])


@pytest.mark.parametrize("name", ["bfs", "lcs_length", "kmp_matcher"])
def test_positions_are_sorted_within_each_string(name):
    batch = narkit.transform(benchmark_set(name, 16, 40, seed=0))
    pos = batch.inputs["pos"]
    string = batch.inputs.get("string", np.zeros(pos.shape, np.int8))
    rises = np.diff(pos, axis=1) >= 0
    assert rises[np.diff(string, axis=1) == 0].all()
    if name != "bfs":
        assert not rises[np.diff(string, axis=1) != 0].all()  # the second string starts afresh
    assert ((pos >= 0) & (pos <= 1)).all()
    assert 0.45 < pos.mean() < 0.55


def test_fixed_positions_can_be_kept():
    raw = benchmark_set("kmp_matcher", 16, 3, seed=0)
    batch = narkit.transform(raw, random_positions=False)
    assert batch.transformed
    np.testing.assert_array_equal(batch.inputs["pos"], raw.inputs["pos"])
    np.testing.assert_array_equal(batch.inputs["pred"], raw.hints["pred_h"][0])
    assert "pred_h" not in batch.hints


@pytest.mark.parametrize("name", sorted(SORTS))
def test_permutations_are_closed_to_one_cycle(name):
    raw = benchmark_set(name, 9, 6, seed=0)
    batch = narkit.transform(raw)
    for b in range(len(raw)):
        order = np.argsort(raw.inputs["key"][b])
        np.testing.assert_array_equal(batch.outputs["pred"][b][order], np.roll(order, 1))
        np.testing.assert_array_equal(np.flatnonzero(batch.outputs["pred_mask"][b]), order[:1])


def test_what_is_no_order_is_refused():
    raw = benchmark_set("insertion_sort", 4, 1, seed=0)
    for pred in ([0, 0, 0, 0], [1, 2, 3, 0], [0, 1, 2, 2]):
        batch = narkit.Batch(
            algorithm="insertion_sort",
            inputs=raw.inputs,
            hints=raw.hints,
            outputs={"pred": [pred]},
            lengths=raw.lengths,
        )
        with pytest.raises(BatchError, match="linear order"):
            narkit.transform(batch)
