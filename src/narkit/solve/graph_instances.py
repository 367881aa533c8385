"""Instances of problems on graphs: which graphs fit, and how their weights get into the range of the training."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.csgraph import connected_components

from narkit.algorithms.arguments import nodes_behind_cycles
from narkit.errors import InstanceError
from narkit.solve import ranges
from narkit.solve.graphs import Graph, read_graph
from narkit.solve.problem import Instance, Problem
from narkit.solve.ranges import listed

LIGHTEST_TRAINED = 0.03  # the weights of undirected training graphs: the square root of at least 0.001


class WeightUse(enum.Enum):
    """The property of the weights that an answer depends on."""

    UNUSED = "the edges only"
    ADDED = "sums of weights"
    COMPARED = "the order of the weights"


class TrainedOn(enum.Enum):
    """The graphs that the networks were trained on."""

    UNDIRECTED = "undirected graphs"
    DIRECTED = "directed graphs"
    ACYCLIC = "directed graphs without cycles"


@dataclass(frozen=True)
class GraphProblem(Problem):
    """A problem on a graph. Edges without weights have weight 1."""

    algorithm: str
    weights: WeightUse
    trained: TrainedOn
    takes_directed: bool = True  # whether the algorithm itself can run on directed graphs
    takes_negative: bool = True

    parameters: ClassVar[tuple[str, ...]] = ("graph",)
    options: ClassVar[tuple[str, ...]] = ("directed", "weight")

    def read(self, given: Mapping[str, Any]) -> Instance:
        directed, by_default = given.get("directed"), self.trained is not TrainedOn.UNDIRECTED
        read = read_graph(given["graph"], directed, given.get("weight", "weight"), by_default)
        instance = Instance({}, read.labels, read, notes=list(read.notes), own={"A": read.weights})
        self._check_directions(read, instance)
        if "source" in self.parameters:
            instance.arguments["s"] = read.index(given["source"])
        instance.arguments = {"A": self._matrix(read, instance)} | instance.arguments
        parts = connected_components(read.edges, connection="weak", return_labels=False)
        if parts > 1 and self.trained is TrainedOn.UNDIRECTED:
            instance.notes.append(f"the graph is not connected: it falls into {parts} parts")
        return instance

    def _check_directions(self, graph: Graph, instance: Instance) -> None:
        if self.trained is TrainedOn.ACYCLIC:
            self._check_acyclic(graph)
        if graph.directed and not self.takes_directed:
            raise InstanceError(
                f"graph: expected an undirected graph for {self.algorithm}, got a directed one; give directed=False "
                "(--undirected) to take its edges in both directions"
            )
        if graph.directed and self.trained is TrainedOn.UNDIRECTED:
            instance.warnings.append("the graph is directed; the networks were trained on undirected graphs only")

    def _check_acyclic(self, graph: Graph) -> None:
        if graph.loops:
            raise InstanceError(f"graph: expected no cycles, got an edge from {graph.loops[0]} to itself; remove it")
        left = nodes_behind_cycles(graph.edges)
        if left.any():
            names = listed([graph.labels[node] for node in np.flatnonzero(left)])
            undirected = "" if graph.directed else " (it is undirected: every edge counts in both directions)"
            raise InstanceError(
                f"graph: expected a directed graph without cycles, got a cycle among {names}{undirected}; remove it"
            )

    def _matrix(self, graph: Graph, instance: Instance) -> np.ndarray:
        match self.weights:
            case WeightUse.UNUSED:
                if graph.weighted:
                    instance.notes.append(f"weights of edges play no part in {self.algorithm}; every edge has weight 1")
                return graph.edges.astype(np.float64)
            case WeightUse.ADDED:
                return self._scaled(graph, instance)
            case WeightUse.COMPARED:
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
        if is_light and self.trained is TrainedOn.UNDIRECTED:
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


def _ranked(graph: Graph, instance: Instance) -> np.ndarray:
    """Replaces the weights of undirected edges by evenly spaced numbers in the same order."""
    starts, ends = np.nonzero(np.triu(graph.edges, 1))
    weights = graph.weights[starts, ends]
    if weights.min(initial=1.0) <= 0.0:  # a weight that stays as it is must not be 0, which would be no edge
        weights = weights - weights.min() + 1.0
    ranks = ranges.ranked(weights, "weights", instance.notes)
    matrix = np.zeros(graph.weights.shape)
    matrix[starts, ends] = matrix[ends, starts] = ranks
    return matrix
