"""Shortest paths against SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csgraph

from narkit.data.execution import run, sample
from narkit.errors import InstanceError

FROM_SOURCE = ["bellman_ford", "dijkstra", "dag_shortest_paths"]
ALL = [*FROM_SOURCE, "floyd_warshall"]
check = settings(max_examples=40, deadline=None)

# All weights below are multiples of 1/16, so that sums are exact in any order.


def matrices(elements):
    return st.integers(2, 10).flatmap(lambda n: arrays(np.float64, (n, n), elements=st.sampled_from(elements)))


@st.composite
def graphs_without_negative_cycles(draw):
    """Costs of at least 0 shifted by a potential per node: edges may be negative, cycles cannot.

    Potentials differ by fractions, so no edge and no distance to another node is exactly 0.
    """
    costs = draw(matrices([np.nan, np.nan, 0.0, 1.0, 2.0]))
    potential = np.array(draw(st.permutations(range(len(costs))))) / 16
    return np.nan_to_num(costs + potential[:, None] - potential, nan=0.0)


@st.composite
def acyclic_graphs(draw):
    upper = np.triu(draw(matrices([0.0, 0.0, 1.0, 2.0, -1.5])), 1)
    order = draw(st.permutations(range(len(upper))))
    return upper[order][:, order]


nonnegative_graphs = matrices([0.0, 0.0, 0.0, 1.0, 1.5, 4.0])


def sources(A):
    return st.integers(0, len(A) - 1)


def distances_along(pi, A, s):
    """The lengths of the paths that lead back to the source; infinite where none does."""
    lengths = np.full(len(A), np.inf)
    for v in range(len(A)):
        u, length = v, 0.0
        for _ in range(len(A)):
            if pi[u] == u:
                break
            assert A[pi[u], u] != 0
            length += A[pi[u], u]
            u = pi[u]
        if u == s:
            lengths[v] = length
    return lengths


def assert_shortest(batch, A, s, known):
    """Distances and paths are the shortest; the hint `known` marks the nodes that have one."""
    expected = csgraph.bellman_ford(A, indices=s)
    assert np.array_equal(distances_along(batch.outputs["pi"][0], A, s), expected)
    assert np.array_equal(batch.hints[known][-1, 0] == 1, np.isfinite(expected))
    assert np.array_equal(batch.hints["d"][-1, 0], np.where(np.isfinite(expected), expected, 0))


@check
@given(A=graphs_without_negative_cycles(), data=st.data())
def test_bellman_ford(A, data):
    s = data.draw(sources(A))
    batch = run("bellman_ford", A=A, s=s)
    assert_shortest(batch, A, s, "msk")
    assert batch.lengths[0] <= len(A)


@check
@given(A=nonnegative_graphs, data=st.data())
def test_dijkstra(A, data):
    s = data.draw(sources(A))
    batch = run("dijkstra", A=A, s=s)
    assert_shortest(batch, A, s, "mark")
    taken = batch.hints["u"][1:, 0].argmax(axis=-1)
    assert (np.diff(batch.hints["d"][-1, 0][taken]) >= 0).all()  # nearest first
    assert len(set(taken.tolist())) == len(taken) == batch.hints["mark"][-1].sum()


@check
@given(A=acyclic_graphs(), data=st.data())
def test_dag_shortest_paths(A, data):
    s = data.draw(sources(A))
    batch = run("dag_shortest_paths", A=A, s=s)
    assert_shortest(batch, A, s, "mark")
    phase = batch.hints["phase"][:, 0]
    assert phase[0] == 0 and phase[-1] == 1 and (np.diff(phase) >= 0).all()
    assert phase.sum() == batch.hints["mark"][-1].sum()


@check
@given(A=graphs_without_negative_cycles())
def test_floyd_warshall(A):
    batch = run("floyd_warshall", A=A)
    expected = csgraph.bellman_ford(A)
    others = ~np.eye(len(A), dtype=bool)
    for i, pi in enumerate(batch.outputs["Pi"][0]):
        tree = np.where(np.arange(len(A)) == i, i, pi)  # a node lies on a cycle through itself: cut it there
        unreached = np.isinf(expected[i])
        assert (tree[unreached] == i).all()
        tree[unreached] = np.flatnonzero(unreached)
        assert np.array_equal(distances_along(tree, A, i), expected[i])
    assert batch.lengths[0] == len(A)
    # The last hint knows all paths but those through the last node.
    D, msk = batch.hints["D"][-1, 0], batch.hints["msk"][-1, 0]
    inner = csgraph.bellman_ford(A[:-1, :-1]) if len(A) > 2 else np.array([[0.0]])
    known = np.isfinite(inner)
    assert np.array_equal(msk[:-1, :-1] == 1, known)
    compared = known & others[:-1, :-1]
    assert np.array_equal(D[:-1, :-1][compared], inner[compared])
    assert (D[msk == 0] == 0).all()


@pytest.mark.parametrize("name", FROM_SOURCE)
@pytest.mark.parametrize("num_nodes", [2, 5])
def test_without_edges_only_the_source_is_known(name, num_nodes):
    batch = run(name, A=np.zeros((num_nodes, num_nodes)), s=1)
    assert batch.outputs["pi"][0].tolist() == list(range(num_nodes))
    assert not batch.hints["d"].any()


def test_floyd_warshall_without_edges():
    batch = run("floyd_warshall", A=np.zeros((3, 3)))
    assert batch.outputs["Pi"][0].tolist() == [[0] * 3, [1] * 3, [2] * 3]
    assert (batch.hints["msk"] == np.eye(3)).all() and not batch.hints["D"].any()


def test_complete_graph_of_equal_weights():
    A = np.full((5, 5), 2.0)
    assert run("bellman_ford", A=A, s=2).outputs["pi"][0].tolist() == [2] * 5
    dijkstra = run("dijkstra", A=A, s=2)
    assert dijkstra.outputs["pi"][0].tolist() == [2] * 5
    assert dijkstra.hints["u"][1:, 0].argmax(axis=-1).tolist() == [2, 0, 1, 3, 4]  # of equal distances the lowest index
    assert run("floyd_warshall", A=A).outputs["Pi"][0].tolist() == [[i] * 5 for i in range(5)]


def test_bellman_ford_stops_at_distance_zero_as_the_benchmark_does():
    A = np.zeros((4, 4))
    A[0, 1], A[1, 2], A[2, 3] = 1, -1, 5  # node 2 is first reached at distance 0, which looks like no change
    assert run("bellman_ford", A=A, s=0).outputs["pi"][0].tolist() == [0, 0, 1, 3]


def test_bellman_ford_ignores_a_negative_cycle_out_of_reach():
    A = np.zeros((4, 4))
    A[0, 1], A[2, 3], A[3, 2] = 1, -1, -1
    assert run("bellman_ford", A=A, s=0).outputs["pi"][0].tolist() == [0, 0, 2, 3]


@pytest.mark.parametrize("A", [[[0, 1, 0], [0, 0, 1], [0, -2, 0]], [[0, 1, 0], [0, -1, 1], [0, 0, 0]]])
def test_negative_cycles(A):
    message = "argument 'A': expected no cycle of negative total weight within reach of s = 0, got one that shortens"
    with pytest.raises(InstanceError, match=message):
        run("bellman_ford", A=A, s=0)
    with pytest.raises(
        InstanceError, match=r"argument 'A': expected no cycle of negative total weight, got one through"
    ):
        run("floyd_warshall", A=A)


def test_negative_weights_for_dijkstra():
    with pytest.raises(InstanceError, match=r"argument 'A': expected no negative values, got the minimum -0\.5"):
        run("dijkstra", A=[[0, -0.5], [0, 0]], s=0)


def test_cycles_for_dag_shortest_paths():
    with pytest.raises(InstanceError, match=r"expected a graph without cycles, got a cycle among the nodes \[0, 1\]"):
        run("dag_shortest_paths", A=[[0, 1], [1, 0]], s=0)


@pytest.mark.parametrize("name", ALL)
def test_samples_run_at_the_smallest_size(name):
    assert sample(name, size=2, batch_size=4).num_nodes == 2
    with pytest.raises(InstanceError, match="expected a size of at least 2, got 1"):
        sample(name, size=1)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("A", "message"),
    [
        (np.zeros((2, 3)), r"argument 'A': expected a square matrix, got shape \(2, 3\)"),
        ([[0, np.nan], [0, 0]], "argument 'A': expected finite numbers, got NaN or infinity"),
        (np.zeros((1, 1)), "expected an instance of at least 2 nodes, got 1"),
    ],
)
def test_bad_matrices(name, A, message):
    with pytest.raises(InstanceError, match=message):
        run(name, A=A, **({"s": 0} if name in FROM_SOURCE else {}))


@pytest.mark.parametrize("name", FROM_SOURCE)
@pytest.mark.parametrize("s", [2, -1])
def test_source_out_of_range(name, s):
    with pytest.raises(InstanceError, match=f"argument 's': expected a node in 0..1, got {s}"):
        run(name, A=np.zeros((2, 2)), s=s)
