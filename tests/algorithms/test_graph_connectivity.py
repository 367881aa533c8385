"""Articulation points, bridges and strong components against NetworkX."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from narkit.data.execution import run, sample
from narkit.errors import InstanceError

check = settings(max_examples=40, deadline=None)


def matrices(least_nodes, weights):
    return st.integers(least_nodes, 10).flatmap(lambda n: arrays(np.float64, (n, n), elements=st.sampled_from(weights)))


directed_graphs = matrices(2, [0.0, 0.0, 0.0, 1.0])
undirected_graphs = matrices(2, [0.0, 0.0, 0.0, 1.0, 0.5]).map(lambda A: np.maximum(A, A.T))


def without_self_loops(A):
    return nx.from_numpy_array(A * (1 - np.eye(len(A))))


@check
@given(A=undirected_graphs)
def test_articulation_points(A):
    batch = run("articulation_points", A=A)
    assert set(np.flatnonzero(batch.outputs["is_cut"][0])) == set(nx.articulation_points(without_self_loops(A)))
    assert np.array_equal(batch.hints["is_cut_h"][-1], batch.outputs["is_cut"])
    assert (batch.hints["low"] <= batch.hints["d"]).all()


@check
@given(A=undirected_graphs)
def test_bridges(A):
    batch = run("bridges", A=A)
    is_bridge = batch.outputs["is_bridge"][0]
    expected = np.where((A != 0) | np.eye(len(A), dtype=bool), 0, -1)
    for u, v in nx.bridges(without_self_loops(A)):
        expected[u, v] = expected[v, u] = 1
    assert np.array_equal(is_bridge, expected)
    assert np.array_equal(batch.hints["is_bridge_h"][-1, 0], is_bridge)


@check
@given(A=directed_graphs)
def test_strongly_connected_components(A):
    batch = run("strongly_connected_components", A=A)
    scc_id = batch.outputs["scc_id"][0]
    found = {frozenset(np.flatnonzero(scc_id == root).tolist()) for root in scc_id}
    expected = nx.strongly_connected_components(nx.from_numpy_array(A, create_using=nx.DiGraph))
    assert found == set(map(frozenset, expected))
    assert (scc_id[scc_id] == scc_id).all()
    phase = batch.hints["phase"][:, 0]
    assert phase[0] == 0 and phase[-1] == 1 and (np.diff(phase) >= 0).all()
    assert np.array_equal(batch.hints["A_t"][0, 0], batch.inputs["adj"][0].T)
    assert (batch.hints["A_t"] == batch.hints["A_t"][0]).all()


@pytest.mark.parametrize("num_nodes", [2, 4, 6])
def test_no_edges_and_all_edges(num_nodes):
    empty, full = np.zeros((num_nodes, num_nodes)), np.ones((num_nodes, num_nodes))
    for A in (empty, full):
        assert not run("articulation_points", A=A).outputs["is_cut"].any()
    assert np.array_equal(run("bridges", A=empty).outputs["is_bridge"][0], np.eye(num_nodes) - 1)
    one_edge = num_nodes == 2
    expected = np.full((num_nodes, num_nodes), int(one_edge)) * (1 - np.eye(num_nodes))
    assert np.array_equal(run("bridges", A=full).outputs["is_bridge"][0], expected)
    alone = run("strongly_connected_components", A=empty).outputs["scc_id"][0]
    assert alone.tolist() == list(range(num_nodes))
    together = run("strongly_connected_components", A=full).outputs["scc_id"][0]
    assert together.tolist() == [0] * num_nodes


def test_path_is_all_cuts_and_bridges():
    path = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)
    assert run("articulation_points", A=path).outputs["is_cut"][0].tolist() == [0, 1, 1, 0]
    assert (run("bridges", A=path).outputs["is_bridge"][0][path > 0] == 1).all()


@pytest.mark.parametrize(
    ("name", "least"), [("articulation_points", 2), ("bridges", 2), ("strongly_connected_components", 4)]
)
def test_smallest_sizes(name, least):
    assert sample(name, size=least, batch_size=4).num_nodes == least
    with pytest.raises(InstanceError, match=f"expected a size of at least {least}, got {least - 1}"):
        sample(name, size=least - 1)
    with pytest.raises(InstanceError, match="expected an instance of at least 2 nodes, got 1"):
        run(name, A=np.zeros((1, 1)))


@pytest.mark.parametrize("name", ["articulation_points", "bridges"])
def test_asymmetric_matrices(name):
    message = (
        r"expected a symmetric matrix \(an undirected graph\), got A\[0, 1\] = 1.0 but A\[1, 0\] = 0.0; symmetrise"
    )
    with pytest.raises(InstanceError, match=message):
        run(name, A=[[0, 1], [0, 0]])


@pytest.mark.parametrize("name", ["articulation_points", "bridges", "strongly_connected_components"])
@pytest.mark.parametrize(
    ("A", "message"),
    [
        (np.zeros((4, 5)), r"argument 'A': expected a square matrix, got shape \(4, 5\)"),
        (np.full((4, 4), np.nan), "argument 'A': expected finite numbers, got NaN or infinity"),
        (np.zeros(4), r"argument 'A': expected a square matrix of edge weights.* got an array of shape \(4,\)"),
    ],
)
def test_bad_matrices(name, A, message):
    with pytest.raises(InstanceError, match=message):
        run(name, A=A)
