"""Greedy algorithms: they take the best-looking choice first and never go back on it."""

from collections.abc import Mapping

import numpy as np

from narkit.algorithms import arguments, instances
from narkit.algorithms.recording import fill, fill_identity_order, fill_positions, next_step
from narkit.algorithms.shared_probes import GIVEN_ORDER, POSITION
from narkit.errors import InstanceError
from narkit.spec import algorithm, graph, node


def not_before(start: str) -> arguments.Check:
    """Returns a check that no value is less than the one at the same place in argument `start`."""

    def check(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
        early = np.flatnonzero(value < values[start])
        if len(early):
            i = early[0]
            raise InstanceError(
                f"argument {name!r}: expected no finish before its start, got {start}[{i}] = {values[start][i]} but "
                f"{name}[{i}] = {value[i]}; exchange the two"
            )

    return check


def at_least_one(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    if (value < 1).any():
        raise InstanceError(
            f"argument {name!r}: expected deadlines of at least 1, got {value.min()}; the first task is done at time 1"
        )


@algorithm(
    category="greedy",
    inputs={
        "pos": POSITION,
        "s": node("scalar", "when the activity starts"),
        "f": node("scalar", "when the activity finishes"),
    },
    hints={
        "pred_h": GIVEN_ORDER,
        "selected_h": node("mask", "activities selected so far"),
        "m": node("mask_one", "the activity just considered"),
        "k": node("mask_one", "the activity selected last"),
    },
    outputs={"selected": node("mask", "a largest set of activities that do not overlap")},
    arguments={
        "s": arguments.keys(what="a vector of start times"),
        "f": arguments.keys(arguments.same_length_as("s"), not_before("s"), what="a vector of finish times"),
    },
    sampler=instances.activities,
)
def activity_selector(s, f, probes):
    """Activity selection by earliest finish (CLRS 16.1).

    One hint step is one activity considered; the first row shows the state before any is.
    """
    num_nodes = len(s)
    fill_positions(probes.pos)
    fill(probes.s, s)
    fill(probes.f, f)
    fill_identity_order(probes.pred_h)
    selected = np.zeros(num_nodes, np.int8)

    def snapshot(m, k):
        step = next_step(probes)
        probes.selected_h[step] = selected
        probes.m[step, m] = 1
        probes.k[step, k] = 1

    snapshot(0, 0)
    # Stable, so equal finish times keep the given order. dm-clrs's unstable sort may order ties otherwise.
    by_finish = np.argsort(f, kind="mergesort")
    k = by_finish[0]
    selected[k] = 1
    snapshot(k, k)
    for m in by_finish[1:]:
        if s[m] >= f[k]:
            selected[m] = 1
            k = m
        snapshot(m, k)
    fill(probes.selected, selected)


@algorithm(
    category="greedy",
    inputs={
        "pos": POSITION,
        "d": node("scalar", "deadline of the task, which takes one unit of time"),
        "w": node("scalar", "penalty if the task misses its deadline"),
    },
    hints={
        "pred_h": GIVEN_ORDER,
        "selected_h": node("mask", "tasks selected so far, to be done in time"),
        "i": node("mask_one", "the task just considered"),
        "t": graph("scalar", "the number of tasks selected so far, which is when the last of them is done"),
    },
    outputs={"selected": node("mask", "the tasks to be done in time")},
    arguments={
        "d": arguments.whole_numbers(at_least_one, what="a vector of deadlines, whole numbers of at least 1"),
        "w": arguments.keys(arguments.same_length_as("d"), arguments.nonnegative, what="a vector of penalties"),
    },
    sampler=instances.tasks,
)
def task_scheduling(d, w, probes):
    """Scheduling of unit-time tasks by falling penalty (CLRS 16.5).

    One hint step is one task considered; the first row shows the state before any is. As in dm-clrs, a task is
    selected only if it can be done after all those selected before. The book also moves these to later slots to make
    room, so its schedule can be better.
    """
    num_nodes = len(d)
    fill_positions(probes.pos)
    fill(probes.d, d)
    fill(probes.w, w)
    fill_identity_order(probes.pred_h)
    selected = np.zeros(num_nodes, np.int8)

    def snapshot(i, t):
        step = next_step(probes)
        probes.selected_h[step] = selected
        probes.i[step, i] = 1
        probes.t[step] = t

    t = 0
    snapshot(0, t)
    # Stable, so equal penalties keep the given order. dm-clrs's unstable sort may order ties otherwise.
    for i in np.argsort(-w, kind="mergesort"):
        if t < d[i]:
            selected[i] = 1
            t += 1
        snapshot(i, t)
    fill(probes.selected, selected)
