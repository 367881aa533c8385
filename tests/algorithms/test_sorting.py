"""The four sorts against Python's `sorted`, and what their hints promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narkit.data.execution import run
from narkit.errors import InstanceError
from narkit.spec import ALGORITHMS, Kind, Stage, stage_of

SORTS = ["insertion_sort", "bubble_sort", "heapsort", "quicksort"]
STABLE_SORTS = ["insertion_sort", "bubble_sort"]

# Few different whole numbers give many ties.
keys = st.lists(st.integers(-3, 3).map(float) | st.floats(-1, 1), min_size=2, max_size=12)
check = settings(max_examples=40, deadline=None)


def order_of(pred):
    """The nodes in the order that predecessor pointers describe."""
    (first,) = np.flatnonzero(pred == np.arange(len(pred)))
    after = {int(before): node for node, before in enumerate(pred) if node != first}
    order = [int(first)]
    while order[-1] in after:
        order.append(after[order[-1]])
    return order


@pytest.mark.parametrize("name", SORTS)
@check
@given(A=keys)
def test_output_is_the_sorted_order(name, A):
    order = order_of(run(name, A=A).outputs["pred"][0])
    assert sorted(order) == list(range(len(A)))
    assert [A[node] for node in order] == sorted(A)


@pytest.mark.parametrize("name", STABLE_SORTS)
@check
@given(A=keys)
def test_equal_keys_keep_their_order(name, A):
    order = order_of(run(name, A=A).outputs["pred"][0])
    assert order == sorted(range(len(A)), key=A.__getitem__)


@pytest.mark.parametrize("name", SORTS)
@check
@given(A=keys)
def test_hints_are_well_formed(name, A):
    batch = run(name, A=A)
    for hint, probe in stage_of(ALGORITHMS[name].spec, Stage.HINT).items():
        values = batch.hints[hint][:, 0]
        if probe.kind in (Kind.MASK_ONE, Kind.CATEGORICAL):
            assert (values.sum(axis=-1) == 1).all(), hint
    for pred in batch.hints["pred_h"][:, 0]:
        assert sorted(order_of(pred)) == list(range(len(A)))
    np.testing.assert_array_equal(batch.hints["pred_h"][-1], batch.outputs["pred"])
    assert batch.lengths.tolist() == [len(batch.hints["pred_h"])]


@check
@given(A=keys)
def test_number_of_steps(A):
    n = len(A)
    assert run("insertion_sort", A=A).num_steps == n
    assert run("bubble_sort", A=A).num_steps == 1 + n * (n - 1) // 2
    # At least the start, n steps of building, and two for each maximum taken out.
    assert run("heapsort", A=A).num_steps >= 1 + n + 2 * (n - 1)


@check
@given(A=keys)
def test_heapsort_keeps_a_heap(A):
    batch = run("heapsort", A=A)
    phase = batch.hints["phase"][:, 0].argmax(-1)
    parent = batch.hints["parent"][:, 0]
    key = np.array(A)
    before_taking_out = np.flatnonzero(phase == 1) - 1
    assert len(before_taking_out) == len(A) - 1
    for step in before_taking_out:
        assert (key[parent[step]] >= key).all()
        # One root, and every node that was taken out points to itself.
        taken_out = (phase[: step + 1] == 1).sum()
        assert (parent[step] == np.arange(len(A))).sum() == 1 + taken_out


@check
@given(A=keys)
def test_quicksort_partitions_around_the_pivot(A):
    batch = run("quicksort", A=A)
    first = len(A) - 1  # the step that puts the first pivot in its place
    order = order_of(batch.hints["pred_h"][first, 0])
    pivot = int(batch.hints["i"][first, 0].argmax())
    place = order.index(pivot)
    assert pivot == len(A) - 1
    assert all(A[node] <= A[pivot] for node in order[:place])
    assert all(A[node] > A[pivot] for node in order[place + 1 :])


@pytest.mark.parametrize("name", SORTS)
@pytest.mark.parametrize("A", [[1.0, 0.0], [0.0, 1.0], [0.5] * 2, [0.5] * 7, [3.0, 2.0, 1.0, 0.0]])
def test_edge_cases(name, A):
    order = order_of(run(name, A=A).outputs["pred"][0])
    assert [A[node] for node in order] == sorted(A)


def test_quicksort_of_equal_keys_leaves_them():
    assert order_of(run("quicksort", A=[1.0] * 5).outputs["pred"][0]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", SORTS)
def test_the_given_array_is_not_touched(name):
    A = np.array([3.0, 1.0, 2.0])
    run(name, A=A)
    assert A.tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize("name", SORTS)
@pytest.mark.parametrize(
    ("A", "message"),
    [
        ([], "at least 2 nodes, got 0"),
        ([1.0], "at least 2 nodes, got 1"),
        (3.0, r"expected a vector of numbers \(1 axes\), got an array of shape \(\)"),
        (np.ones((2, 2)), r"expected a vector of numbers \(1 axes\), got an array of shape \(2, 2\)"),
        ([1.0, np.nan], "expected finite numbers, got NaN or infinity"),
        ([1.0, np.inf], "expected finite numbers, got NaN or infinity"),
        (["a", "b"], "expected a vector of numbers, got"),
    ],
)
def test_bad_arguments(name, A, message):
    with pytest.raises(InstanceError, match=message):
        run(name, A=A)


@pytest.mark.parametrize("name", SORTS)
def test_wrong_argument_names(name):
    with pytest.raises(TypeError, match=rf"{name} takes the arguments \['A'\]; missing: \['A'\], unknown: \['keys'\]"):
        run(name, keys=[1.0, 2.0])
