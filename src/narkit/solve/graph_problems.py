"""Problems on graphs: paths, trees, orders and components."""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from narkit.errors import InstanceError
from narkit.solve import ranges
from narkit.solve.graphs import Graph, read_graph
from narkit.solve.problem import Instance, Outputs, Plain, Problem, shown
from narkit.solve.ranges import listed

LIGHTEST_TRAINED = 0.03  # the weights of undirected training graphs: the square root of at least 0.001


class Weights(enum.Enum):
    """What an answer depends on."""

    UNUSED = "the edges only"
    ADDED = "sums of weights"
    COMPARED = "the order of the weights"


class Trained(enum.Enum):
    """The graphs that the networks were trained on."""

    UNDIRECTED = "undirected graphs"
    DIRECTED = "directed graphs"
    ACYCLIC = "directed graphs without cycles"


@dataclass(frozen=True)
class GraphProblem(Problem):
    """A problem on a graph. Edges without weights have weight 1."""

    algorithm: str
    weights: Weights
    trained: Trained
    takes_directed: bool = True  # whether the algorithm itself can run on directed graphs
    takes_negative: bool = True

    parameters: ClassVar[tuple[str, ...]] = ("graph",)
    options: ClassVar[tuple[str, ...]] = ("directed", "weight")

    def read(self, given: Mapping[str, Any]) -> Instance:
        directed, by_default = given.get("directed"), self.trained is not Trained.UNDIRECTED
        read = read_graph(given["graph"], directed, given.get("weight", "weight"), by_default)
        instance = Instance({}, read.labels, read, notes=list(read.notes))
        self._check_directions(read, instance)
        if "source" in self.parameters:
            instance.arguments["s"] = read.index(given["source"])
        instance.arguments = {"A": self._matrix(read, instance)} | instance.arguments
        parts = _num_parts(read)
        if parts > 1 and self.trained is Trained.UNDIRECTED:
            instance.notes.append(f"the graph is not connected: it falls into {parts} parts")
        return instance

    def _check_directions(self, graph: Graph, instance: Instance) -> None:
        if self.trained is Trained.ACYCLIC:
            self._check_acyclic(graph)
        if graph.directed and not self.takes_directed:
            raise InstanceError(
                f"graph: expected an undirected graph for {self.algorithm}, got a directed one; give directed=False "
                "(--undirected) to take its edges in both directions"
            )
        if graph.directed and self.trained is Trained.UNDIRECTED:
            instance.warnings.append("the graph is directed; the networks were trained on undirected graphs only")

    def _check_acyclic(self, graph: Graph) -> None:
        if graph.loops:
            raise InstanceError(f"graph: expected no cycles, got an edge from {graph.loops[0]} to itself; remove it")
        left = np.ones(graph.num_nodes, bool)
        while left.any():
            removable = left & ~graph.edges[left].any(axis=0)
            if not removable.any():
                on_cycle = [graph.labels[i] for i in np.flatnonzero(left)]
                undirected = "" if graph.directed else " (it is undirected: every edge counts in both directions)"
                raise InstanceError(
                    f"graph: expected a directed graph without cycles, got a cycle among {listed(on_cycle)}"
                    f"{undirected}; remove it"
                )
            left &= ~removable

    def _matrix(self, graph: Graph, instance: Instance) -> np.ndarray:
        match self.weights:
            case Weights.UNUSED:
                if graph.weighted:
                    instance.notes.append(f"weights of edges play no part in {self.algorithm}; every edge has weight 1")
                return graph.edges.astype(np.float64)
            case Weights.ADDED:
                return self._scaled(graph, instance)
            case Weights.COMPARED:
                return _ranked(graph, instance)

    def _scaled(self, graph: Graph, instance: Instance) -> np.ndarray:
        weights = graph.weights[graph.edges]
        zero = np.argwhere(graph.edges & (graph.weights == 0))
        if len(zero):
            i, j = zero[0]
            raise InstanceError(
                f"graph: expected weights other than 0, got 0 from {graph.labels[i]} to {graph.labels[j]}: the "
                "benchmark writes 0 where no edge is; give a small weight instead, or make the two nodes one"
            )
        if (weights < 0).any():
            i, j = np.argwhere(graph.weights < 0)[0]
            edge = f"{graph.weights[i, j]:g} from {graph.labels[i]} to {graph.labels[j]}"
            if not self.takes_negative:
                raise InstanceError(f"graph: expected no negative weights, got {edge}; bellman_ford takes them")
            if not graph.directed:
                raise InstanceError(
                    f"graph: expected no negative weights in an undirected graph, got {edge}: a path could go to and "
                    "fro forever; give directed=True (--directed) if edges have one direction"
                )
            _check_cycles(graph, instance.arguments.get("s"))
            instance.warnings.append(f"some weights are negative ({edge}); the networks were trained on positive ones")
        matrix, factor = ranges.scaled(graph.weights, "weights", instance.notes)
        is_light = len(weights) > 0 and np.abs(weights).min() * factor < LIGHTEST_TRAINED
        if is_light and self.trained is Trained.UNDIRECTED:
            ratio = np.abs(weights).max() / np.abs(weights).min()
            instance.warnings.append(
                f"the heaviest edge is {ratio:.3g} times as heavy as the lightest; in training it was at most "
                f"{1 / LIGHTEST_TRAINED:.0f} times"
            )
        return matrix


