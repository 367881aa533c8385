"""Bad instances are refused with what was expected, what came and what to do; odd ones are said to be odd."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse

import narkit
from narkit.errors import InstanceError
from narkit.solve import prepare
from narkit.solve.problem import MAX_NODES

EDGES = [("a", "b", 1), ("b", "c", 2)]
NAN, INFINITY = float("nan"), float("inf")

GRAPHS: list[tuple[Any, str]] = [
    ([], "expected at least 2 nodes, got none"),
    (nx.Graph(), "expected at least 2 nodes, got none"),
    ({}, "expected at least 2 nodes, got none"),
    (np.zeros((0, 0)), "expected a square adjacency matrix"),
    ([("a", "a", 1)], "expected at least 2 nodes, got 1"),
    ([("a", "b", NAN)], "weight of the edge from a to b: expected a finite number, got nan"),
    ([("a", "b", "far")], "expected a number, got 'far' of type str"),
    ([("a", "b", -1)], "expected no negative weights, got -1 from a to b; bellman_ford takes them"),
    ([("a", "b", 0)], "expected weights other than 0, got 0 from a to b"),
    ([("a", "b", 1), ("b", "c")], "expected a weight for all edges or for none"),
    ([("a",)], r"edge 1: expected \(from, to\) or \(from, to, weight\), got \('a',\)"),
    (["ab"], "edge 1: expected"),
    ([(None, "b")], "edge 1: expected two labels"),
    ([({}, "b")], "expected labels that can be told apart"),
    (5, "expected a NetworkX graph, a SciPy sparse matrix"),
    (np.array(5), "expected a NetworkX graph, a SciPy sparse matrix"),
    ({"a": 5}, r"expected a dictionary \{node"),
    ("no/such/file.csv", "expected a CSV file, but there is none"),
    (np.array([[0, NAN], [1, 0]]), "got NaN at row 0, column 1; write 0 where no edge is"),
    (np.array([[0, -INFINITY], [-INFINITY, 0]]), "got minus infinity"),
    (np.ones((4, 5)), r"expected a square adjacency matrix, got shape \(4, 5\)"),
    (np.array([["a", "b"], ["c", "d"]]), "expected an adjacency matrix of numbers"),
    (scipy.sparse.csr_matrix(np.ones((3, 4))), r"expected a square matrix, got shape \(3, 4\)"),
    ([[0, 1, 5], [1, 2, 3], [0, 2, 1]], "which could be either; give the matrix as a NumPy array, or edges as tuples"),
    ([("a", "b", 1e308), ("b", "c", 1.0)], "expected numbers between 1e-150 and 1e150"),
    ([("a", "b", 10**400)], "expected a finite number, got 1000"),
    (nx.path_graph(5000), f"expected at most {MAX_NODES} nodes, got 5000"),
    (scipy.sparse.eye(5000).tocsr(), f"expected at most {MAX_NODES} nodes, got 5000"),
    ([(node, node + 1) for node in range(5000)], f"expected at most {MAX_NODES} nodes, got 5001"),
]


@pytest.mark.parametrize(("graph", "message"), GRAPHS, ids=range(len(GRAPHS)))
def test_graphs_that_cannot_be(graph: Any, message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        prepare("dijkstra", graph, source="a")


@pytest.mark.parametrize(
    ("algorithm", "graph", "named", "message"),
    [
        ("dijkstra", EDGES, {"source": "bb"}, "no node is named 'bb'; did you mean 'b'"),
        ("dijkstra", EDGES, {"source": "Rome"}, "no node is named 'Rome'; the graph has a, b, c"),
        ("dijkstra", EDGES, {"source": [1]}, "expected the label of a node"),
        ("bellman_ford", [("a", "b", -1)], {"source": "a"}, "expected no negative weights in an undirected graph"),
        ("bellman_ford", [*EDGES, ("a", "a", -1)], {"source": "a"}, "expected no negative edge from a node to itself"),
        (
            "bellman_ford", [("a", "b", -2), ("b", "a", 1)], {"source": "a", "directed": True},
            "expected no cycle of negative total weight, got one through b",
        ),
        ("floyd_warshall", [("a", "b", -2), ("b", "a", 1)], {"directed": True}, "no cycle of negative total weight"),
        ("topological_sort", [("a", "b"), ("b", "a")], {}, "got a cycle among a, b; remove it"),
        ("topological_sort", nx.Graph([("a", "b")]), {}, "it is undirected: every edge counts in both directions"),
        ("topological_sort", [("a", "a"), ("a", "b")], {}, "an edge from a to itself"),
        ("mst_prim", nx.DiGraph([("a", "b")]), {"source": "a"}, "expected an undirected graph for mst_prim"),
        ("bridges", np.array([[0, 1], [0, 0]]), {}, "expected an undirected graph for bridges"),
        ("mst_kruskal", np.array([[0, 1], [2, 0]]), {"directed": False}, "got 1 from 0 to 1 but 2 back"),
    ],
)  # fmt: skip
def test_graphs_that_do_not_fit(algorithm: str, graph: Any, named: dict[str, Any], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        prepare(algorithm, graph, **named)


@pytest.mark.parametrize(
    ("algorithm", "graph", "named", "note"),
    [
        ("dijkstra", [*EDGES, ("b", "a", 5)], {"source": "a"}, "count once, with the least weight: b to a"),
        ("dijkstra", [*EDGES, ("a", "a", 5)], {"source": "a"}, "from a node to itself were left out: a"),
        ("dijkstra", [*EDGES, ("x", "y", 5)], {"source": "a"}, "not connected: it falls into 2 parts"),
        ("mst_kruskal", np.zeros((3, 3)), {}, "not connected: it falls into 3 parts"),
        ("dijkstra", np.array([[0, 1, np.inf], [1, 0, 1], [np.inf, 1, 0]]), {"source": 0}, "infinite entries"),
        ("dijkstra", EDGES, {"source": "a"}, "weights were divided by 4"),
        ("bellman_ford", [("a", "b", 1e-3), ("b", "c", 2e-3)], {"source": "a"}, "weights were multiplied by 256"),
        ("bfs", EDGES, {"source": "a"}, "weights of edges play no part in bfs"),
        ("dijkstra", EDGES, {"source": "a", "directed": True}, "trained on undirected graphs only"),
        ("bellman_ford", [("a", "b", -1)], {"source": "a", "directed": True}, "some weights are negative"),
        ("dijkstra", [("a", "b", 1), ("b", "c", 1000)], {"source": "a"}, "1e+03 times as heavy as the lightest"),
    ],
)
def test_odd_graphs_are_said_to_be_odd(algorithm: str, graph: Any, named: dict[str, Any], note: str) -> None:
    instance = prepare(algorithm, graph, **named)
    assert any(note in said for said in (*instance.notes, *instance.warnings))
    narkit.run(algorithm, **instance.arguments)


LISTS: list[tuple[Any, str]] = [
    ([], "expected at least 2 (keys|numbers|dimensions), got none"),
    ([1], "expected at least 2 (keys|numbers|dimensions), got 1"),
    ([1, NAN], "number 2 of 2: expected a finite number, got nan"),
    ([1, -INFINITY], "expected a finite number"),
    ([1, None], "expected a number, got None"),
    ([True, False], "expected a number, got True of type bool"),
    ([[1, 2], [3, 4]], r"expected a number, got \[1, 2\] of type list"),
    ("abc", "expected a list of numbers"),
    (5, "expected a list of numbers"),
    (np.array(5), "expected a list of numbers"),
    ({1: 2}, "expected a list of numbers"),
    (range(5000), f"expected at most {MAX_NODES} (keys|numbers|dimensions), got 5000"),
]


@pytest.mark.parametrize(("values", "message"), LISTS, ids=range(len(LISTS)))
def test_lists_that_cannot_be(values: Any, message: str) -> None:
    for algorithm in ("quicksort", "minimum", "find_maximum_subarray_kadane", "matrix_chain_order"):
        with pytest.raises(InstanceError, match=message):
            prepare(algorithm, values)


@pytest.mark.parametrize(
    ("algorithm", "data", "message"),
    [
        ("quicksort", ([1, "a"],), "expected numbers only or strings only, got both: 1 and 'a'"),
        ("find_maximum_subarray_kadane", (["a", "b"],), "expected a number, got 'a'"),
        ("matrix_chain_order", ([3, 0],), "expected positive numbers, got 0"),
        ("binary_search", ([3, 2], 1), "expected sorted keys, got 3 before 2 at index 0"),
        ("binary_search", ([1, 2], "a"), "expected one like the keys, 1, got 'a'"),
        ("binary_search", ([1, 2], NAN), "target: expected a finite number"),
        ("kmp_matcher", ("", "a"), "text: expected at least one letter, got none"),
        ("kmp_matcher", ("ab", "abc"), r"expected one no longer than the text \(2 letters\), got 3"),
        ("kmp_matcher", (7, "a"), "text: expected a string"),
        ("kmp_matcher", (np.array(7), "a"), "text: expected a string"),
        ("kmp_matcher", ("abcde", "abcde"), "expected at most 4 letters, which is what the networks know, got 5"),
        ("kmp_matcher", ([[1]], ["x"]), "expected strings or numbers as letters"),
        ("lcs_length", ("abcdef", "fedcba"), "of which 6 have to be told apart"),
        ("graham_scan", ([(0, 0), (1, 1)],), "expected at least 3 points, got 2"),
        ("graham_scan", ([(0, 0), (0, 0), (1, 2)],), r"expected different points, got \(0, 0\) twice"),
        ("graham_scan", ([(0, 0), (1, 2), (3,)],), r"points, 2: expected \(x, y\), got \(3,\)"),
        ("jarvis_march", ([(0, 0), (1, 2), (3, NAN)],), "points, 2, y: expected a finite number"),
        ("jarvis_march", (None,), "points: expected rows of x, y"),
        ("jarvis_march", (np.array(5),), "points: expected rows of x, y"),
        ("segments_intersect", ([(0, 0), (1, 1)],), "expected 4, the ends of one segment"),
        ("activity_selector", ([(2, 1), (1, 2)],), "expected a finish that is not before the start, got 1 before 2"),
        ("task_scheduling", ([(0, 1), (1, 2)],), "expected a whole number of at least 1 as deadline, got 0"),
        ("task_scheduling", ([(1, -1), (1, 2)],), "expected a penalty of at least 0, got -1"),
        ("optimal_bst", ([1, 2], [1, 1]), "gaps: expected 3, one before each of the 2 keys and one after, got 2"),
        ("optimal_bst", ([0], [0, 0]), "expected some above 0"),
        ("optimal_bst", ([1], [-1, 1]), "expected none below 0, got -1"),
        ("optimal_bst", ([1e308, 1e308], [1, 1, 1]), "expected numbers with a finite sum"),
    ],
)
def test_instances_that_cannot_be(algorithm: str, data: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        prepare(algorithm, *data)


def test_calls_that_cannot_be() -> None:
    for arguments, named, message in [
        ((EDGES,), {}, "expected graph, source; missing: source"),
        ((EDGES, "a", "b"), {}, "got 3 values without a name"),
        ((EDGES, "a"), {"source": "a"}, "source was given twice"),
        ((EDGES, "a"), {"sorce": "a"}, r"\(and directed, weight if need be\); got the unknown 'sorce'"),
    ]:
        with pytest.raises(TypeError, match=message):
            prepare("bfs", *arguments, **named)
    with pytest.raises(ValueError, match="did you mean 'quicksort'"):
        narkit.solve("quiksort", [1, 2])
    with pytest.raises(TypeError, match="expected either one instance or `instances`"):
        narkit.solve("quicksort", [1, 2], instances=[[1, 2]])
    with pytest.raises(InstanceError, match="instance 2: expected at least 2 keys"):
        narkit.solve("quicksort", instances=[[1, 2], [1]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected rows, got an empty file"),
        ("from,to\n", "expected edges, got headings only"),
        ("from,to,km\na,b,1\na,c,far\n", r"line 3: expected a number, got 'far'"),
        ("a,b,1O\na,c,1\n", r"line 1: expected a number, got '1O'"),
        ("a,b,1\na\n", r"line 2: expected two nodes"),
        ("a,b,1\n,c,2\n", r"line 2: expected two nodes"),
        ("a,b,nan\n", "expected a finite number, got nan"),
        ("\xff\xfe", "expected a CSV file in UTF-8"),
    ],
)
def test_files_that_cannot_be(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InstanceError, match=message):
        prepare("dijkstra", path, source="a")
    with pytest.raises(InstanceError, match="cannot be read"):
        prepare("dijkstra", tmp_path, source="a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0..1,2\n3,4\n", r"line 1: expected a number, got '0\.\.1'"),
        ("x,2\n3,4\n", "line 1: expected a number, got 'x'"),
        ("1,01,0\n0,1\n", "line 2: expected a name in front of every row or of none"),
    ],
)
def test_a_first_row_with_a_slip_is_no_heading(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text(text)
    with pytest.raises(InstanceError, match=message):
        prepare("graham_scan", path)
    path.write_text("name,x,y\na,0,0\nb,1,0\nc,0,1\n")
    prepare("graham_scan", path)
