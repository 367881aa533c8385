"""Shortest paths, from one source and between all pairs."""

from collections.abc import Mapping

import numpy as np
from numba import njit

from narkit.algorithms import arguments, instances
from narkit.algorithms import shared_probes as shared
from narkit.algorithms.recording import fill, fill_graph, fill_matrix, fill_search, identity, next_step, take_out_least
from narkit.algorithms.shared_probes import BLACK, GRAY, WHITE
from narkit.errors import InstanceError
from narkit.spec import edge, graph, node

SHORTEST_PATH_TREE = {
    "pi": node("pointer", "predecessor on a shortest path from the source; unreached nodes and the source: themselves")
}
PATHS_SO_FAR = {
    "pi_h": node("pointer", "predecessor on the shortest path found so far; where none is, and the source: itself"),
    "d": node("scalar", "length of the shortest path found so far; 0 where none is"),
}


def _no_negative_cycle_in_reach(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    """Checks that the source reaches no negative cycle: what n rounds of relaxing do not finish falls forever."""
    A = values["A"]
    weights = np.where(A != 0, A, np.inf)
    d = before = np.full(len(A), np.inf)
    d[value] = 0.0
    for _ in range(len(A)):
        before, d = d, np.minimum(d, (d[:, None] + weights).min(axis=0))
        if np.array_equal(d, before):
            return
    raise InstanceError(
        f"argument 'A': expected no cycle of negative total weight within reach of {name} = {value}, got one that "
        f"shortens the paths to the nodes {np.flatnonzero(d < before).tolist()} forever; remove it"
    )


def _no_negative_cycle(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    D = np.where((value != 0) | np.eye(len(value), dtype=bool), value, np.inf)
    for k in range(len(D)):
        D = np.minimum(D, D[:, k, None] + D[k])
        if (D.diagonal() < 0).any():
            raise InstanceError(
                f"argument {name!r}: expected no cycle of negative total weight, got one through the nodes "
                f"{np.flatnonzero(D.diagonal() < 0).tolist()}; remove it"
            )


@shared.graph_algorithm_with_source(
    hints=PATHS_SO_FAR | {"msk": node("mask", "nodes to which a path has been found")},
    outputs=SHORTEST_PATH_TREE,
    arguments={"A": arguments.matrix(), "s": arguments.source(_no_negative_cycle_in_reach)},
    sampler=instances.weighted_graph_and_source,
)
def bellman_ford(A, s, probes):
    """Bellman-Ford's shortest paths from one source (CLRS 24.1); weights may be negative.

    One hint step is one round in which all edges are relaxed at once. The rounds end when no distance changes.
    """
    num_nodes = len(A)
    fill_graph(probes, A)
    probes.s[s] = 1

    d = np.zeros(num_nodes)
    pi = identity(num_nodes)
    msk = np.zeros(num_nodes, np.int8)
    d_before = np.zeros(num_nodes)
    msk_before = np.zeros(num_nodes, np.int8)

    def snapshot():
        step = next_step(probes)
        fill(probes.pi_h[step], pi)
        fill(probes.d[step], d)
        fill(probes.msk[step], msk)

    msk[s] = 1
    changed = True
    while changed:
        snapshot()
        fill(d_before, d)
        fill(msk_before, msk)
        for u in range(num_nodes):
            if msk_before[u] == 0:
                continue
            to_u, weights = d_before[u], A[u]
            for v in range(num_nodes):
                # `&` and `|` make one jump, rarely taken; `and` makes one that nobody foresees: is there an edge?
                if (weights[v] != 0) & ((msk[v] == 0) | (to_u + weights[v] < d[v])):
                    d[v] = to_u + weights[v]
                    pi[v] = u
                    msk[v] = 1
        # As in the benchmark: distances are compared, so a node first reached at distance 0 does not count as a change.
        changed = False
        for v in range(num_nodes):
            if d[v] != d_before[v]:
                changed = True
    fill(probes.pi, pi)


@shared.graph_algorithm_with_source(
    hints=PATHS_SO_FAR | shared.QUEUE,
    outputs=SHORTEST_PATH_TREE,
    arguments={"A": arguments.matrix(arguments.nonnegative), "s": arguments.source()},
    sampler=instances.weighted_graph_and_source,
)
def dijkstra(A, s, probes):
    """Dijkstra's shortest paths from one source (CLRS 24.3).

    One hint step is one node taken out of the queue, its distance final, and the edges out of it relaxed. The queue
    holds only nodes to which a path is known.
    """
    num_nodes = len(A)
    fill_graph(probes, A)
    probes.s[s] = 1

    d = np.zeros(num_nodes)
    mark = np.zeros(num_nodes, np.int8)
    in_queue = np.zeros(num_nodes, np.int8)
    pi = identity(num_nodes)

    def snapshot(u):
        step = next_step(probes)
        fill(probes.pi_h[step], pi)
        fill(probes.d[step], d)
        fill(probes.mark[step], mark)
        fill(probes.in_queue[step], in_queue)
        probes.u[step, u] = 1

    in_queue[s] = 1
    snapshot(s)
    u = take_out_least(d, in_queue)
    while u >= 0:
        mark[u] = 1
        to_u, weights = d[u], A[u]
        for v in range(num_nodes):
            if mark[v] == 0 and weights[v] != 0 and (in_queue[v] == 0 or to_u + weights[v] < d[v]):
                pi[v] = u
                d[v] = to_u + weights[v]
                in_queue[v] = 1
        snapshot(u)
        u = take_out_least(d, in_queue)
    fill(probes.pi, pi)


@shared.graph_algorithm_with_source(
    hints=PATHS_SO_FAR
    | {"mark": node("mask", "nodes to which a path has been found")}
    | shared.ORDER
    | shared.COLOR
    | shared.STACK
    | shared.CURRENT
    | {"phase": graph("mask", "0 while the nodes are sorted, 1 while edges are relaxed")},
    outputs=SHORTEST_PATH_TREE,
    arguments={"A": arguments.matrix(arguments.acyclic), "s": arguments.source()},
    sampler=instances.weighted_acyclic_graph_and_source,
)
def dag_shortest_paths(A, s, probes):
    """Shortest paths from one source in a graph without cycles (CLRS 24.2); weights may be negative.

    In phase 0 the nodes that the source reaches are sorted topologically, and one hint step is one event of the
    depth-first search; in phase 1 one step relaxes the edges out of one node.
    """
    num_nodes = len(A)
    fill_graph(probes, A)
    probes.s[s] = 1

    pi = identity(num_nodes)
    d = np.zeros(num_nodes)
    mark = np.zeros(num_nodes, np.int8)
    color = np.zeros(num_nodes, np.int8)
    topo = identity(num_nodes)
    s_prev = identity(num_nodes)

    def snapshot(topo_head, u, v, s_last, phase):
        step = next_step(probes)
        fill(probes.pi_h[step], pi)
        fill(probes.d[step], d)
        fill(probes.mark[step], mark)
        fill(probes.topo_h[step], topo)
        probes.topo_head_h[step, topo_head] = 1
        fill_search(probes, step, color, s_prev, u, v, s_last)
        probes.phase[step] = phase

    topo_head = 0
    u = v = s_last = s
    snapshot(topo_head, u, v, s_last, 0)
    color[s] = GRAY
    snapshot(topo_head, u, v, s_last, 0)
    while True:
        edges = A[u]
        for v in range(num_nodes):
            if color[v] == WHITE and edges[v] != 0:
                color[v] = GRAY
                s_prev[v] = s_last
                s_last = v
                snapshot(topo_head, u, v, s_last, 0)
                break
        if s_last == u:  # no white neighbour is left
            color[u] = BLACK
            if color[topo_head] == BLACK:  # false only while the order is empty
                topo[u] = topo_head
            topo_head = u
            snapshot(topo_head, u, v, s_last, 0)
            if s_prev[u] == u:
                break
            s_last = s_prev[u]
            s_prev[u] = u
        u = s_last

    mark[s] = 1
    while topo[topo_head] != topo_head:
        snapshot(topo_head, u, v, s_last, 1)
        to_head, weights = d[topo_head], A[topo_head]
        for j in range(num_nodes):
            if weights[j] != 0 and (mark[j] == 0 or to_head + weights[j] < d[j]):
                d[j] = to_head + weights[j]
                pi[j] = topo_head
                mark[j] = 1
        topo_head = topo[topo_head]
    snapshot(topo_head, u, v, s_last, 1)
    fill(probes.pi, pi)


@shared.graph_algorithm(
    hints={
        "Pi_h": edge("pointer", "for i to j: the node before j on the shortest path found so far; i where none is"),
        "D": edge("scalar", "for i to j: length of the shortest path found so far; 0 where none is"),
        "msk": edge("mask", "for i to j: whether a path has been found"),
        "k": node("mask_one", "the node that paths may newly pass through"),
    },
    outputs={"Pi": edge("pointer", "for i to j: the node before j on a shortest path from i; i where none is")},
    arguments={"A": arguments.matrix(_no_negative_cycle)},
    sampler=instances.weighted_graph,
)
def floyd_warshall(A, probes):
    """Floyd-Warshall's shortest paths between all pairs (CLRS 25.2); weights may be negative.

    One hint step is one node k through which paths may newly pass, as it stands before any does.
    """
    num_nodes = len(A)
    fill_graph(probes, A)

    D = np.empty((num_nodes, num_nodes))
    Pi = np.empty((num_nodes, num_nodes), np.int16)
    for i in range(num_nodes):
        for j in range(num_nodes):
            D[i, j] = A[i, j] if A[i, j] != 0 or i == j else np.inf
            Pi[i, j] = i

    def snapshot(k):
        step = next_step(probes)
        fill_matrix(probes.Pi_h[step], Pi)
        _fill_known(probes.D[step], probes.msk[step], D)
        probes.k[step, k] = 1

    for k in range(num_nodes):
        snapshot(k)
        # In place: as no cycle is negative, passing through k shortens no path from or to k itself.
        for i in range(num_nodes):
            if D[i, k] < np.inf:
                _relax(D[i], Pi[i], D[i, k], D[k], Pi[k])
    fill_matrix(probes.Pi, Pi)


@njit
def _relax(d, pi, to_k, from_k, pi_from_k):
    """Lets the paths from one node pass through k, which is `to_k` away."""
    for j in range(len(d)):
        if to_k + from_k[j] < d[j]:
            d[j] = to_k + from_k[j]
            pi[j] = pi_from_k[j]


@njit
def _fill_known(lengths, known, D):
    """Records path lengths, and where there is a path; the length is 0 where there is none."""
    for i in range(len(D)):
        for j in range(len(D)):
            known[i, j] = D[i, j] < np.inf
            lengths[i, j] = D[i, j] if D[i, j] < np.inf else 0.0