def _check_cycles(graph: Graph, source: int | None) -> None:
    """Refuses cycles of negative weight, those that the source reaches or, without one, any."""
    lengths = np.where(graph.edges, graph.weights, np.inf)
    np.fill_diagonal(lengths, 0.0)
    for k in range(graph.num_nodes):
        lengths = np.minimum(lengths, lengths[:, k, None] + lengths[k])
        on_cycle = lengths.diagonal() < 0
        if source is not None:
            on_cycle = on_cycle & (lengths[source] < np.inf)
        if on_cycle.any():
            names = listed([graph.labels[node] for node in np.flatnonzero(on_cycle)])
            raise InstanceError(
                f"graph: expected no cycle of negative total weight, got one through {names}: paths could go round it "
                "forever; remove it"
            )


def _num_parts(graph: Graph) -> int:
    """How many parts the graph falls into, directions aside."""
    edges = graph.edges | graph.edges.T
    left, parts = np.ones(graph.num_nodes, bool), 0
    while left.any():
        reached = np.zeros(graph.num_nodes, bool)
        reached[left.argmax()] = True
        while (edges[reached].any(axis=0) & ~reached).any():
            reached |= edges[reached].any(axis=0)
        left &= ~reached
        parts += 1
    return parts


def _ranked(graph: Graph, instance: Instance) -> np.ndarray:
    """Weights of undirected edges as evenly spaced numbers in the same order."""
    starts, ends = np.nonzero(np.triu(graph.edges, 1))
    weights = graph.weights[starts, ends]
    if weights.min(initial=1.0) > 0.0 or not len(weights):
        ranks = ranges.ranked(weights, "weights", instance.notes)
    else:  # a rank is never 0, which would be no edge
        ranks = ranges.ranked(weights - weights.min() + 1.0, "weights", instance.notes)
    matrix = np.zeros(graph.weights.shape)
    matrix[starts, ends] = matrix[ends, starts] = ranks
    return matrix


SOURCE: tuple[str, ...] = ("graph", "source")


