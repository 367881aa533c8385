"""Minimum, binary search and quickselect against the standard library."""

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narkit.data.execution import run
from narkit.errors import InstanceError
from narkit.spec import ALGORITHMS

numbers = st.integers(-3, 3).map(float) | st.floats(-1, 1)
keys = st.lists(numbers, min_size=2, max_size=12)
check = settings(max_examples=40, deadline=None)


def marked(mask):
    """The one node that a mask marks."""
    (node,) = np.flatnonzero(mask)
    assert mask[node] == 1
    return int(node)


@check
@given(A=keys)
def test_minimum(A):
    batch = run("minimum", A=A)
    assert marked(batch.outputs["min"][0]) == A.index(min(A))
    assert batch.num_steps == len(A)
    for step in range(len(A)):
        assert marked(batch.hints["i"][step, 0]) == step
        assert marked(batch.hints["min_h"][step, 0]) == A.index(min(A[: step + 1]))


@check
@given(x=numbers, A=keys)
def test_binary_search(x, A):
    A = sorted(A)
    batch = run("binary_search", x=x, A=A)
    place = min(bisect_left(A, x), len(A) - 1)
    assert marked(batch.outputs["return"][0]) == place
    assert batch.inputs["target"].tolist() == [np.float32(x)]
    low, high, mid = ([marked(row) for row in batch.hints[hint][:, 0]] for hint in ("low", "high", "mid"))
    assert (low[0], high[0]) == (0, len(A) - 1)
    assert low[-1] == high[-1] == place
    for step in range(batch.num_steps):
        assert low[step] <= place <= high[step]
        assert mid[step] == (low[step] + high[step]) // 2
    assert batch.num_steps <= 1 + int(np.ceil(np.log2(len(A))))


@check
@given(A=keys)
def test_quickselect(A):
    batch = run("quickselect", A=A)
    median = marked(batch.outputs["median"][0])
    assert A[median] == sorted(A)[len(A) // 2]
    # The last step has just put the median in its place.
    assert marked(batch.hints["pivot"][-1, 0]) == marked(batch.hints["i"][-1, 0]) == median
    assert batch.hints["i_rank"][-1, 0] == batch.hints["target"][-1, 0]
    assert batch.hints["target"][0, 0] == np.float32((len(A) // 2) / len(A))
    for hint in ("p", "r", "i", "j", "pivot"):
        assert (batch.hints[hint].sum(axis=-1) == 1).all()


def test_quickselect_follows_the_pivot_hint_of_the_reference():
    batch = run("quickselect", A=[2.0, 3.0, 1.0])
    # Pivot 1.0 goes to the front by changing places with 2.0; the rest, (3.0, 2.0), is divided by 2.0.
    assert batch.hints["pivot"][:, 0].argmax(-1).tolist() == [2, 2, 2, 0, 0]
    assert marked(batch.outputs["median"][0]) == 0


@pytest.mark.parametrize("name", ["minimum", "binary_search"])
def test_constant_order(name):
    arguments = {"A": [1.0, 2.0, 3.0, 4.0]} | ({"x": 2.5} if name == "binary_search" else {})
    batch = run(name, **arguments)
    assert ALGORITHMS[name].spec["pred_h"].constant
    assert batch.hints["pred_h"].shape == (batch.num_steps, 1, 4)
    assert (batch.hints["pred_h"] == [0, 0, 1, 2]).all()


@pytest.mark.parametrize("A", [[1.0, 0.0], [0.0, 1.0], [0.5] * 2, [0.5] * 7])
def test_edge_cases(A):
    assert marked(run("minimum", A=A).outputs["min"][0]) == A.index(min(A))
    assert A[marked(run("quickselect", A=A).outputs["median"][0])] == sorted(A)[len(A) // 2]


def test_binary_search_beyond_either_end():
    A = [1.0, 2.0, 3.0]
    assert marked(run("binary_search", x=0.0, A=A).outputs["return"][0]) == 0
    assert marked(run("binary_search", x=9.0, A=A).outputs["return"][0]) == 2


def test_binary_search_among_equal_keys_returns_the_first():
    assert marked(run("binary_search", x=1.0, A=[1.0] * 6).outputs["return"][0]) == 0
    assert marked(run("binary_search", x=2.0, A=[1.0, 2.0, 2.0, 2.0]).outputs["return"][0]) == 1


@pytest.mark.parametrize("name", ["minimum", "quickselect"])
@pytest.mark.parametrize(
    ("A", "message"),
    [
        ([1.0], "at least 2 nodes, got 1"),
        (np.ones((2, 2)), r"expected a vector of numbers \(1 axes\), got an array of shape \(2, 2\)"),
        ([1.0, np.nan], "expected finite numbers, got NaN or infinity"),
        (["a", "b"], "expected a vector of numbers, got"),
    ],
)
def test_bad_keys(name, A, message):
    with pytest.raises(InstanceError, match=message):
        run(name, A=A)


@pytest.mark.parametrize(
    ("x", "A", "message"),
    [
        (1.0, [1.0, 3.0, 2.0], "argument 'A': expected sorted numbers, got 3.0 before 2.0 at 1; sort them first"),
        (1.0, [1.0], "at least 2 nodes, got 1"),
        (1.0, [1.0, np.nan], "argument 'A': expected finite numbers, got NaN or infinity"),
        (1.0, 1.0, r"argument 'A': expected a vector of sorted numbers \(1 axes\), got an array of shape \(\)"),
        (np.nan, [1.0, 2.0], "argument 'x': expected finite numbers, got NaN or infinity"),
        ([1.0], [1.0, 2.0], r"argument 'x': expected the number to look for \(0 axes\), got an array of shape \(1,\)"),
        ("one", [1.0, 2.0], "argument 'x': expected the number to look for, got 'one'"),
    ],
)
def test_bad_arguments_of_binary_search(x, A, message):
    with pytest.raises(InstanceError, match=message):
        run("binary_search", x=x, A=A)


def test_missing_argument():
    with pytest.raises(
        TypeError, match=r"binary_search takes the arguments \['x', 'A'\]; missing: \['x'\], unknown: \[\]"
    ):
        run("binary_search", A=[1.0, 2.0])
