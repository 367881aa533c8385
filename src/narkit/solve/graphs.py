"""Graphs as people have them: NetworkX graphs, SciPy matrices, adjacency matrices, edge lists, files."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from narkit.errors import InstanceError
from narkit.solve.problem import Label, check_size
from narkit.solve.ranges import brief, listed, number
from narkit.solve.tables import read_edges

Edge = tuple[Label, Label, Any]  # the weight may be None: not given


@dataclass
class Graph:
    """A graph with the caller's labels. An undirected one has every edge in both directions."""

    labels: tuple[Label, ...]
    edges: np.ndarray  # (n, n), bool
    weights: np.ndarray  # (n, n), 0 where no edge is
    directed: bool
    weighted: bool  # whether any weight was given
    notes: list[str] = field(default_factory=list)
    loops: list[Label] = field(default_factory=list)  # nodes with an edge to themselves, which was left out

    @property
    def num_nodes(self) -> int:
        return len(self.labels)

    def index(self, label: Label) -> int:
        """Returns the node of a source's label. A string also finds a label written like it, for command lines."""
        places = {known: place for place, known in enumerate(self.labels)}
        try:
            if label in places:
                return places[label]
        except TypeError:  # cannot be a key
            raise InstanceError(f"source: expected the label of a node, got {brief(label)}") from None
        written = [place for place, known in enumerate(self.labels) if str(known) == str(label)]
        if len(written) == 1:
            return written[0]
        near = difflib.get_close_matches(str(label), [str(known) for known in self.labels], n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"the graph has {listed(self.labels)}"
        raise InstanceError(f"source: no node is named {brief(label)}; {hint}")


def read_graph(graph: Any, directed: bool | None, weight: str, directed_by_default: bool) -> Graph:
    """Reads a graph from whatever describes one.

    - a NetworkX graph; `weight` names the attribute of edges
    - a SciPy sparse matrix or a square NumPy array or list of lists: the adjacency matrix, 0 (or infinity) where no
      edge is; it is directed if it is not symmetric
    - edges, (from, to) or (from, to, weight), in a list or in a CSV file
    - a dictionary {node: {neighbour: weight}} or {node: [neighbours]}
    """
    if isinstance(graph, Graph):
        return graph
    is_directed = directed_by_default if directed is None else directed  # where the graph itself does not say it
    if isinstance(graph, (str, os.PathLike)):
        return _from_edges(read_edges(graph), (), is_directed)
    if hasattr(graph, "is_directed") and hasattr(graph, "nodes"):
        return _from_networkx(graph, directed, weight)
    if hasattr(graph, "tocoo"):
        return _from_sparse(graph, directed)
    if isinstance(graph, Mapping):
        return _from_mapping(graph, is_directed)
    if _is_matrix(graph):
        return _from_matrix(graph, directed)
    if isinstance(graph, Iterable) and not isinstance(graph, bytes):
        return _from_edges(list(graph), (), is_directed)
    raise InstanceError(
        "graph: expected a NetworkX graph, a SciPy sparse matrix, an adjacency matrix, a list of edges, a dictionary "
        f"or the name of a CSV file, got {type(graph).__name__}"
    )


def _is_matrix(graph: Any) -> bool:
    """Returns whether this is an adjacency matrix, not edges: an array, or as many lists of numbers as each is long."""
    if isinstance(graph, np.ndarray):
        return graph.ndim != 2 or graph.shape[1] not in (2, 3) or graph.shape[0] == graph.shape[1]
    if not isinstance(graph, Sequence) or isinstance(graph, str) or not graph:
        return False
    rows = [row for row in graph if isinstance(row, (list, np.ndarray))]
    if len(rows) != len(graph) or {len(row) for row in rows} != {len(graph)}:
        return False
    if any(isinstance(cell, str) for row in rows for cell in row):
        return False
    if len(rows) in (2, 3) and any(rows[i][j] != rows[j][i] for i in range(len(rows)) for j in range(i)):
        raise InstanceError(
            f"graph: expected an adjacency matrix or edges, got {len(rows)} lists of {len(rows)} numbers, which could "
            "be either; give the matrix as a NumPy array, or edges as tuples"
        )
    return True


def _from_networkx(graph: Any, directed: bool | None, weight: str) -> Graph:
    given = [(u, v, attributes.get(weight)) for u, v, attributes in graph.edges(data=True)]
    made = _from_edges(given, tuple(graph.nodes), graph.is_directed() and directed is not False)
    made.directed = graph.is_directed() if directed is None else directed
    return made


def _from_sparse(matrix: Any, directed: bool | None) -> Graph:
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InstanceError(f"graph: expected a square matrix, got shape {matrix.shape}")
    check_size(matrix.shape[0])
    return _from_matrix(np.asarray(matrix.todense()), directed)


def _from_matrix(matrix: Any, directed: bool | None) -> Graph:
    if len(matrix) > 0:
        check_size(len(matrix))
    try:
        values = np.asarray(matrix)
    except ValueError:
        values = np.empty((0, 0))
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise InstanceError(f"graph: expected a square adjacency matrix, got shape {values.shape}")
    if values.dtype.kind not in "biuf":
        raise InstanceError(f"graph: expected an adjacency matrix of numbers, got values of type {values.dtype}")
    values = values.astype(np.float64)
    if np.isnan(values).any():
        i, j = np.argwhere(np.isnan(values))[0]
        raise InstanceError(f"graph: expected finite weights, got NaN at row {i}, column {j}; write 0 where no edge is")
    notes = []
    if np.isinf(values).any():
        if (values < 0).any() and np.isneginf(values).any():
            raise InstanceError("graph: expected finite weights, got minus infinity; write 0 where no edge is")
        values = np.where(np.isinf(values), 0.0, values)
        notes.append("infinite entries of the matrix were read as: no edge")
    symmetric = bool(np.array_equal(values, values.T))
    if directed is False and not symmetric:
        contradictions = np.argwhere((values != values.T) & (values != 0) & (values.T != 0))
        if len(contradictions):
            i, j = contradictions[0]
            raise InstanceError(
                f"graph: expected a symmetric matrix for an undirected graph, got {values[i, j]:g} from {i} to {j} but "
                f"{values[j, i]:g} back; symmetrise it, or leave directed out"
            )
        values = np.where(values != 0, values, values.T)
    is_directed = not symmetric if directed is None else directed
    weighted = bool((values[values != 0] != 1).any())
    graph = Graph(tuple(range(len(values))), values != 0, values, is_directed, weighted, notes)
    return _without_loops(graph)


def _from_mapping(graph: Mapping, directed: bool) -> Graph:
    edges: list[Edge] = []
    for node, neighbours in graph.items():
        if isinstance(neighbours, Mapping):
            edges += [(node, other, weight) for other, weight in neighbours.items()]
        elif isinstance(neighbours, Iterable) and not isinstance(neighbours, (str, bytes)):
            edges += [(node, other, None) for other in neighbours]
        else:
            raise InstanceError(
                f"graph: expected a dictionary {{node: {{neighbour: weight}}}} or {{node: [neighbours]}}, got "
                f"{brief(neighbours)} for {brief(node)}"
            )
    return _from_edges(edges, tuple(graph), directed, both_ways=True)


def _from_edges(edges: Sequence[Any], nodes: Sequence[Label], directed: bool, both_ways: bool = False) -> Graph:
    """Makes a graph from (from, to) or (from, to, weight); nodes that no edge names come first, in their own order.

    `both_ways`: undirected edges may be listed from both ends, as dictionaries do.
    """
    places = {label: place for place, label in enumerate(dict.fromkeys(nodes))}
    read = [_edge(edge, place) for place, edge in enumerate(edges, 1)]
    for start, end, _ in read:
        for label in (start, end):
            try:
                places.setdefault(label, len(places))
            except TypeError:
                raise InstanceError(f"graph: expected labels that can be told apart, got {brief(label)}") from None
    check_size(len(places))
    num_nodes = len(places)
    present, weights = np.zeros((num_nodes, num_nodes), bool), np.zeros((num_nodes, num_nodes))
    repeated: list[str] = []
    for start, end, weight in read:
        i, j = places[start], places[end]
        value = 1.0 if weight is None else number(weight, f"graph: weight of the edge from {start} to {end}")
        if present[i, j] and not (both_ways and not directed and weights[i, j] == value):
            repeated.append(f"{start} to {end}")
            value = min(value, weights[i, j])
        for a, b in [(i, j)] if directed else [(i, j), (j, i)]:
            present[a, b], weights[a, b] = True, value
    notes = []
    if repeated:
        notes.append(f"edges given more than once count once, with the least weight: {listed(repeated)}")
    given = [weight is not None for *_, weight in read]
    if any(given) and not all(given):
        raise InstanceError("graph: expected a weight for all edges or for none, got some with and some without")
    return _without_loops(Graph(tuple(places), present, weights, directed, any(given), notes))


def _edge(edge: Any, place: int) -> Edge:
    parts = edge.tolist() if isinstance(edge, np.ndarray) else edge
    if isinstance(parts, (str, bytes)) or not isinstance(parts, Sequence) or len(parts) not in (2, 3):
        raise InstanceError(f"graph, edge {place}: expected (from, to) or (from, to, weight), got {brief(edge)}")
    start, end = parts[0], parts[1]
    for label in (start, end):
        if label is None or (isinstance(label, float) and np.isnan(label)) or (isinstance(label, str) and not label):
            raise InstanceError(f"graph, edge {place}: expected two labels, got {brief(edge)}")
    return start, end, parts[2] if len(parts) == 3 else None


def _without_loops(graph: Graph) -> Graph:
    loops = np.flatnonzero(graph.edges.diagonal())
    negative = [place for place in loops if graph.weights[place, place] < 0]
    if negative:
        raise InstanceError(
            f"graph: expected no negative edge from a node to itself, got one at {graph.labels[negative[0]]}: a path "
            "could go round it forever; remove it"
        )
    if len(loops):
        graph.loops = [graph.labels[i] for i in loops]
        graph.notes.append(f"edges from a node to itself were left out: {listed(graph.loops)}")
        np.fill_diagonal(graph.edges, False)
        np.fill_diagonal(graph.weights, 0.0)
    return graph
