"""Computational geometry in the plane: crossing segments and convex hulls.

The cross product of two vectors tells on which side of the first the second lies: left where it is positive, right
where it is negative, on the same line where it is zero.
"""

import functools
import math

import numpy as np
from numba import njit

from narkit.algorithms import arguments, instances
from narkit.algorithms.recording import fill, fill_identity_order, fill_positions, next_step
from narkit.errors import InstanceError
from narkit.spec import algorithm, constant, graph, node

INPUTS = {
    "pos": node("scalar", "position of the point in the given order"),
    "x": node("scalar", "x coordinate"),
    "y": node("scalar", "y coordinate"),
}
hull = functools.partial(
    algorithm,
    category="geometry",
    inputs=INPUTS,
    outputs={"in_hull": node("mask", "whether the point is a corner of the convex hull")},
    arguments={
        "xs": arguments.keys(what="a vector of x coordinates"),
        "ys": arguments.keys(arguments.same_length_as("xs"), what="a vector of y coordinates"),
    },
    sampler=instances.points_in_disk,
)
"""The probes that algorithms for the convex hull have in common; they differ in their hints."""
ANGLE_BEFORE_ALL = -123456789.0  # sorts the lowest point before all others


def _four_points(name, value, values):
    if len(value) != 4:
        raise InstanceError(
            f"argument {name!r}: expected 4 coordinates (the ends of segment 0-1, then those of segment 2-3), "
            f"got {len(value)}"
        )


@njit
def _fill_points(probes, xs, ys):
    fill_positions(probes.pos)
    fill(probes.x, xs)
    fill(probes.y, ys)


@njit
def _lowest_point(xs, ys):
    """Returns the lowest point; of several the leftmost, of those the first."""
    best = 0
    for i in range(len(xs)):
        if ys[i] < ys[best] or (ys[i] == ys[best] and xs[i] < xs[best]):
            best = i
    return best


@njit
def _does_not_turn_left(xs, ys, i, j, k):
    """Returns whether the path from i over j to k turns right or goes straight on."""
    return (xs[j] - xs[i]) * (ys[k] - ys[i]) - (ys[j] - ys[i]) * (xs[k] - xs[i]) <= 0


@algorithm(
    category="geometry",
    inputs=INPUTS,
    hints={
        "i": node("mask_one", "one end of the segment that is looked along"),
        "j": node("mask_one", "the other end of the segment that is looked along"),
        "k": node("mask_one", "the point that is looked at, an end of the other segment"),
        "dir": node("scalar", "cross product: the side of the other segment on which the point lies, once it is known"),
        "on_seg": node("mask", "whether the point lies in the box around the other segment, once it is known"),
    },
    outputs={"intersect": graph("mask", "whether the segments intersect")},
    arguments={
        "xs": arguments.keys(_four_points, what="a vector of x coordinates"),
        "ys": arguments.keys(_four_points, what="a vector of y coordinates"),
    },
    sampler=instances.segments,
    multiplier=64,
    min_size=1,
    nodes_of_size=lambda size: 4,
)
def segments_intersect(xs, ys, probes):
    """Whether two segments, 0-1 and 2-3, intersect (CLRS 33.1).

    After a first step without news, one hint step is one end of a segment held against the other segment.
    """
    _fill_points(probes, xs, ys)
    direction = np.zeros(4)
    on_segment = np.zeros(4, np.int8)

    def snapshot(i, j, k):
        step = next_step(probes)
        probes.i[step, i] = 1
        probes.j[step, j] = 1
        probes.k[step, k] = 1
        fill(probes.dir[step], direction)
        fill(probes.on_seg[step], on_segment)

    snapshot(0, 0, 0)
    for k in range(4):
        i, j = (2, 3) if k < 2 else (0, 1)
        direction[k] = (xs[k] - xs[i]) * (ys[j] - ys[i]) - (xs[j] - xs[i]) * (ys[k] - ys[i])
        within_x = min(xs[i], xs[j]) <= xs[k] <= max(xs[i], xs[j])
        within_y = min(ys[i], ys[j]) <= ys[k] <= max(ys[i], ys[j])
        on_segment[k] = within_x and within_y
        snapshot(i, j, k)

    first_is_split = min(direction[0], direction[1]) < 0 < max(direction[0], direction[1])
    second_is_split = min(direction[2], direction[3]) < 0 < max(direction[2], direction[3])
    if first_is_split and second_is_split:
        probes.intersect[0] = 1
    for k in range(4):
        if direction[k] == 0 and on_segment[k] == 1:
            probes.intersect[0] = 1