@dataclass(frozen=True)
class Paths(GraphProblem):
    """Paths from a source: bfs, dijkstra, bellman_ford, dag_shortest_paths."""

    parameters: ClassVar[tuple[str, ...]] = SOURCE

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        graph, source = instance.given, instance.arguments["s"]
        pi = outputs["pi"]
        found = [_walk_back(pi, node, source) for node in range(len(pi))]
        lengths = [None if path is None else self._length(graph, path) for path in found]
        labels = instance.labels
        return {
            "paths": {
                labels[node]: None if path is None else [labels[i] for i in path] for node, path in enumerate(found)
            },
            "lengths": dict(zip(labels, lengths, strict=True)),
            "predecessors": _predecessors(labels, pi),
        }

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        return _same(list(plain["lengths"].values()), list(truth["lengths"].values()))

    def _length(self, graph: Graph, path: list[int]) -> float | int | None:
        steps = list(itertools.pairwise(path))
        if not all(graph.edges[step] for step in steps):
            return None
        return len(steps) if self.weights is Weights.UNUSED else _total(graph, steps)

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        rows = [("to", "length", "path")]
        for label, path in plain["paths"].items():
            length = plain["lengths"][label]
            if path is None:
                way = "not reached" if plain["predecessors"][label] is None else "its predecessors lead elsewhere"
                rows.append((str(label), "", f"{way}"))
            else:
                way = " → ".join(map(str, path))
                rows.append((str(label), "no such edge" if length is None else shown(length), way))
        return _aligned(rows)


@dataclass(frozen=True)
class AllPairs(GraphProblem):
    """Shortest paths between all pairs: floyd_warshall."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        graph, labels = instance.given, instance.labels
        pointers = outputs["Pi"]
        lengths, predecessors = [], []
        for i in range(len(labels)):
            walks = [_walk_back_from(pointers[i], j, i, graph) for j in range(len(labels))]
            lengths.append(walks)
            predecessors.append([labels[pointers[i, j]] if walks[j] is not None else None for j in range(len(labels))])
        return {"lengths": lengths, "predecessors": predecessors}

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        rows = zip(plain["lengths"], truth["lengths"], strict=True)
        return all(_same(row, true) for row, true in rows)

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        header = ("from\\to", *map(str, instance.labels))
        rows = [
            (str(label), *("-" if length is None else shown(length) for length in row))
            for label, row in zip(instance.labels, plain["lengths"], strict=True)
        ]
        return ["lengths of the paths (-: none)", *_aligned([header, *rows])]


@dataclass(frozen=True)
class SourceTree(GraphProblem):
    """A minimum spanning tree grown from a source: mst_prim."""

    parameters: ClassVar[tuple[str, ...]] = SOURCE

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        pi = outputs["pi"]
        edges = [(int(parent), node) for node, parent in enumerate(pi) if parent != node]
        return _tree(instance, edges) | {"predecessors": _predecessors(instance.labels, pi)}

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        return _is_minimal_forest(plain, truth)

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return _tree_lines(plain)


@dataclass(frozen=True)
class Tree(GraphProblem):
    """A minimum spanning tree, or forest: mst_kruskal."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        taken = outputs["in_mst"] > 0
        pairs = np.argwhere(np.triu(taken | taken.T, 1))
        return _tree(instance, [(int(i), int(j)) for i, j in pairs])

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        return _is_minimal_forest(plain, truth)

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return _tree_lines(plain)


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Order(GraphProblem):
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


@dataclass(frozen=True)
class CutNodes(GraphProblem):
    """Nodes that hold a graph together: articulation_points."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        return {"articulation_points": [instance.labels[i] for i in np.flatnonzero(outputs["is_cut"] > 0)]}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return [f"articulation points: {', '.join(map(str, plain['articulation_points'])) or 'none'}"]


@dataclass(frozen=True)
class CutEdges(GraphProblem):
    """Edges that hold a graph together: bridges."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        is_bridge = (outputs["is_bridge"] > 0) & instance.given.edges
        pairs = np.argwhere(np.triu(is_bridge | is_bridge.T, 1))
        return {"bridges": [(instance.labels[i], instance.labels[j]) for i, j in pairs]}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return ["bridges: " + (", ".join(f"{a} – {b}" for a, b in plain["bridges"]) or "none")]


