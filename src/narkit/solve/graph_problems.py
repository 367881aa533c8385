"""Problems on graphs: paths, trees, orders and components."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.csgraph import connected_components

from narkit.solve.graph_instances import GraphProblem, TrainedOn, WeightUse
from narkit.solve.graphs import Graph
from narkit.solve.problem import Instance, Outputs, Plain, alike, shown
from narkit.solve.ranges import listed

SOURCE: tuple[str, ...] = ("graph", "source")


class Paths(GraphProblem):
    """Paths from a source: bfs, dijkstra, bellman_ford, dag_shortest_paths."""

    parameters: ClassVar[tuple[str, ...]] = SOURCE
    judged_by: ClassVar[str] = "lengths"

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        labels, pi = instance.labels, outputs["pi"]
        found = [_walk_back(pi, node, instance.arguments["s"]) for node in range(len(pi))]
        named = [None if path is None else [labels[node] for node in path] for path in found]
        lengths = [self._length(instance.given, path) for path in found]
        return {
            "paths": dict(zip(labels, named, strict=True)),
            "lengths": dict(zip(labels, lengths, strict=True)),
            "predecessors": _predecessors(labels, pi),
        }

    def _length(self, graph: Graph, path: list[int] | None) -> float | int | None:
        length = _length(graph, path)
        if path is None or length is None or self.weights is not WeightUse.UNUSED:
            return length
        return len(path) - 1

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        rows = [("to", "length", "path")]
        for label, path in plain["paths"].items():
            length = plain["lengths"][label]
            if path is None:
                way = "not reached" if plain["predecessors"][label] is None else "its predecessors lead elsewhere"
                rows.append((str(label), "", way))
            else:
                way = " → ".join(map(str, path))
                rows.append((str(label), "no such edge" if length is None else shown(length), way))
        return _aligned(rows)


class AllPairs(GraphProblem):
    """Shortest paths between all pairs: floyd_warshall."""

    judged_by: ClassVar[str] = "lengths"

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        lengths, predecessors = [], []
        for start, pointers in enumerate(outputs["Pi"]):
            paths = [_walk_back(pointers, end, start) for end in range(len(pointers))]
            lengths.append([_length(instance.given, path) for path in paths])
            known = zip(pointers, lengths[-1], strict=True)
            predecessors.append([None if length is None else instance.labels[node] for node, length in known])
        return {"lengths": lengths, "predecessors": predecessors}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        header = ("from\\to", *map(str, instance.labels))
        rows = [
            (str(label), *("-" if length is None else shown(length) for length in row))
            for label, row in zip(instance.labels, plain["lengths"], strict=True)
        ]
        return ["lengths of the paths (-: none)", *_aligned([header, *rows])]


class SpanningTree(GraphProblem):
    """A minimum spanning tree, or forest. Any other of the same weight is as good."""

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        place = {label: node for node, label in enumerate(instance.labels)}
        taken = np.zeros((len(place), len(place)), bool)
        for a, b, _ in plain["edges"]:
            taken[place[a], place[b]] = True
        parts = connected_components(taken, return_labels=False)
        has_cycle = parts + len(plain["edges"]) > len(place)
        same_size = len(plain["edges"]) == len(truth["edges"])
        return not has_cycle and same_size and alike(plain["weight"], truth["weight"])

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        rows = [
            (f"{a} – {b}", "no such edge" if weight is None else shown(weight)) for a, b, weight in plain["edges"]
        ] or [("no edges", "")]
        return [*_aligned(rows), f"total weight: {shown(plain['weight'])}"]


class SourceTree(SpanningTree):
    """A spanning tree that grows from a source: mst_prim."""

    parameters: ClassVar[tuple[str, ...]] = SOURCE

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        pi = outputs["pi"]
        edges = [(int(parent), node) for node, parent in enumerate(pi) if parent != node]
        return _tree(instance, edges) | {"predecessors": _predecessors(instance.labels, pi)}


class Tree(SpanningTree):
    """A spanning tree of chosen edges: mst_kruskal."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        taken = outputs["in_mst"] > 0
        pairs = np.argwhere(np.triu(taken | taken.T, 1))
        return _tree(instance, [(int(i), int(j)) for i, j in pairs])


