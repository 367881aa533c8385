"""Breadth-first search, depth-first search and topological sort against NetworkX and plain recursion."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from narkit.data.execution import run, sample
from narkit.errors import InstanceError

check = settings(max_examples=40, deadline=None)


def matrices(weights):
    """Square matrices of 2 to 10 nodes with the given weights, self-loops included."""
    return st.integers(2, 10).flatmap(lambda n: arrays(np.float64, (n, n), elements=st.sampled_from(weights)))


directed_graphs = matrices([0.0, 0.0, 0.0, 1.0, 0.5])


@st.composite
def acyclic_graphs(draw):
    upper = np.triu(draw(matrices([0.0, 1.0, -2.0])), 1)
    order = draw(st.permutations(range(len(upper))))
    return upper[order][:, order]


def assert_single_ones(batch, *names):
    for name in names:
        values = batch.hints[name]
        assert np.isin(values, (0, 1)).all() and (values.sum(axis=-1) == 1).all()


@check
@given(A=directed_graphs, data=st.data())
def test_bfs_reaches_every_node_over_the_fewest_edges(A, data):
    s = data.draw(st.integers(0, len(A) - 1))
    batch = run("bfs", A=A, s=s)
    pi = batch.outputs["pi"][0]
    depth = nx.single_source_shortest_path_length(nx.from_numpy_array(A, create_using=nx.DiGraph), s)
    for v in range(len(A)):
        if v == s or v not in depth:
            assert pi[v] == v
        else:
            above = [u for u in depth if A[u, v] > 0 and depth[u] == depth[v] - 1]
            assert pi[v] == min(above)
    assert batch.lengths[0] == max(depth.values()) + 1
    for step, reach in enumerate(batch.hints["reach_h"][:, 0]):
        assert set(np.flatnonzero(reach)) == {v for v, d in depth.items() if d <= step}


def textbook_dfs(A):
    """The recursion of the book: predecessors, discovery and finishing times."""
    pi, d, f, time = list(range(len(A))), {}, {}, 0

    def visit(u):
        nonlocal time
        time += 1
        d[u] = time
        for v in np.flatnonzero(A[u]):
            if v not in d:
                pi[v] = u
                visit(v)
        time += 1
        f[u] = time

    for s in range(len(A)):
        if s not in d:
            visit(s)
    return pi, d, f


@check
@given(A=directed_graphs)
def test_dfs_is_the_recursion_of_the_book(A):
    batch = run("dfs", A=A)
    pi, d, f = textbook_dfs(A)
    nodes = range(len(A))
    assert batch.outputs["pi"][0].tolist() == pi
    np.testing.assert_allclose(batch.hints["d"][-1, 0], [d[v] / 100 for v in nodes], rtol=1e-6)
    np.testing.assert_allclose(batch.hints["f"][-1, 0], [f[v] / 100 for v in nodes], rtol=1e-6)
    assert batch.lengths[0] == 3 * len(A)  # every node is chosen as a root or followed to, discovered, and finished
    assert (batch.hints["color"][-1, 0] == [0, 0, 1]).all()
    assert_single_ones(batch, "color", "s", "u", "v", "s_last")


def test_dfs_keeps_its_stack_as_a_linked_list():
    path = np.diag(np.ones(3), 1)
    hints = run("dfs", A=path).hints
    deepest = int(np.flatnonzero(hints["s_last"][:, 0, 3])[0])
    assert hints["s_prev"][deepest, 0].tolist() == [0, 0, 1, 2]
    assert hints["s_prev"][-1, 0].tolist() == [0, 1, 2, 3]


@check
@given(A=acyclic_graphs())
def test_topological_sort_lets_every_edge_lead_forward(A):
    batch = run("topological_sort", A=A)
    topo, head = batch.outputs["topo"][0], batch.outputs["topo_head"][0]
    assert head.sum() == 1
    order = [int(head.argmax())]
    while topo[order[-1]] != order[-1]:
        order.append(int(topo[order[-1]]))
    assert sorted(order) == list(range(len(A)))
    place = {v: i for i, v in enumerate(order)}
    assert all(place[u] < place[v] for u, v in np.argwhere(A))
    finished = textbook_dfs(A)[2]
    assert order == sorted(finished, key=finished.__getitem__, reverse=True)
    assert_single_ones(batch, "topo_head_h", "color", "s", "u", "v", "s_last")


@pytest.mark.parametrize("num_nodes", [2, 5])
def test_without_edges_nothing_is_reached(num_nodes):
    A = np.zeros((num_nodes, num_nodes))
    themselves = list(range(num_nodes))
    bfs = run("bfs", A=A, s=1)
    assert bfs.outputs["pi"][0].tolist() == themselves
    assert bfs.lengths[0] == 1
    assert run("dfs", A=A).outputs["pi"][0].tolist() == themselves
    assert run("topological_sort", A=A).outputs["topo"][0].tolist() == [0, *themselves[:-1]]


def test_self_loops_change_nothing_but_the_inputs():
    A = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    for name, source in (("bfs", {"s": 0}), ("dfs", {})):
        plain, looped = run(name, A=A, **source), run(name, A=A + np.eye(3), **source)
        assert np.array_equal(plain.inputs["adj"], looped.inputs["adj"])
        for hint, values in plain.hints.items():
            assert np.array_equal(values, looped.hints[hint])


def test_complete_graph():
    A = np.ones((5, 5))
    assert run("bfs", A=A, s=2).outputs["pi"][0].tolist() == [2] * 5
    assert run("dfs", A=A).outputs["pi"][0].tolist() == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("name", ["bfs", "dfs", "topological_sort"])
def test_samples_run_at_the_smallest_size(name):
    assert sample(name, size=2, batch_size=4).num_nodes == 2
    with pytest.raises(InstanceError, match="expected a size of at least 2, got 1"):
        sample(name, size=1, batch_size=4)


@pytest.mark.parametrize("name", ["bfs", "dfs", "topological_sort"])
@pytest.mark.parametrize(
    ("A", "message"),
    [
        (np.zeros((2, 3)), r"argument 'A': expected a square matrix, got shape \(2, 3\)"),
        (np.zeros(3), r"argument 'A': expected a square matrix of edge weights.* got an array of shape \(3,\)"),
        ([[0, np.nan], [0, 0]], "argument 'A': expected finite numbers, got NaN or infinity"),
        ([["a", "b"], ["c", "d"]], "argument 'A': expected a square matrix of edge weights"),
        (np.zeros((1, 1)), "expected an instance of at least 2 nodes, got 1"),
    ],
)
def test_bad_matrices(name, A, message):
    with pytest.raises(InstanceError, match=message):
        run(name, A=A, **({"s": 0} if name == "bfs" else {}))


@pytest.mark.parametrize(
    ("s", "message"),
    [
        (3, "argument 's': expected a node in 0..2, got 3"),
        (-1, "argument 's': expected a node in 0..2, got -1"),
        (0.5, r"argument 's': expected the index of a node \(whole numbers\)"),
        ([0], r"argument 's': expected the index of a node \(0 axes\)"),
    ],
)
def test_bad_sources(s, message):
    with pytest.raises(InstanceError, match=message):
        run("bfs", A=np.zeros((3, 3)), s=s)


@pytest.mark.parametrize("A", [[[0, 1], [1, 0]], [[1, 0], [0, 0]]])
def test_topological_sort_rejects_cycles(A):
    with pytest.raises(
        InstanceError, match="argument 'A': expected a graph without cycles, got a cycle among the nodes"
    ):
        run("topological_sort", A=A)


def test_missing_and_unknown_arguments():
    with pytest.raises(
        TypeError, match=r"bfs takes the arguments \['A', 's'\]; missing: \['s'\], unknown: \['source'\]"
    ):
        run("bfs", A=np.zeros((2, 2)), source=0)
