"""Minimum spanning trees."""

import numpy as np
from numba import njit

from narkit.algorithms import arguments, instances
from narkit.algorithms.recording import fill, fill_graph, fill_matrix, identity, next_step, take_out_least
from narkit.algorithms.shared_probes import QUEUE, graph_algorithm, graph_algorithm_with_source
from narkit.spec import Densities, edge, graph, node

EDGE_DECIDED, CLIMBING_FROM_U, CLIMBING_FROM_V = 0, 1, 2  # the phases of Kruskal's algorithm


@graph_algorithm(
    hints={
        "in_mst_h": edge("mask", "edges taken into the forest"),
        "pi": node("pointer", "parent in the disjoint-set forest; the root of a set: itself"),
        "u": node("mask_one", "one end of the edge under examination"),
        "v": node("mask_one", "the other end of the edge under examination"),
        "root_u": node("mask_one", "where the climb from u towards its root stands"),
        "root_v": node("mask_one", "where the climb from v towards its root stands"),
        "mask_u": node("mask", "nodes passed on the climb from u"),
        "mask_v": node("mask", "nodes passed on the climb from v"),
        "phase": graph("categorical", "0: the edge is decided; 1: climbing from u; 2: climbing from v", classes=3),
    },
    outputs={"in_mst": edge("mask", "edges of the minimum spanning forest, in both directions")},
    arguments={"A": arguments.matrix(arguments.symmetric, arguments.nonnegative)},
    sampler=instances.weighted_graph,
    densities=Densities().halved(official=0.2),
)
def mst_kruskal(A, probes):
    """Kruskal's minimum spanning tree (CLRS 23.2), with disjoint sets as trees under path compression (21.3).

    Edges are examined by increasing weight. One hint step is one move for the edge at hand: it is picked up, the
    climb to the root of one of its ends goes one node up, or the edge is taken or left. The benchmark considers
    positive weights only.
    """
    num_nodes = len(A)
    fill_graph(probes, A)

    pi = identity(num_nodes)
    in_mst = np.zeros((num_nodes, num_nodes), np.int8)
    mask_u = np.zeros(num_nodes, np.int8)
    mask_v = np.zeros(num_nodes, np.int8)

    def snapshot(u, v, root_u, root_v, phase):
        step = next_step(probes)
        fill_matrix(probes.in_mst_h[step], in_mst)
        fill(probes.pi[step], pi)
        probes.u[step, u] = 1
        probes.v[step, v] = 1
        probes.root_u[step, root_u] = 1
        probes.root_v[step, root_v] = 1
        fill(probes.mask_u[step], mask_u)
        fill(probes.mask_v[step], mask_v)
        probes.phase[step, phase] = 1

    snapshot(0, 0, 0, 0, EDGE_DECIDED)
    starts, ends = np.nonzero(np.triu(A, 1))
    weights = np.empty(len(starts))
    for i in range(len(starts)):
        weights[i] = A[starts[i], ends[i]]
    # A stable sort: of equal weights the edge of lower indices comes first. The benchmark's sort leaves that open.
    for i in np.argsort(weights, kind="mergesort"):
        u, v = starts[i], ends[i]
        root_u, root_v = u, v
        mask_u[:] = 0
        mask_v[:] = 0
        mask_u[u] = 1
        mask_v[v] = 1
        snapshot(u, v, root_u, root_v, CLIMBING_FROM_U)
        while pi[root_u] != root_u:
            root_u = pi[root_u]
            _hang_under(root_u, mask_u, pi)
            mask_u[root_u] = 1
            snapshot(u, v, root_u, root_v, CLIMBING_FROM_U)
        while pi[root_v] != root_v:
            root_v = pi[root_v]
            _hang_under(root_v, mask_v, pi)
            mask_v[root_v] = 1
            snapshot(u, v, root_u, root_v, CLIMBING_FROM_V)
        if root_u != root_v:
            in_mst[u, v] = 1
            in_mst[v, u] = 1
            pi[min(root_u, root_v)] = max(root_u, root_v)
        snapshot(u, v, root_u, root_v, EDGE_DECIDED)
    fill_matrix(probes.in_mst, in_mst)


@njit
def _hang_under(root, mask, pi):
    """Makes the marked nodes children of `root`: path compression."""
    for i in range(len(pi)):
        if mask[i] == 1:
            pi[i] = root


@graph_algorithm_with_source(
    hints={
        "pi_h": node(
            "pointer", "where the lightest known edge from the tree comes from; if none, and the source: itself"
        ),
        "key": node("scalar", "weight of the lightest known edge from the tree to the node; 0 where none is"),
    }
    | QUEUE,
    outputs={"pi": node("pointer", "parent in the minimum spanning tree; unreached nodes and the source: themselves")},
    arguments={"A": arguments.matrix(arguments.symmetric, arguments.nonnegative), "s": arguments.source()},
    sampler=instances.weighted_graph_and_source,
)
def mst_prim(A, s, probes):
    """Prim's minimum spanning tree (CLRS 23.2).

    One hint step is one node that joins the tree. The queue holds only nodes that an edge from the tree reaches,
    so the search stays within the source's component.
    """
    num_nodes = len(A)
    fill_graph(probes, A)
    probes.s[s] = 1

    key = np.zeros(num_nodes)
    mark = np.zeros(num_nodes, np.int8)
    in_queue = np.zeros(num_nodes, np.int8)
    pi = identity(num_nodes)

    def snapshot(u):
        step = next_step(probes)
        fill(probes.pi_h[step], pi)
        fill(probes.key[step], key)
        fill(probes.mark[step], mark)
        fill(probes.in_queue[step], in_queue)
        probes.u[step, u] = 1

    in_queue[s] = 1
    snapshot(s)
    u = take_out_least(key, in_queue)
    while u >= 0:
        mark[u] = 1
        weights = A[u]
        for v in range(num_nodes):
            if mark[v] == 0 and weights[v] != 0 and (in_queue[v] == 0 or weights[v] < key[v]):
                pi[v] = u
                key[v] = weights[v]
                in_queue[v] = 1
        snapshot(u)
        u = take_out_least(key, in_queue)
    fill(probes.pi, pi)
