"""Depth-first searches that tell about connections: articulation points, bridges, strong components."""

import numpy as np
from numba import njit

from narkit.algorithms import arguments, instances
from narkit.algorithms import shared_probes as shared
from narkit.algorithms.recording import fill, fill_adjacency, fill_graph, fill_matrix, fill_search, identity, next_step
from narkit.algorithms.shared_probes import BLACK, GRAY, TICK, WHITE
from narkit.spec import Densities, edge, graph, node


def _low_point_search(judge, record):
    """Returns a compiled depth-first search that finds how far up every subtree reaches by one edge out of the tree.

    `judge` looks at a node that is finished and notes what that tells in `found`, which `record` shows at every step.
    Both are inlined: called, they would be handed all probes each time, and samples would take half as long again.
    """

    @njit
    def search(A, probes, found):
        num_nodes = len(A)
        fill_graph(probes, A)

        color = np.zeros(num_nodes, np.int8)
        pi = identity(num_nodes)
        d = np.zeros(num_nodes)
        f = np.zeros(num_nodes)
        low = np.zeros(num_nodes)
        child_cnt = np.zeros(num_nodes)
        s_prev = identity(num_nodes)

        def snapshot(s, u, v, s_last, time):
            step = next_step(probes)
            record(probes, step, child_cnt, found)
            fill(probes.pi_h[step], pi)
            fill(probes.d[step], d)
            fill(probes.f[step], f)
            fill(probes.low[step], low)
            fill_search(probes, step, color, s_prev, u, v, s_last)
            probes.s[step, s] = 1
            probes.time[step] = time

        time = 0.0
        for s in range(num_nodes):
            if color[s] != WHITE:
                continue
            u = v = s_last = s
            snapshot(s, u, v, s_last, time)
            while True:
                if d[u] == 0.0:
                    time += TICK
                    d[u] = low[u] = time
                    color[u] = GRAY
                    snapshot(s, u, v, s_last, time)
                edges = A[u]
                for v in range(num_nodes):
                    if edges[v] == 0:
                        continue
                    if color[v] == WHITE:
                        pi[v] = u
                        color[v] = GRAY
                        s_prev[v] = s_last
                        s_last = v
                        child_cnt[u] += TICK
                        snapshot(s, u, v, s_last, time)
                        break
                    elif v != pi[u]:
                        low[u] = min(low[u], d[v])
                        snapshot(s, u, v, s_last, time)
                if s_last == u:  # no white neighbour is left
                    color[u] = BLACK
                    time += TICK
                    f[u] = time
                    for child in range(num_nodes):
                        if pi[child] == u:
                            low[u] = min(low[u], low[child])
                    judge(u, pi, d, low, child_cnt, found)
                    snapshot(s, u, v, s_last, time)
                    if s_prev[u] == u:
                        break
                    s_last = s_prev[u]
                    s_prev[u] = u
                u = s_last

    return search


@njit(inline="always")
def _judge_node(u, pi, d, low, child_cnt, is_cut):
    """Marks a finished root if it has two children, another node if the subtree of a child reaches nothing above it."""
    if pi[u] == u:
        is_cut[u] = child_cnt[u] > TICK
    else:
        for child in range(len(pi)):
            if pi[child] == u and low[child] >= d[u]:
                is_cut[u] = 1


@njit(inline="always")
def _record_cuts(probes, step, child_cnt, is_cut):
    fill(probes.child_cnt[step], child_cnt)
    fill(probes.is_cut_h[step], is_cut)


@njit(inline="always")
def _judge_edges(u, pi, d, low, child_cnt, is_bridge):
    """Marks the edges to children that are bridges: the child's subtree does not even reach u in another way."""
    for child in range(len(pi)):
        if pi[child] == u and low[child] > d[u]:
            is_bridge[u, child] = is_bridge[child, u] = 1


@njit(inline="always")
def _record_bridges(probes, step, child_cnt, is_bridge):
    fill_matrix(probes.is_bridge_h[step], is_bridge)


_search_cut_nodes = _low_point_search(_judge_node, _record_cuts)
_search_bridges = _low_point_search(_judge_edges, _record_bridges)


@shared.graph_algorithm(
    hints={"is_cut_h": node("mask", "nodes known to be articulation points")}
    | shared.TREE_WITH_LOW_POINTS
    | {"child_cnt": node("scalar", "number of children in the search tree, in hundredths")}
    | shared.SEARCH
    | shared.CLOCK,
    outputs={"is_cut": node("mask", "articulation points: nodes whose removal disconnects their component")},
    arguments={"A": arguments.matrix(arguments.symmetric)},
    sampler=instances.undirected_graph,
    densities=Densities().halved(official=0.2),
)
def articulation_points(A, probes):
    """Articulation points by depth-first search (CLRS problem 22-2).

    One hint step is one event of the search: a new root is chosen, a node is discovered, an edge to a white node is
    followed, an edge back to a node seen before is looked at (again after every return to u), or a node is
    finished and judged.
    """
    is_cut = np.zeros(len(A), np.int8)
    _search_cut_nodes(A, probes, is_cut)
    fill(probes.is_cut, is_cut)