@dataclass(frozen=True)
class Components(GraphProblem):
    """Strongly connected components: strongly_connected_components."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        groups: dict[int, list[Any]] = {}
        for node, standing_for_it in enumerate(outputs["scc_id"]):
            groups.setdefault(int(standing_for_it), []).append(instance.labels[node])
        return {"components": list(groups.values())}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return ["components: " + " | ".join(", ".join(map(str, group)) for group in plain["components"])]


def _same(lengths: list[Any], others: list[Any]) -> bool:
    """Whether lengths are the same but for rounding; None is no path."""
    pairs = zip(lengths, others, strict=True)
    return all(a is b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-9)) for a, b in pairs)


def _is_minimal_forest(plain: Plain, truth: Plain) -> bool:
    """Whether edges form a forest of the same weight and number of edges as the true one."""
    group: dict[Any, Any] = {}

    def root(label: Any) -> Any:
        while group.setdefault(label, label) != label:
            label = group[label]
        return label

    for a, b, _ in plain["edges"]:
        if root(a) == root(b):
            return False
        group[root(a)] = root(b)
    return len(plain["edges"]) == len(truth["edges"]) and _same([plain["weight"]], [truth["weight"]])


def _predecessors(labels: tuple[Any, ...], pi: np.ndarray) -> dict[Any, Any]:
    return {labels[i]: None if parent == i else labels[int(parent)] for i, parent in enumerate(pi)}


def _walk_back(pi: np.ndarray, node: int, source: int) -> list[int] | None:
    """The path to a node, found from its end; None where the predecessors do not lead back to the source."""
    path = [node]
    while path[-1] != source:
        before = int(pi[path[-1]])
        if before in path:
            return None
        path.append(before)
    return path[::-1]


def _walk_back_from(pointers: np.ndarray, end: int, start: int, graph: Graph) -> float | None:
    """The length of the path from `start` to `end`; None where there is none."""
    path = _walk_back(pointers, end, start)
    if path is None:
        return None
    steps = list(itertools.pairwise(path))
    return _total(graph, steps) if all(graph.edges[step] for step in steps) else None


def _total(graph: Graph, steps: list[tuple[int, int]]) -> float | int:
    """The sum of the weights in the caller's units; whole numbers stay whole."""
    total = float(sum(graph.weights[step] for step in steps))
    return int(total) if total.is_integer() and abs(total) < 2**53 else total


def _tree(instance: Instance, edges: list[tuple[int, int]]) -> Plain:
    graph, labels = instance.given, instance.labels
    real = [step for step in edges if graph.edges[step]]
    named = [(labels[i], labels[j], _total(graph, [(i, j)]) if graph.edges[i, j] else None) for i, j in edges]
    return {"edges": named, "weight": _total(graph, real) if len(real) == len(edges) else None}


def _tree_lines(plain: Plain) -> list[str]:
    rows = [(f"{a} – {b}", "no such edge" if weight is None else shown(weight)) for a, b, weight in plain["edges"]] or [
        ("no edges", "")
    ]
    return [*_aligned(rows), f"total weight: {shown(plain['weight'])}"]


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


GRAPH_PROBLEMS: dict[str, GraphProblem] = {
    problem.algorithm: problem
    for problem in (
        Paths("bfs", Weights.UNUSED, Trained.UNDIRECTED),
        Paths("dijkstra", Weights.ADDED, Trained.UNDIRECTED, takes_negative=False),
        Paths("bellman_ford", Weights.ADDED, Trained.UNDIRECTED),
        Paths("dag_shortest_paths", Weights.ADDED, Trained.ACYCLIC),
        AllPairs("floyd_warshall", Weights.ADDED, Trained.UNDIRECTED),
        SourceTree("mst_prim", Weights.COMPARED, Trained.UNDIRECTED, takes_directed=False),
        Tree("mst_kruskal", Weights.COMPARED, Trained.UNDIRECTED, takes_directed=False),
        Forest("dfs", Weights.UNUSED, Trained.DIRECTED),
        Order("topological_sort", Weights.UNUSED, Trained.ACYCLIC),
        CutNodes("articulation_points", Weights.UNUSED, Trained.UNDIRECTED, takes_directed=False),
        CutEdges("bridges", Weights.UNUSED, Trained.UNDIRECTED, takes_directed=False),
        Components("strongly_connected_components", Weights.UNUSED, Trained.DIRECTED),
    )
}
