"""Imports and exports graphs of NetworkX.

    import networkx as nx
    import narkit

    cities = nx.Graph()
    cities.add_weighted_edges_from([("Ulm", "Augsburg", 0.3), ("Augsburg", "Munich", 0.2)])
    batch = narkit.run("dijkstra", **narkit.interop.networkx.arguments("dijkstra", cities, s="Ulm"))
    (graph,) = narkit.interop.networkx.graphs(batch, labels=[list(cities)])
    graph.nodes["Munich"]["pi"]  # 'Augsburg'

To have a trained network answer instead of the textbook, see `narkit.solve`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from narkit.algorithms import ALGORITHMS
from narkit.data.batch import Batch
from narkit.errors import InstanceError
from narkit.interop.samples import POINTERS, edge_lists
from narkit.spec import Kind, Location, Probe, Stage

try:
    import networkx as nx
except ModuleNotFoundError as error:
    raise ImportError(
        "narkit.interop.networkx needs NetworkX, which is not installed; install it with: "
        "pip install 'narkit[networkx]'"
    ) from error


def arguments(algorithm: str, graph: nx.Graph, /, weight: str = "weight", **others: Any) -> dict[str, Any]:
    """Returns what `narkit.run` takes for a graph algorithm: `narkit.run("bfs", **arguments("bfs", graph, s="Ulm"))`.

    The matrix follows the order of `graph.nodes`. Where an edge has no attribute `weight` it counts as 1. Other
    arguments, such as the source `s`, are nodes of the graph; they become their numbers.
    """
    entry = ALGORITHMS[algorithm]
    if "A" not in entry.arguments or "adj" not in entry.spec:
        fitting = ", ".join(name for name, other in ALGORITHMS.items() if "adj" in other.spec)
        raise InstanceError(f"{algorithm}: expected an algorithm that runs on a graph, such as {fitting}")
    if graph.number_of_nodes() == 0:
        raise InstanceError(f"{algorithm}: expected a graph with nodes, got an empty one")
    if graph.is_multigraph():
        raise InstanceError(
            f"{algorithm}: expected at most one edge between two nodes, got a multigraph; merge its edges"
        )
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    given: dict[str, Any] = {"A": nx.to_numpy_array(graph, weight=weight)}
    for name, value in others.items():
        if not isinstance(value, Hashable) or value not in numbers:
            known = ", ".join(map(repr, list(numbers)[:5]))
            raise InstanceError(f"{algorithm}: expected a node of the graph for {name}, such as {known}; got {value!r}")
        given[name] = numbers[value]
    return given


def graphs(batch: Batch, labels: Sequence[Sequence[Hashable]] | None = None) -> list[nx.DiGraph]:
    """Returns the trajectories of a batch as directed graphs.

    Values of nodes, edges and the graph are attributes under the probes' names; a hint is the list of its values, one
    for each step. Pointers name nodes. `labels` gives the nodes' names for every sample; otherwise they are numbers.
    """
    spec = batch.spec
    converted = []
    for index, sample in enumerate(edge_lists(batch)):
        names = list(range(sample.num_nodes)) if labels is None else list(labels[index])
        if len(set(names)) != sample.num_nodes:
            raise InstanceError(
                f"labels of sample {index}: expected {sample.num_nodes} different ones, got {len(set(names))}"
            )
        graph = nx.DiGraph(algorithm=batch.algorithm, length=sample.length)
        graph.add_nodes_from(names)
        edges = [(names[source], names[target]) for source, target in sample.edge_index.T]
        graph.add_edges_from(edges)
        for name, values in sample.values.items():
            probe = spec[name]
            plain = [_plain(probe, value, sample.length, names) for value in values]
            match probe.location:
                case Location.NODE:
                    nx.set_node_attributes(graph, dict(zip(names, plain, strict=True)), name)
                case Location.EDGE:
                    nx.set_edge_attributes(graph, dict(zip(edges, plain, strict=True)), name)
                case Location.GRAPH:
                    graph.graph[name] = plain[0]
        converted.append(graph)
    return converted


def _plain(probe: Probe, value: np.ndarray, length: int, names: list[Any]) -> Any:
    """Returns a value of one node, edge or graph in Python's own types: of a hint the list of its steps."""
    if probe.stage is Stage.HINT:
        return [_plain_value(probe, step, names) for step in value[:length]]
    return _plain_value(probe, value, names)


def _plain_value(probe: Probe, value: Any, names: list[Any]) -> Any:
    if probe.kind in POINTERS:
        return names[int(value)]
    if probe.kind is Kind.CATEGORICAL:
        return int(np.argmax(value)) if np.max(value) > 0 else None
    return np.asarray(value).item()