@shared.graph_algorithm(
    hints={"is_bridge_h": edge("mask", "edges known to be bridges; -1 where no edge is")}
    | shared.TREE_WITH_LOW_POINTS
    | shared.SEARCH
    | shared.CLOCK,
    outputs={
        "is_bridge": edge("mask", "bridges: edges whose removal disconnects their component; -1 where no edge is")
    },
    arguments={"A": arguments.matrix(arguments.symmetric)},
    sampler=instances.undirected_graph,
    densities=Densities().halved(official=0.2),
)
def bridges(A, probes):
    """Bridges by depth-first search (CLRS problem 22-2).

    One hint step is one event of the search: a new root is chosen, a node is discovered, an edge to a white node is
    followed, an edge back to a node seen before is looked at (again after every return to u), or a node is
    finished and the edges to its children are judged.
    """
    is_bridge = np.zeros(A.shape, np.int8)
    fill_adjacency(is_bridge, A)
    is_bridge -= np.int8(1)  # 0 on edges and self-loops, -1 elsewhere
    _search_bridges(A, probes, is_bridge)
    fill_matrix(probes.is_bridge, is_bridge)


@shared.graph_algorithm(
    hints={
        "scc_id_h": node("pointer", "the root of the node's component, once known; before: itself"),
        "A_t": edge("mask", "the transposed graph, with self-loops"),
    }
    | shared.COLOR
    | shared.TIMES
    | shared.SEARCH
    | shared.CLOCK
    | {"phase": graph("mask", "0 in the search of the graph, 1 in the search of the transposed graph")},
    outputs={"scc_id": node("pointer", "a node that stands for the strongly connected component of this one")},
    arguments={"A": arguments.matrix()},
    sampler=instances.community_graph,
    min_size=instances.COMMUNITIES,
    min_nodes=2,
)
def strongly_connected_components(A, probes):
    """Strongly connected components by two depth-first searches (CLRS 22.5).

    One hint step is one event of either search: a new root is chosen, a node is discovered, an edge to a white node
    is followed, or a node is finished. The second search goes through the transposed graph, its roots in the order
    of decreasing finishing time; each of its trees is a component.
    """
    num_nodes = len(A)
    fill_graph(probes, A)
    A_t = A.T.copy()
    transposed = np.zeros((num_nodes, num_nodes), np.int8)
    fill_adjacency(transposed, A_t)

    scc_id = identity(num_nodes)
    color = np.zeros(num_nodes, np.int8)
    d = np.zeros(num_nodes)
    f = np.zeros(num_nodes)
    s_prev = identity(num_nodes)

    def snapshot(s, u, v, s_last, time, phase):
        step = next_step(probes)
        fill(probes.scc_id_h[step], scc_id)
        fill_matrix(probes.A_t[step], transposed)
        fill(probes.d[step], d)
        fill(probes.f[step], f)
        fill_search(probes, step, color, s_prev, u, v, s_last)
        probes.s[step, s] = 1
        probes.time[step] = time
        probes.phase[step] = phase

    time = 0.0
    for phase in range(2):
        searched = A if phase == 0 else A_t
        roots = identity(num_nodes) if phase == 0 else np.argsort(-f)  # finishing times are distinct: no ties
        color[:] = WHITE
        for s in roots:
            if color[s] != WHITE:
                continue
            u = v = s_last = s
            snapshot(s, u, v, s_last, time, phase)
            while True:
                if phase == 1:
                    scc_id[u] = s
                # The second search keeps the first one's discovery times, except at its roots. So the benchmark has it.
                if color[u] == WHITE or d[u] == 0.0:
                    time += TICK
                    d[u] = time
                    color[u] = GRAY
                    snapshot(s, u, v, s_last, time, phase)
                edges = searched[u]
                for v in range(num_nodes):
                    if color[v] == WHITE and edges[v] != 0:
                        color[v] = GRAY
                        s_prev[v] = s_last
                        s_last = v
                        snapshot(s, u, v, s_last, time, phase)
                        break
                if s_last == u:  # no white neighbour is left
                    color[u] = BLACK
                    time += TICK
                    f[u] = time
                    snapshot(s, u, v, s_last, time, phase)
                    if s_prev[u] == u:
                        break
                    s_last = s_prev[u]
                    s_prev[u] = u
                u = s_last
    fill(probes.scc_id, scc_id)
