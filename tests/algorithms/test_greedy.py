"""Activity selection against brute force, and task scheduling against its rule and the optimum."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narkit.data.execution import run
from narkit.errors import InstanceError

check = settings(max_examples=40, deadline=None)


def activities(shortest):
    """Start and finish times on a coarse grid, so that ties abound."""
    activity = st.tuples(st.integers(0, 8), st.integers(shortest, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))
    return st.lists(activity, min_size=2, max_size=9)


tasks = st.lists(st.tuples(st.integers(1, 10), st.integers(0, 5)), min_size=2, max_size=9)


def select(chosen):
    s, f = np.array(chosen, float).T
    return run("activity_selector", s=s, f=f)


def schedule(given_tasks):
    d, w = np.array(given_tasks).T
    return run("task_scheduling", d=d, w=w)


def compatible(chosen):
    return all(a[1] <= b[0] or b[1] <= a[0] for a, b in combinations(chosen, 2))


def can_all_be_in_time(deadlines):
    return all(sum(d <= t for d in deadlines) <= t for t in range(1, len(deadlines) + 1))


def nodes(mask):
    return np.flatnonzero(mask).tolist()


@check
@given(chosen=activities(shortest=1))
def test_activities_are_a_largest_compatible_set(chosen):
    selected = [chosen[node] for node in nodes(select(chosen).outputs["selected"][0])]
    assert compatible(selected)
    larger = combinations(chosen, len(selected) + 1)
    assert not any(compatible(candidate) for candidate in larger)


@check
@given(chosen=activities(shortest=0))
def test_activities_without_duration_are_still_compatible(chosen):
    selected = [chosen[node] for node in nodes(select(chosen).outputs["selected"][0])]
    assert selected
    assert compatible(selected)


@check
@given(chosen=activities(shortest=0))
def test_activities_are_considered_by_finish_and_then_as_given(chosen):
    batch = select(chosen)
    assert batch.num_steps == len(chosen) + 1
    considered = batch.hints["m"][1:, 0].argmax(-1).tolist()
    assert considered == sorted(range(len(chosen)), key=lambda node: chosen[node][1])
    assert (batch.hints["m"].sum(-1) == 1).all()
    assert (batch.hints["k"].sum(-1) == 1).all()
    assert not batch.hints["selected_h"][0].any()
    np.testing.assert_array_equal(batch.hints["selected_h"][-1], batch.outputs["selected"])


@check
@given(given_tasks=tasks)
def test_tasks_follow_the_rule(given_tasks):
    batch = schedule(given_tasks)
    order = sorted(range(len(given_tasks)), key=lambda node: -given_tasks[node][1])
    assert batch.hints["i"][1:, 0].argmax(-1).tolist() == order
    selected = []
    for step, node in enumerate(order, start=1):
        if given_tasks[node][0] > len(selected):
            selected.append(node)
        assert nodes(batch.hints["selected_h"][step, 0]) == sorted(selected)
        assert batch.hints["t"][step, 0] == len(selected)
    assert batch.hints["t"][0, 0] == 0
    assert nodes(batch.outputs["selected"][0]) == sorted(selected)


@check
@given(given_tasks=tasks)
def test_tasks_can_be_done_in_time(given_tasks):
    selected = [given_tasks[node] for node in nodes(schedule(given_tasks).outputs["selected"][0])]
    assert can_all_be_in_time([d for d, _ in selected])
    best = max(
        sum(w for _, w in subset)
        for size in range(len(given_tasks) + 1)
        for subset in combinations(given_tasks, size)
        if can_all_be_in_time([d for d, _ in subset])
    )
    assert sum(w for _, w in selected) <= best
    assert max(w for _, w in given_tasks) <= sum(w for _, w in selected)


def test_tasks_selected_earlier_do_not_move_to_make_room():
    # Both could be done: the second first. The book's schedule has both, the benchmark's only one.
    assert nodes(schedule([(2, 5), (1, 4)]).outputs["selected"][0]) == [0]


def test_equal_activities_and_tasks():
    assert nodes(select([(0, 1)] * 4).outputs["selected"][0]) == [0]
    assert nodes(schedule([(2, 1)] * 4).outputs["selected"][0]) == [0, 1]


def test_smallest_sizes():
    assert nodes(select([(0, 1), (1, 2)]).outputs["selected"][0]) == [0, 1]
    assert nodes(select([(0, 2), (1, 3)]).outputs["selected"][0]) == [0]
    assert nodes(schedule([(1, 1), (1, 2)]).outputs["selected"][0]) == [1]


def test_many_ties_keep_the_given_order():
    # NumPy's default sort orders ties differently from one processor to another; a stable one does not.
    considered = select([(0, 1 + node % 2) for node in range(40)]).hints["m"][1:, 0].argmax(-1).tolist()
    assert considered == [*range(0, 40, 2), *range(1, 40, 2)]


def test_constant_order():
    for batch in (select([(0, 1), (1, 2), (2, 3)]), schedule([(1, 1), (2, 2), (3, 3)])):
        assert (batch.hints["pred_h"] == [0, 0, 1]).all()


@pytest.mark.parametrize(
    ("s", "f", "message"),
    [
        ([0.0, 1.0], [1.0], "argument 'f': expected 2 elements to go with 2 of 's', got 1"),
        (
            [0.0, 2.0],
            [1.0, 1.5],
            r"expected no finish before its start, got s\[1\] = 2.0 but f\[1\] = 1.5; exchange the two",
        ),
        ([0.0], [1.0], "at least 2 nodes, got 1"),
        ([0.0, np.nan], [1.0, 1.0], "argument 's': expected finite numbers, got NaN or infinity"),
        ([[0.0, 1.0]], [1.0, 1.0], r"argument 's': expected a vector of start times \(1 axes\), got an array of shape"),
        ([0.0, 1.0], "late", "argument 'f': expected a vector of finish times, got 'late'"),
    ],
)
def test_bad_activities(s, f, message):
    with pytest.raises(InstanceError, match=message):
        run("activity_selector", s=s, f=f)


@pytest.mark.parametrize(
    ("d", "w", "message"),
    [
        ([1, 2], [1.0], "argument 'w': expected 2 elements to go with 2 of 'd', got 1"),
        ([0, 2], [1.0, 1.0], "argument 'd': expected deadlines of at least 1, got 0"),
        ([1.5, 2.0], [1.0, 1.0], r"argument 'd': expected .* \(whole numbers\), got"),
        ([1, 2], [1.0, -1.0], "argument 'w': expected no negative values, got the minimum -1.0"),
        ([1, 2], [1.0, np.inf], "argument 'w': expected finite numbers, got NaN or infinity"),
        ([1], [1.0], "at least 2 nodes, got 1"),
        ([[1, 2]], [1.0, 1.0], "argument 'd': expected a vector of deadlines"),
    ],
)
def test_bad_tasks(d, w, message):
    with pytest.raises(InstanceError, match=message):
        run("task_scheduling", d=d, w=w)


def test_missing_argument():
    with pytest.raises(
        TypeError, match=r"task_scheduling takes the arguments \['d', 'w'\]; missing: \['w'\], unknown: \[\]"
    ):
        run("task_scheduling", d=[1, 2])
