"""The probes that several algorithms share, described once."""

import functools

from narkit.spec import algorithm, constant, edge, graph, node

# Arrays.
POSITION = node("scalar", "position of the node in the given order")
GIVEN_ORDER = constant(node("pointer", "the node before this one in the given order; the first: itself"))
ARRAY_ORDER = node("pointer", "the node before this one in the array as it stands")

WHITE, GRAY, BLACK = 0, 1, 2  # the colours of a depth-first search: not seen, on the stack, finished
TICK = 0.01  # one unit of a depth-first search's clock

GRAPH_INPUTS = {
    "pos": node("scalar", "position of the node, which tells nodes apart"),
    "A": edge("scalar", "weight of the edge, 0 where none is"),
    "adj": edge("mask", "whether an edge or a self-loop is here"),
}
SOURCE = node("mask_one", "the source")
GRAPH_INPUTS_WITH_SOURCE = {"pos": GRAPH_INPUTS["pos"], "s": SOURCE, "A": GRAPH_INPUTS["A"], "adj": GRAPH_INPUTS["adj"]}
graph_algorithm = functools.partial(algorithm, category="graphs", inputs=GRAPH_INPUTS)
graph_algorithm_with_source = functools.partial(algorithm, category="graphs", inputs=GRAPH_INPUTS_WITH_SOURCE)

# Depth-first search. The stack of gray nodes is a linked list, from the top down.
COLOR = {"color": node("categorical", "white (not seen), gray (on the stack) or black (finished)", classes=3)}
TREE = {"pi_h": node("pointer", "the node from which each was discovered; roots and undiscovered nodes: themselves")}
TIMES = {
    "d": node("scalar", "discovery time, 0 before it, in hundredths"),
    "f": node("scalar", "finishing time, 0 before it, in hundredths"),
}
LOW = node("scalar", "the earliest discovery time that the node's subtree reaches by one edge out of the tree")
TREE_WITH_LOW_POINTS = TREE | COLOR | TIMES | {"low": LOW}
STACK = {"s_prev": node("pointer", "the node below this one on the stack; the bottom, and nodes not on it: themselves")}
ROOT = {"s": node("mask_one", "the root of the current search tree")}
CURRENT = {
    "u": node("mask_one", "the node being explored"),
    "v": node("mask_one", "the node looked at from u; the last node of all when none was left to visit"),
    "s_last": node("mask_one", "the top of the stack"),
}
SEARCH = STACK | ROOT | CURRENT
CLOCK = {"time": graph("scalar", "the clock: ticks by a hundredth whenever a node is discovered or finished")}

# A topological order, built from its end: every node that finishes is put in front.
ORDER = {
    "topo_h": node("pointer", "the next node in the order built so far; the last, and nodes not yet in it: themselves"),
    "topo_head_h": node("mask_one", "the first node of the order"),
}

# A priority queue that holds only nodes which some edge has reached.
QUEUE = {
    "mark": node("mask", "nodes taken out of the queue"),
    "in_queue": node("mask", "nodes in the queue"),
    "u": node("mask_one", "the node just taken out of the queue; at first, the source"),
}
