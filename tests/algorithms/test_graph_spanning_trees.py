"""Minimum spanning trees against NetworkX."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from narkit.data.execution import run, sample
from narkit.errors import InstanceError

check = settings(max_examples=40, deadline=None)

# Few different whole weights: sums are exact, and ties are common.
graphs = (
    st.integers(2, 10)
    .flatmap(lambda n: arrays(np.float64, (n, n), elements=st.sampled_from([0, 0, 0, 1, 2, 3, 4])))
    .map(lambda A: np.maximum(A, A.T))
)


def least_weight(graph):
    return sum(data["weight"] for _, _, data in nx.minimum_spanning_edges(graph))


@check
@given(A=graphs)
def test_kruskal_finds_a_spanning_forest_of_least_weight(A):
    batch = run("mst_kruskal", A=A)
    in_mst = batch.outputs["in_mst"][0]
    graph = nx.from_numpy_array(A)
    assert np.array_equal(in_mst, in_mst.T)
    assert (A[in_mst == 1] > 0).all()
    assert in_mst.sum() / 2 == len(A) - nx.number_connected_components(graph)
    assert (A * in_mst).sum() / 2 == least_weight(graph)
    assert (batch.hints["phase"].sum(axis=-1) == 1).all()
    assert (np.diff(batch.hints["in_mst_h"][:, 0].astype(int), axis=0) >= 0).all()


@check
@given(A=graphs)
def test_kruskal_ends_with_one_set_per_component(A):
    parents = run("mst_kruskal", A=A).hints["pi"][-1, 0]
    for component in nx.connected_components(nx.from_numpy_array(A)):
        roots = set()
        for v in component:
            while parents[v] != v:
                v = parents[v]
            roots.add(int(v))
        assert len(roots) == 1 and roots <= component


@check
@given(A=graphs, data=st.data())
def test_prim_spans_the_component_of_the_source_at_least_weight(A, data):
    s = data.draw(st.integers(0, len(A) - 1))
    batch = run("mst_prim", A=A, s=s)
    pi = batch.outputs["pi"][0]
    graph = nx.from_numpy_array(A)
    component = nx.node_connected_component(graph, s)
    edges = [(int(pi[v]), v) for v in range(len(A)) if pi[v] != v]
    assert {v for _, v in edges} == component - {s}
    assert not edges or nx.is_tree(nx.Graph(edges))
    assert sum(A[u, v] for u, v in edges) == least_weight(graph.subgraph(component))
    assert batch.lengths[0] == len(component) + 1
    assert set(np.flatnonzero(batch.hints["mark"][-1, 0])) == component
    assert not batch.hints["in_queue"][-1].any()


def test_of_equal_weights_the_lowest_indices_win():
    A = np.ones((20, 20))  # more edges than a sort by insertion would keep in order
    star = np.zeros((20, 20))
    star[0, 1:] = star[1:, 0] = 1
    assert np.array_equal(run("mst_kruskal", A=A).outputs["in_mst"][0], star)
    prim = run("mst_prim", A=A, s=3)
    assert prim.outputs["pi"][0].tolist() == [3] * 20
    assert prim.hints["u"][1:, 0].argmax(axis=-1).tolist() == [3, 0, 1, 2, *range(4, 20)]


@pytest.mark.parametrize("num_nodes", [2, 5])
def test_without_edges(num_nodes):
    A = np.eye(num_nodes)  # self-loops join nothing
    kruskal = run("mst_kruskal", A=A)
    assert kruskal.lengths[0] == 1 and not kruskal.outputs["in_mst"].any()
    prim = run("mst_prim", A=A, s=1)
    assert prim.lengths[0] == 2 and prim.outputs["pi"][0].tolist() == list(range(num_nodes))


@pytest.mark.parametrize("name", ["mst_kruskal", "mst_prim"])
def test_samples_run_at_the_smallest_size(name):
    assert sample(name, size=2, batch_size=4).num_nodes == 2
    with pytest.raises(InstanceError, match="expected a size of at least 2, got 1"):
        sample(name, size=1)


@pytest.mark.parametrize("name", ["mst_kruskal", "mst_prim"])
@pytest.mark.parametrize(
    ("A", "message"),
    [
        (
            [[0, 1], [2, 0]],
            r"expected a symmetric matrix \(an undirected graph\), got A\[0, 1\] = 1.0 but A\[1, 0\] = 2.0",
        ),
        ([[0, -1], [-1, 0]], "argument 'A': expected no negative values, got the minimum -1.0"),
        (np.zeros((2, 3)), r"argument 'A': expected a square matrix, got shape \(2, 3\)"),
        ([[0, np.inf], [np.inf, 0]], "argument 'A': expected finite numbers, got NaN or infinity"),
        (np.zeros((1, 1)), "expected an instance of at least 2 nodes, got 1"),
    ],
)
def test_bad_matrices(name, A, message):
    with pytest.raises(InstanceError, match=message):
        run(name, A=A, **({"s": 0} if name == "mst_prim" else {}))


@pytest.mark.parametrize("s", [2, -1])
def test_source_out_of_range(s):
    with pytest.raises(InstanceError, match=f"argument 's': expected a node in 0..1, got {s}"):
        run("mst_prim", A=np.zeros((2, 2)), s=s)