class Forest(GraphProblem):
    """The forest of a depth-first search: dfs."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        pi, labels = outputs["pi"], instance.labels
        roots = [labels[node] for node, parent in enumerate(pi) if parent == node]
        return {"predecessors": _predecessors(labels, pi), "roots": roots}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        reached = [
            (str(node), f"from {parent}") for node, parent in plain["predecessors"].items() if parent is not None
        ]
        return [f"roots: {', '.join(map(str, plain['roots'])) or 'none'}", *_aligned(reached)]


class TopologicalOrder(GraphProblem):
    """A topological order: topological_sort."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        following = outputs["topo"]
        order, node = [], int(outputs["topo_head"].argmax())
        while node not in order:
            order.append(node)
            node = int(following[node])
        missing = [label for i, label in enumerate(instance.labels) if i not in order]
        plain: Plain = {"order": [instance.labels[i] for i in order]}
        return plain | ({"left_out": missing} if missing else {})

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        place = {label: position for position, label in enumerate(plain["order"])}
        pairs = [(instance.labels[i], instance.labels[j]) for i, j in np.argwhere(instance.given.edges)]
        return len(place) == len(instance.labels) and all(place[before] < place[after] for before, after in pairs)

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        missing = plain.get("left_out", [])
        return [" → ".join(map(str, plain["order"])), *([f"left out: {listed(missing)}"] if missing else [])]


class CutNodes(GraphProblem):
    """Nodes that hold a graph together: articulation_points."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        return {"articulation_points": [instance.labels[i] for i in np.flatnonzero(outputs["is_cut"] > 0)]}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return [f"articulation points: {', '.join(map(str, plain['articulation_points'])) or 'none'}"]


class CutEdges(GraphProblem):
    """Edges that hold a graph together: bridges."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        is_bridge = (outputs["is_bridge"] > 0) & instance.given.edges
        pairs = np.argwhere(np.triu(is_bridge | is_bridge.T, 1))
        return {"bridges": [(instance.labels[i], instance.labels[j]) for i, j in pairs]}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return ["bridges: " + (", ".join(f"{a} – {b}" for a, b in plain["bridges"]) or "none")]


class Components(GraphProblem):
    """Strongly connected components: strongly_connected_components."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        groups: dict[int, list[Any]] = {}
        for node, standing_for_it in enumerate(outputs["scc_id"]):
            groups.setdefault(int(standing_for_it), []).append(instance.labels[node])
        return {"components": list(groups.values())}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return ["components: " + " | ".join(", ".join(map(str, group)) for group in plain["components"])]


def _predecessors(labels: tuple[Any, ...], pi: np.ndarray) -> dict[Any, Any]:
    return {labels[i]: None if parent == i else labels[int(parent)] for i, parent in enumerate(pi)}


def _walk_back(pi: np.ndarray, node: int, source: int) -> list[int] | None:
    """Returns the path to a node, found from its end; None if the predecessors do not lead back to the source."""
    path = [node]
    while path[-1] != source:
        before = int(pi[path[-1]])
        if before in path:
            return None
        path.append(before)
    return path[::-1]


def _length(graph: Graph, path: list[int] | None) -> float | int | None:
    """Returns the length of a path; None if there is none, or not all of its edges are there."""
    steps = list(itertools.pairwise(path or ()))
    return None if path is None or not all(graph.edges[step] for step in steps) else _total(graph, steps)


def _total(graph: Graph, steps: list[tuple[int, int]]) -> float | int:
    """Returns the sum of the weights in the caller's units; whole numbers stay whole."""
    total = float(sum(graph.weights[step] for step in steps))
    return int(total) if total.is_integer() and abs(total) < 2**53 else total


def _tree(instance: Instance, edges: list[tuple[int, int]]) -> Plain:
    graph, labels = instance.given, instance.labels
    real = [step for step in edges if graph.edges[step]]
    named = [(labels[i], labels[j], _total(graph, [(i, j)]) if graph.edges[i, j] else None) for i, j in edges]
    return {"edges": named, "weight": _total(graph, real) if len(real) == len(edges) else None}


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


GRAPH_PROBLEMS: dict[str, GraphProblem] = {
    problem.algorithm: problem
    for problem in (
        Paths("bfs", WeightUse.UNUSED, TrainedOn.UNDIRECTED),
        Paths("dijkstra", WeightUse.ADDED, TrainedOn.UNDIRECTED, takes_negative=False),
        Paths("bellman_ford", WeightUse.ADDED, TrainedOn.UNDIRECTED),
        Paths("dag_shortest_paths", WeightUse.ADDED, TrainedOn.ACYCLIC),
        AllPairs("floyd_warshall", WeightUse.ADDED, TrainedOn.UNDIRECTED),
        SourceTree("mst_prim", WeightUse.COMPARED, TrainedOn.UNDIRECTED, takes_directed=False),
        Tree("mst_kruskal", WeightUse.COMPARED, TrainedOn.UNDIRECTED, takes_directed=False),
        Forest("dfs", WeightUse.UNUSED, TrainedOn.DIRECTED),
        TopologicalOrder("topological_sort", WeightUse.UNUSED, TrainedOn.ACYCLIC),
        CutNodes("articulation_points", WeightUse.UNUSED, TrainedOn.UNDIRECTED, takes_directed=False),
        CutEdges("bridges", WeightUse.UNUSED, TrainedOn.UNDIRECTED, takes_directed=False),
        Components("strongly_connected_components", WeightUse.UNUSED, TrainedOn.DIRECTED),
    )
}
