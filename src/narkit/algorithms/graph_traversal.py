"""Algorithms that walk through a graph: breadth-first and depth-first search and what is built on them."""

import numpy as np

from narkit.algorithms import arguments, instances
from narkit.algorithms.recording import fill_graph, identity, next_step
from narkit.spec import algorithm, edge, node

GRAPH_INPUTS = {
    "pos": node("scalar", "position of the node, which tells nodes apart"),
    "A": edge("scalar", "weight of the edge, 0 where none is"),
    "adj": edge("mask", "whether an edge or a self-loop is here"),
}
SOURCE = node("mask_one", "the source")
GRAPH_INPUTS_WITH_SOURCE = {"pos": GRAPH_INPUTS["pos"], "s": SOURCE, "A": GRAPH_INPUTS["A"], "adj": GRAPH_INPUTS["adj"]}


@algorithm(
    category="graphs",
    inputs=GRAPH_INPUTS_WITH_SOURCE,
    hints={
        "reach_h": node("mask", "nodes reached so far"),
        "pi_h": node("pointer", "the node from which each was first reached"),
    },
    outputs={"pi": node("pointer", "predecessor in the breadth-first tree; unreached nodes and the source: themselves")},
    arguments={"A": arguments.matrix(arguments.symmetric), "s": arguments.source()},
    sampler=instances.undirected_graph_and_source,
)
def bfs(A, s, probes):
    """Breadth-first search (CLRS 22.2).

    One hint step is one level: all nodes next to the nodes reached so far are reached at once.
    """
    num_nodes = len(A)
    fill_graph(probes, A)
    probes.s[s] = 1

    reach = np.zeros(num_nodes, np.int8)
    reached_before = np.zeros(num_nodes, np.int8)
    pi = identity(num_nodes)
    reach[s] = 1
    while True:
        step = next_step(probes)
        probes.reach_h[step] = reach
        probes.pi_h[step] = pi
        reached_before[:] = reach
        for i in range(num_nodes):
            for j in range(num_nodes):
                if A[i, j] > 0 and reached_before[i] == 1:
                    if pi[j] == j and j != s:
                        pi[j] = i
                    reach[j] = 1
        if np.all(reach == reached_before):
            break
    probes.pi[:] = pi
