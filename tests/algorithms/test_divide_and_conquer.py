"""Kadane's maximum subarray against the sums of all runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narkit.data.execution import run
from narkit.errors import InstanceError
from narkit.spec import ALGORITHMS

NAME = "find_maximum_subarray_kadane"

# Whole numbers, so that sums are exact in any order.
keys = st.lists(st.integers(-9, 9), min_size=2, max_size=12)
check = settings(max_examples=40, deadline=None)


def bounds(batch):
    start, end = batch.outputs["start"][0], batch.outputs["end"][0]
    assert start.sum() == end.sum() == 1
    return int(start.argmax()), int(end.argmax())


@check
@given(A=keys)
def test_no_run_has_a_larger_sum(A):
    start, end = bounds(run(NAME, A=A))
    assert start <= end
    assert sum(A[start : end + 1]) == max(sum(A[i : j + 1]) for i in range(len(A)) for j in range(i, len(A)))


@check
@given(A=keys)
def test_hints_show_the_best_runs_so_far(A):
    batch = run(NAME, A=A)
    assert batch.num_steps == len(A)
    hints = {name: values[:, 0] for name, values in batch.hints.items()}
    for j in range(len(A)):
        ending_here = max(sum(A[i : j + 1]) for i in range(j + 1))
        so_far = max(sum(A[i : k + 1]) for k in range(j + 1) for i in range(k + 1))
        assert hints["sum"][j] == ending_here
        assert hints["best_sum"][j] == so_far
        assert hints["j"][j].argmax() == j
        assert sum(A[hints["i"][j].argmax() : j + 1]) == ending_here
        assert sum(A[hints["best_low"][j].argmax() : hints["best_high"][j].argmax() + 1]) == so_far
    for name in ("best_low", "best_high", "i", "j"):
        assert (hints[name].sum(axis=-1) == 1).all()
    assert (hints["pred_h"] == np.maximum(np.arange(len(A)) - 1, 0)).all()
    assert ALGORITHMS[NAME].spec["pred_h"].constant


@pytest.mark.parametrize(
    ("A", "expected"),
    [
        ([1, 2], (0, 1)),
        ([-2, -1], (1, 1)),
        ([-1, -2], (0, 0)),
        ([-3] * 5, (0, 0)),  # of equal runs the first
        ([2] * 5, (0, 4)),
        ([1, -1, 1], (0, 0)),
        ([-1, 0, 5], (1, 2)),  # a sum of zero is carried on
    ],
)
def test_edge_cases(A, expected):
    assert bounds(run(NAME, A=A)) == expected


def test_a_sum_that_vanishes_in_rounding_is_carried_on():
    assert bounds(run(NAME, A=[-1e-20, 1.0])) == (0, 1)


@pytest.mark.parametrize(
    ("A", "message"),
    [
        ([1.0], "at least 2 nodes, got 1"),
        (np.ones((2, 2)), r"expected a vector of numbers \(1 axes\), got an array of shape \(2, 2\)"),
        ([1.0, np.nan], "expected finite numbers, got NaN or infinity"),
        (["a", "b"], "expected a vector of numbers, got"),
    ],
)
def test_bad_arguments(A, message):
    with pytest.raises(InstanceError, match=message):
        run(NAME, A=A)