@hull(
    hints={
        "best": node("mask_one", "the lowest point, once it is known"),
        "atans": node("scalar", "the angle at which the lowest point sees this one, once it is known"),
        "in_hull_h": node("mask", "points on the stack: corners of the hull of the points seen so far"),
        "stack_prev": node("pointer", "the point below this one on the stack; off the stack: itself"),
        "last_stack": node("mask_one", "the point on top of the stack"),
        "i": node("mask_one", "the point that is to go on the stack"),
        "phase": graph(
            "categorical",
            "0: begin, 1: lowest point found, 2: angles found and sorted, 3: point taken off the stack, 4: put on it",
            classes=5,
        ),
    },
)
def graham_scan(xs, ys, probes):
    """Graham's scan for the convex hull (CLRS 33.3).

    The first three hint steps set the scan up; after that one step is one point put on the stack or taken off it.
    Points at the same angle are taken in the given order; in dm-clrs their order depends on the machine. If two of
    them, in line with the lowest point, would empty the stack, the scan has no next step (dm-clrs runs for ever) and
    an `InstanceError` is raised.
    """
    num_nodes = len(xs)
    _fill_points(probes, xs, ys)
    angles = np.zeros(num_nodes)
    in_hull = np.zeros(num_nodes, np.int8)
    stack_prev = np.arange(num_nodes)

    def snapshot(best, top, i, phase):
        step = next_step(probes)
        probes.best[step, best] = 1
        fill(probes.atans[step], angles)
        fill(probes.in_hull_h[step], in_hull)
        fill(probes.stack_prev[step], stack_prev)
        probes.last_stack[step, top] = 1
        probes.i[step, i] = 1
        probes.phase[step, phase] = 1

    snapshot(0, 0, 0, 0)
    best = _lowest_point(xs, ys)
    in_hull[best] = 1
    snapshot(best, best, best, 1)

    for i in range(num_nodes):
        angles[i] = math.atan2(ys[i] - ys[best], xs[i] - xs[best])
    angles[best] = ANGLE_BEFORE_ALL
    order = np.argsort(angles, kind="mergesort")
    angles[best] = 0.0
    snapshot(best, best, best, 2)

    top = best
    for rank in range(1, num_nodes):
        i = order[rank]
        while rank >= 3 and _does_not_turn_left(xs, ys, stack_prev[top], top, i):
            if top == best:
                raise InstanceError(
                    "graham_scan: expected no two points in line with the lowest point (or on top of it), got some; "
                    "remove coincident points, and those between two others"
                )
            below = stack_prev[top]
            in_hull[top] = 0
            stack_prev[top] = top
            top = below
            snapshot(best, top, i, 3)
        in_hull[i] = 1
        stack_prev[i] = top
        top = i
        snapshot(best, top, i, 4)
    fill(probes.in_hull, in_hull)


@hull(
    hints={
        "pred_h": constant(node("pointer", "the point before this one in the given order; the first: itself")),
        "in_hull_h": node("mask", "corners of the hull found so far"),
        "best": node("mask_one", "the lowest point, once it is known"),
        "last_point": node("mask_one", "the corner found last"),
        "endpoint": node("mask_one", "the next corner, as far as the points have been compared"),
        "i": node("mask_one", "the point that was compared last"),
        "phase": graph("categorical", "0: begin, 1: marching around the hull", classes=2),
    },
)
def jarvis_march(xs, ys, probes):
    """Jarvis's march, or gift wrapping, for the convex hull (CLRS 33.3).

    One hint step is one point compared with the next corner found so far, or one corner found. The march ends at
    the first corner that is met again, so it ends on any points; with three of them on a line its corners are those
    that dm-clrs finds, not always the hull's.
    """
    num_nodes = len(xs)
    _fill_points(probes, xs, ys)
    fill_identity_order(probes.pred_h)
    in_hull = np.zeros(num_nodes, np.int8)

    def snapshot(best, last_point, endpoint, i, phase):
        step = next_step(probes)
        fill(probes.in_hull_h[step], in_hull)
        probes.best[step, best] = 1
        probes.last_point[step, last_point] = 1
        probes.endpoint[step, endpoint] = 1
        probes.i[step, i] = 1
        probes.phase[step, phase] = 1

    snapshot(0, 0, 0, 0, 0)
    best = _lowest_point(xs, ys)
    endpoint = best
    while in_hull[endpoint] == 0:
        in_hull[endpoint] = 1
        last_point, endpoint = endpoint, 0
        snapshot(best, last_point, endpoint, 0, 1)
        for i in range(num_nodes):
            is_new = i != last_point and i != endpoint
            if endpoint == last_point or (is_new and _does_not_turn_left(xs, ys, last_point, endpoint, i)):
                endpoint = i
            snapshot(best, last_point, endpoint, i, 1)
    fill(probes.in_hull, in_hull)
