"""Segments against exact arithmetic, hulls against SciPy's."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from narkit.data.execution import run, sample
from narkit.errors import InstanceError

HULLS = ["graham_scan", "jarvis_march"]
check = settings(max_examples=40, deadline=None)


def cross(o, a, b):
    return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])


def segments_meet(a, b, c, d):
    """Solves for the crossing with exact fractions; parallel segments meet if an end of one lies on the other."""
    a, b, c, d = ([Fraction(v) for v in point] for point in (a, b, c, d))
    r, s, gap = (b[0] - a[0], b[1] - a[1]), (d[0] - c[0], d[1] - c[1]), (c[0] - a[0], c[1] - a[1])
    denominator = r[0] * s[1] - r[1] * s[0]
    if denominator != 0:
        t = (gap[0] * s[1] - gap[1] * s[0]) / denominator
        u = (gap[0] * r[1] - gap[1] * r[0]) / denominator
        return 0 <= t <= 1 and 0 <= u <= 1

    def lies_on(point, start, end):
        within = all(min(v, w) <= x <= max(v, w) for x, v, w in zip(point, start, end, strict=True))
        return within and cross(start, end, point) == 0

    return lies_on(a, c, d) or lies_on(b, c, d) or lies_on(c, a, b) or lies_on(d, a, b)


small_points = st.tuples(st.integers(0, 3), st.integers(0, 3))  # touching, collinear and coincident ends are common


@settings(max_examples=150, deadline=None)
@given(points=st.lists(small_points, min_size=4, max_size=4))
def test_segments_intersect_where_exact_arithmetic_says_so(points):
    batch = run("segments_intersect", xs=[x for x, _ in points], ys=[y for _, y in points])
    assert batch.outputs["intersect"].tolist() == [segments_meet(*points)]
    assert batch.lengths.tolist() == [5]
    visited = [batch.hints[name][:, 0].argmax(-1).tolist() for name in ("i", "j", "k")]
    assert visited == [[0, 2, 2, 0, 0], [0, 3, 3, 1, 1], [0, 0, 1, 2, 3]]
    expected = [cross(points[2], points[0], points[3]), cross(points[2], points[1], points[3])]
    assert batch.hints["dir"][-1, 0, :2].tolist() == expected


@st.composite
def points_in_general_position(draw):
    """Whole coordinates, so that a float64 cross product is exact; no three points on a line."""
    coordinate = st.integers(-50, 50)
    points = draw(st.lists(st.tuples(coordinate, coordinate), min_size=3, max_size=9, unique=True))
    count = len(points)
    for i in range(count):
        for j in range(i):
            assume(all(cross(points[i], points[j], points[k]) != 0 for k in range(j)))
    return np.array(points, float)


@pytest.mark.parametrize("name", HULLS)
@check
@given(points=points_in_general_position())
def test_hull_is_scipys(name, points):
    batch = run(name, xs=points[:, 0], ys=points[:, 1])
    assert np.flatnonzero(batch.outputs["in_hull"][0]).tolist() == sorted(ConvexHull(points).vertices.tolist())
    lowest = min(range(len(points)), key=lambda i: (points[i, 1], points[i, 0]))
    assert (batch.hints["best"][1:, 0].argmax(-1) == lowest).all()
    np.testing.assert_array_equal(batch.hints["in_hull_h"][-1], batch.outputs["in_hull"])
    assert (batch.hints["phase"].sum(-1) == 1).all()


@pytest.mark.parametrize("name", HULLS)
@pytest.mark.parametrize("size", [4, 16, 48])
def test_hulls_of_random_points(name, size):
    batch = sample(name, size=size, batch_size=16, seed=size)
    for x, y, in_hull in zip(batch.inputs["x"], batch.inputs["y"], batch.outputs["in_hull"], strict=True):
        hull = ConvexHull(np.stack([x, y], axis=1).astype(float))
        assert np.flatnonzero(in_hull).tolist() == sorted(hull.vertices.tolist())


@check
@given(points=points_in_general_position())
def test_grahams_stack_is_a_chain_down_to_the_lowest_point(points):
    hints = run("graham_scan", xs=points[:, 0], ys=points[:, 1]).hints
    for step in range(1, len(hints["best"])):
        best, top = hints["best"][step, 0].argmax(), hints["last_stack"][step, 0].argmax()
        stack_prev, on_stack = hints["stack_prev"][step, 0], {int(top)}
        while stack_prev[top] != top:
            top = stack_prev[top]
            on_stack.add(int(top))
        assert top == best
        assert on_stack == set(np.flatnonzero(hints["in_hull_h"][step, 0]).tolist())


@pytest.mark.parametrize("name", HULLS)
def test_two_points_are_their_own_hull(name):
    assert run(name, xs=[0.0, 1.0], ys=[1.0, 0.0]).outputs["in_hull"].tolist() == [[1, 1]]


@pytest.mark.parametrize(
    "points",
    [
        [(0, 0), (1, 1), (2, 2), (3, 3)],  # all on a line through the lowest point
        [(0, 0), (0, 0), (0, 0), (0, 0)],
        [(1, 0), (0, 0), (2, 0), (3, 0), (1, 0)],
    ],
)
def test_graham_scan_refuses_points_that_empty_its_stack(points):
    xs, ys = np.array(points, float).T
    with pytest.raises(InstanceError, match=r"no two points in line with the lowest point .* remove coincident points"):
        run("graham_scan", xs=xs, ys=ys)
    run("graham_scan", xs=[0.0, 4.0, 1.0, 0.0], ys=[0.0, 1.0, 1.0, 4.0])  # and runs on after that


@pytest.mark.parametrize("name", HULLS)
@check
@given(points=st.lists(small_points, min_size=2, max_size=10))
def test_hulls_end_on_any_points(name, points):
    xs, ys = np.array(points, float).T
    try:
        batch = run(name, xs=xs, ys=ys)
    except InstanceError:
        assert name == "graham_scan"
    else:
        lowest = min(range(len(points)), key=lambda i: (ys[i], xs[i]))
        assert batch.outputs["in_hull"][0, lowest] == 1


def test_equal_angles_keep_the_given_order():
    hints = run("graham_scan", xs=[0.0, 1.0, 2.0], ys=[0.0, 1.0, 2.0]).hints
    assert hints["i"][3:, 0].argmax(-1).tolist() == [1, 2]
    hints = run("graham_scan", xs=[0.0, 2.0, 1.0], ys=[0.0, 2.0, 1.0]).hints
    assert hints["i"][3:, 0].argmax(-1).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("segments_intersect", {"xs": [0, 1, 2], "ys": [0, 1, 2, 3]}, "'xs': expected 4 coordinates .* got 3"),
        ("segments_intersect", {"xs": [0, 1, 2, 3], "ys": [0, 1, 2, 3, 4]}, "'ys': expected 4 coordinates .* got 5"),
        ("segments_intersect", {"xs": [0, 1, 2, np.inf], "ys": [0, 1, 2, 3]}, "'xs': expected finite numbers"),
        ("graham_scan", {"xs": [0, 1, 2], "ys": [0, 1]}, "'ys': expected 3 elements to go with 3 of 'xs', got 2"),
        ("jarvis_march", {"xs": [0, 1], "ys": [0, 1, 2]}, "'ys': expected 2 elements to go with 2 of 'xs', got 3"),
        ("graham_scan", {"xs": [0], "ys": [0]}, "at least 2 nodes, got 1"),
        ("jarvis_march", {"xs": [], "ys": []}, "at least 2 nodes, got 0"),
        ("graham_scan", {"xs": [0, np.nan], "ys": [0, 1]}, "'xs': expected finite numbers, got NaN"),
        (
            "jarvis_march",
            {"xs": [[0, 1]], "ys": [0, 1]},
            "'xs': expected a vector of x coordinates .1 axes., got an array",
        ),
    ],
)
def test_bad_instances_are_refused(name, arguments, message):
    with pytest.raises(InstanceError, match=message):
        run(name, **arguments)


def test_segments_have_four_nodes_at_any_size_and_meet_in_half_of_the_samples():
    batch = sample("segments_intersect", size=16, batch_size=1000, seed=3)
    assert batch.num_nodes == 4
    assert abs(batch.outputs["intersect"].mean() - 0.5) < 0.08
    assert sample("segments_intersect", size=1, batch_size=2).num_nodes == 4


@pytest.mark.parametrize(("name", "smallest"), [("segments_intersect", 1), ("graham_scan", 2), ("jarvis_march", 2)])
def test_smallest_sizes(name, smallest):
    assert len(sample(name, size=smallest, batch_size=4)) == 4
    with pytest.raises(InstanceError, match=f"size of at least {smallest}"):
        sample(name, size=smallest - 1)
