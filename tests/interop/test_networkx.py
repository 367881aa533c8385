"""NetworkX graphs in and out, with NetworkX's own algorithms as the judge."""

import networkx as nx
import numpy as np
import pytest

import narkit
from narkit.errors import InstanceError
from narkit.interop.networkx import arguments, graphs


@pytest.fixture
def cities() -> nx.Graph:
    graph = nx.Graph()
    roads = [("Ulm", "Augsburg", 0.3), ("Augsburg", "Munich", 0.2), ("Ulm", "Kempten", 0.4), ("Kempten", "Munich", 0.5)]
    graph.add_weighted_edges_from(roads)
    return graph


def test_shortest_paths_are_those_of_networkx(cities: nx.Graph) -> None:
    batch = narkit.run("dijkstra", **arguments("dijkstra", cities, s="Ulm"))
    (graph,) = graphs(batch, labels=[list(cities)])
    for city, path in nx.single_source_dijkstra_path(cities, "Ulm").items():
        assert graph.nodes[city]["pi"] == (path[-2] if len(path) > 1 else city)
    assert graph.edges["Ulm", "Augsburg"]["A"] == pytest.approx(0.3)
    assert graph.nodes["Ulm"]["s"] == 1 and graph.graph["algorithm"] == "dijkstra"
    assert {len(values) for values in (graph.nodes["Ulm"]["d"], graph.nodes["Munich"]["pi_h"])} == {
        graph.graph["length"]
    }


def test_direction_and_missing_weights_count() -> None:
    graph = nx.DiGraph([("a", "b"), ("b", "c")])
    given = arguments("bellman_ford", graph, s="a")
    np.testing.assert_array_equal(given["A"], [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    assert given["s"] == 0


def test_graphs_of_a_split_have_its_edges() -> None:
    batch = narkit.load_split("bfs", "val")[:3]
    for index, graph in enumerate(graphs(batch)):
        np.testing.assert_array_equal(nx.to_numpy_array(graph, weight="adj"), batch.inputs["adj"][index])
        reached = nx.descendants(graph, int(batch.inputs["s"][index].argmax())) | {
            int(batch.inputs["s"][index].argmax())
        }
        assert {node for node in graph if graph.nodes[node]["reach_h"][-1] == 1} == reached


def test_categories_are_numbers_and_none_where_they_do_not_count() -> None:
    batch = narkit.load_split("lcs_length", "val")[:1]
    (graph,) = graphs(batch)
    values = {data["b"] for _, _, data in graph.edges(data=True)}
    assert values <= {0, 1, 2, 3, None} and None in values


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: arguments("quicksort", g), "expected an algorithm that runs on a graph, such as"),
        (lambda g: arguments("bfs", nx.Graph(), s=0), "expected a graph with nodes"),
        (lambda g: arguments("bfs", nx.MultiGraph(g), s="Ulm"), "got a multigraph; merge its edges"),
        (lambda g: arguments("bfs", g, s="Rome"), "expected a node of the graph for s, such as 'Ulm'.*got 'Rome'"),
        (lambda g: arguments("bfs", g, s=["Ulm"]), "expected a node of the graph for s"),
        (lambda g: graphs(narkit.load_split("bfs", "val")[:1], labels=["abc"]), "expected 16 different ones, got 3"),
    ],
)
def test_mistakes_are_explained(cities: nx.Graph, call, message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        call(cities)
