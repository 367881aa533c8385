"""Algorithms that walk through a graph: breadth-first search, depth-first search, topological sort."""

import numpy as np

from narkit.algorithms import arguments, instances
from narkit.algorithms import shared_probes as shared
from narkit.algorithms.recording import fill, fill_graph, fill_search, identity, next_step
from narkit.algorithms.shared_probes import BLACK, GRAY, TICK, WHITE
from narkit.spec import node


@shared.graph_algorithm_with_source(
    hints={
        "reach_h": node("mask", "nodes reached so far"),
        "pi_h": node("pointer", "the node from which each was first reached"),
    },
    outputs={"pi": node("pointer", "predecessor in the breadth-first tree; unreached nodes and the source: itself")},
    arguments={"A": arguments.matrix(), "s": arguments.source()},
    sampler=instances.undirected_graph_and_source,
)
def bfs(A, s, probes):
    """Breadth-first search (CLRS 22.2).

    One hint step is one level: all nodes next to the nodes reached so far are reached at once. Edges are the
    positive weights.
    """
    num_nodes = len(A)
    fill_graph(probes, A)
    probes.s[s] = 1

    reach = np.zeros(num_nodes, np.int8)
    reached_before = np.zeros(num_nodes, np.int8)
    pi = identity(num_nodes)

    def snapshot():
        step = next_step(probes)
        fill(probes.reach_h[step], reach)
        fill(probes.pi_h[step], pi)

    reach[s] = 1
    grew = True
    while grew:
        snapshot()
        grew = False
        fill(reached_before, reach)
        for i in range(num_nodes):
            if reached_before[i] == 0:
                continue
            edges = A[i]
            for j in range(num_nodes):
                if reach[j] == 0 and edges[j] > 0:
                    pi[j] = i
                    reach[j] = 1
                    grew = True
    fill(probes.pi, pi)


@shared.graph_algorithm(
    hints=shared.TREE | shared.COLOR | shared.TIMES | shared.SEARCH | shared.CLOCK,
    outputs={"pi": node("pointer", "predecessor in the depth-first forest; roots: themselves")},
    arguments={"A": arguments.matrix()},
    sampler=instances.directed_graph,
)
def dfs(A, probes):
    """Depth-first search (CLRS 22.3).

    One hint step is one event: a new root is chosen, a node is discovered, an edge to a white node is followed, or
    a node is finished.
    """
    num_nodes = len(A)
    fill_graph(probes, A)

    color = np.zeros(num_nodes, np.int8)
    pi = identity(num_nodes)
    d = np.zeros(num_nodes)
    f = np.zeros(num_nodes)
    s_prev = identity(num_nodes)

    def snapshot(s, u, v, s_last, time):
        step = next_step(probes)
        fill(probes.pi_h[step], pi)
        fill(probes.d[step], d)
        fill(probes.f[step], f)
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
                d[u] = time
                color[u] = GRAY
                snapshot(s, u, v, s_last, time)
            edges = A[u]
            for v in range(num_nodes):
                if color[v] == WHITE and edges[v] != 0:
                    pi[v] = u
                    color[v] = GRAY
                    s_prev[v] = s_last
                    s_last = v
                    snapshot(s, u, v, s_last, time)
                    break
            if s_last == u:  # no white neighbour is left
                color[u] = BLACK
                time += TICK
                f[u] = time
                snapshot(s, u, v, s_last, time)
                if s_prev[u] == u:
                    break
                s_last = s_prev[u]
                s_prev[u] = u
            u = s_last
    fill(probes.pi, pi)


@shared.graph_algorithm(
    hints=shared.ORDER | shared.COLOR | shared.SEARCH,
    outputs={
        "topo": node("pointer", "the next node in topological order; the last: itself"),
        "topo_head": node("mask_one", "the first node in topological order"),
    },
    arguments={"A": arguments.matrix(arguments.acyclic)},
    sampler=instances.acyclic_graph,
)
def topological_sort(A, probes):
    """Topological sort by depth-first search (CLRS 22.4).

    One hint step is one event of the search: a new root is chosen, an edge to a white node is followed, or a node
    is finished and put in front of the order.
    """
    num_nodes = len(A)
    fill_graph(probes, A)

    color = np.zeros(num_nodes, np.int8)
    topo = identity(num_nodes)
    s_prev = identity(num_nodes)

    def snapshot(topo_head, s, u, v, s_last):
        step = next_step(probes)
        fill(probes.topo_h[step], topo)
        probes.topo_head_h[step, topo_head] = 1
        fill_search(probes, step, color, s_prev, u, v, s_last)
        probes.s[step, s] = 1

    topo_head = 0
    for s in range(num_nodes):
        if color[s] != WHITE:
            continue
        u = v = s_last = s
        snapshot(topo_head, s, u, v, s_last)
        color[s] = GRAY
        snapshot(topo_head, s, u, v, s_last)
        while True:
            edges = A[u]
            for v in range(num_nodes):
                if color[v] == WHITE and edges[v] != 0:
                    color[v] = GRAY
                    s_prev[v] = s_last
                    s_last = v
                    snapshot(topo_head, s, u, v, s_last)
                    break
            if s_last == u:  # no white neighbour is left
                color[u] = BLACK
                if color[topo_head] == BLACK:  # false only while the order is empty
                    topo[u] = topo_head
                topo_head = u
                snapshot(topo_head, s, u, v, s_last)
                if s_prev[u] == u:
                    break
                s_last = s_prev[u]
                s_prev[u] = u
            u = s_last
    fill(probes.topo, topo)
    probes.topo_head[topo_head] = 1
