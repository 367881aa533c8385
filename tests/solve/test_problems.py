"""Every algorithm has a problem and an example; instances are read, mapped and answered in the caller's words."""

import inspect
import random
import shlex
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from typer.main import get_command

import narkit
from narkit.cli import app
from narkit.cli.instances import given_instance
from narkit.solve import prepare
from narkit.solve.examples import EXAMPLES
from narkit.solve.problem import alike
from narkit.solve.problems import PROBLEMS


def truth_of(algorithm: str, *data: Any, **named: Any) -> dict[str, Any]:
    """The algorithm's answer, without a network."""
    instance = prepare(algorithm, *data, **named)
    batch = narkit.run(algorithm, **instance.arguments)
    outputs = {name: values[0] for name, values in batch.outputs.items()}
    plain = PROBLEMS[algorithm].plain(instance, outputs)
    assert PROBLEMS[algorithm].lines(instance, plain)
    return plain


def example_instance(algorithm: str, folder: Path) -> dict[str, Any]:
    """The example as its command line gives it."""
    example = EXAMPLES[algorithm]
    for name, text in example.files.items():
        (folder / name).write_text(text)
    command = get_command(app).commands["solve"]  # type: ignore[attr-defined]
    context = command.make_context("solve", shlex.split(example.command(algorithm))[2:])
    return given_instance(algorithm, context.params)


def test_every_algorithm_of_the_benchmark_can_be_solved() -> None:
    assert set(PROBLEMS) == set(EXAMPLES) == set(narkit.ALGORITHMS)


EXPECTED = {
    "activity_selector": {"selected": ["opening", "demo", "keynote", "closing"]},
    "articulation_points": {"articulation_points": []},
    "bellman_ford": {"Frankfurt": 311},
    "bfs": {"Frankfurt": 3},
    "binary_search": {"index": 3, "key": 7, "found": True},
    "bridges": {"bridges": []},
    "bubble_sort": {"sorted": [1, 2, 3, 5], "order": [2, 3, 1, 0]},
    "dag_shortest_paths": {"test": 9},
    "dfs": {"roots": ["home"]},
    "dijkstra": {"Frankfurt": 311, "Nürnberg": 316},
    "find_maximum_subarray_kadane": {"start": 2, "end": 5, "run": [3, 5, -2, 6], "sum": 12},
    "floyd_warshall": {},
    "graham_scan": {"corners": ["lake", "mill", "tower", "farm"], "hull": [(2, 1), (7, 3), (5, 8), (1, 6)]},
    "heapsort": {"sorted": [1, 2, 3, 5]},
    "insertion_sort": {"sorted": ["apple", "fig", "pear", "plum"]},
    "jarvis_march": {"corners": ["lake", "mill", "tower", "farm"]},
    "kmp_matcher": {"position": 4},
    "lcs_length": {"length": 4, "subsequence": "taca"},
    "matrix_chain_order": {"product": "((A1 (A2 A3)) ((A4 A5) A6))", "cost": 15125},  # CLRS 15.2
    "minimum": {"minimum": 26, "index": 3},
    "mst_kruskal": {"weight": 687},
    "mst_prim": {"weight": 687},
    "naive_string_matcher": {"position": 3},
    "optimal_bst": {"expected_cost": pytest.approx(2.75)},  # CLRS 15.5
    "quickselect": {"median": 41, "index": 1},
    "quicksort": {"sorted": [1, 2, 3, 5]},
    "segments_intersect": {"intersect": True},
    "strongly_connected_components": {"components": [["home"], ["news", "archive"], ["about", "team"]]},
    "task_scheduling": {"selected": ["tax", "rent", "bike"], "penalty": 60},
    "topological_sort": {},
}


@pytest.mark.parametrize("algorithm", EXAMPLES)
def test_examples_have_the_answers_that_they_should(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = truth_of(algorithm, **example_instance(algorithm, tmp_path))
    said = plain | plain.get("lengths", {}) if isinstance(plain.get("lengths"), dict) else plain
    for name, value in EXPECTED[algorithm].items():
        assert said[name] == value, name
    if algorithm == "topological_sort":
        order = plain["order"]
        assert len(order) == 7
        for edge in EXAMPLES[algorithm].files["dressing.csv"].split()[1:]:
            before, after = edge.split(",")
            assert order.index(before) < order.index(after)
    if algorithm == "floyd_warshall":
        assert plain["lengths"][0] == [0, 80, 93, 146, 171, 243, 311, 316]


def random_graph(rng: random.Random, weights: tuple[float, ...], directed: bool = False) -> nx.Graph:
    graph = nx.gnp_random_graph(9, 0.4, seed=rng.randrange(10**6), directed=directed)
    for _, _, attributes in graph.edges(data=True):
        attributes["weight"] = rng.choice(weights)
    return nx.relabel_nodes(graph, {node: f"n{node}" for node in graph})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", [(0.25, 0.5, 0.75), (1, 2, 3, 7, 11), (1e-9, 3e-9), (1e6, 2.5e6, 3.25e6)])
def test_lengths_are_those_of_networkx(seed: int, weights: tuple[float, ...]) -> None:
    graph = random_graph(random.Random(seed), weights)
    expected = nx.single_source_dijkstra_path_length(graph, "n0")
    for algorithm in ("dijkstra", "bellman_ford"):
        lengths = truth_of(algorithm, graph, source="n0")["lengths"]
        assert {node: length for node, length in lengths.items() if length is not None} == pytest.approx(expected)
    all_pairs = truth_of("floyd_warshall", graph)["lengths"][0]
    assert all_pairs == [pytest.approx(expected[node]) if node in expected else None for node in graph]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", [(0.25, 0.5, 0.75), (-3, 0, 5, 5, 8), (1e6, 2e6)])
def test_spanning_trees_are_minimal(seed: int, weights: tuple[float, ...]) -> None:
    graph = random_graph(random.Random(seed), weights)
    component = graph.subgraph(nx.node_connected_component(graph, "n0"))
    assert truth_of("mst_kruskal", graph)["weight"] == nx.minimum_spanning_tree(graph).size("weight")
    assert truth_of("mst_prim", graph, source="n0")["weight"] == nx.minimum_spanning_tree(component).size("weight")


@pytest.mark.parametrize("seed", range(5))
def test_components_are_those_of_networkx(seed: int) -> None:
    graph = random_graph(random.Random(seed), (1,), directed=True)
    components = truth_of("strongly_connected_components", graph)["components"]
    assert sorted(map(sorted, components)) == sorted(map(sorted, nx.strongly_connected_components(nx.DiGraph(graph))))
    undirected = graph.to_undirected()
    assert set(truth_of("articulation_points", undirected)["articulation_points"]) == set(
        nx.articulation_points(undirected)
    )
    found = {frozenset(edge) for edge in truth_of("bridges", undirected)["bridges"]}
    assert found == {frozenset(edge) for edge in nx.bridges(undirected)}


def test_a_graph_may_come_in_any_form(tmp_path: Path) -> None:
    edges = [("a", "b", 2), ("b", "c", 3), ("a", "c", 9), ("c", "d", 4)]
    graph = nx.Graph()
    graph.add_weighted_edges_from(edges)
    matrix = nx.to_numpy_array(graph)
    (tmp_path / "plain.csv").write_text("".join(f"{a},{b},{w}\n" for a, b, w in edges))
    (tmp_path / "titled.csv").write_text("from;to;km\n# a comment\n" + "".join(f"{a}; {b}; {w}\n" for a, b, w in edges))
    named: list[Any] = [graph, edges, {"a": {"b": 2, "c": 9}, "b": {"c": 3}, "c": {"d": 4}}]
    named += [dict(graph.adjacency()) and {n: {m: e["weight"] for m, e in row.items()} for n, row in graph.adjacency()}]
    named += [str(tmp_path / "plain.csv"), tmp_path / "titled.csv"]
    for form in named:
        assert truth_of("dijkstra", form, source="a")["paths"]["d"] == ["a", "b", "c", "d"], form
    numbered: list[Any] = [matrix, matrix.tolist(), scipy.sparse.csr_matrix(matrix), scipy.sparse.coo_array(matrix)]
    numbered += [np.where(matrix == 0, np.inf, matrix), np.array([(0, 1, 2), (1, 2, 3), (0, 2, 9), (2, 3, 4)])]
    for form in numbered:
        assert truth_of("dijkstra", form, source=0)["lengths"][3] == 9, form


def test_keys_keep_their_order_and_their_type() -> None:
    for keys in ([5, 3, 3, 1], [0.1, 0.5, 0.3], [-1e300, 2, 1e300], [10**30, 10**30 + 1, 10**30 - 1], list("banana")):
        for algorithm in ("insertion_sort", "bubble_sort", "heapsort", "quicksort"):
            assert truth_of(algorithm, keys)["sorted"] == sorted(keys)
        instance = prepare("quicksort", keys)
        assert 0 <= instance.arguments["A"].min() < instance.arguments["A"].max() < 1
        assert bool(instance.notes) == (keys != [0.1, 0.5, 0.3])
        assert truth_of("minimum", keys)["minimum"] == min(keys)
        assert (
            truth_of("quickselect", np.array(keys) if keys == [5, 3, 3, 1] else keys)["median"]
            == sorted(keys)[len(keys) // 2]
        )


@pytest.mark.parametrize("target", [-5, 0, 1, 2, 3, 6, 7, 8])
def test_places_in_sorted_keys(target: int) -> None:
    keys = [0, 2, 2, 3, 7]
    index = min(sum(key < target for key in keys), len(keys) - 1)
    assert truth_of("binary_search", keys, target)["index"] == index
    assert truth_of("binary_search", keys, target=target)["found"] == (keys[index] == target)


def test_letters_that_cannot_match_become_one() -> None:
    text = "the quick brown fox jumps"
    instance = prepare("kmp_matcher", text, "fox")
    assert set(instance.arguments["T"]) == {0, 1, 2, 3}
    assert truth_of("kmp_matcher", text, "fox")["position"] == text.index("fox")
    assert truth_of("naive_string_matcher", text, "dog")["position"] is None
    assert truth_of("lcs_length", "xaybz", "1a2b3")["subsequence"] == "ab"
    assert prepare("kmp_matcher", "abab", "ab").notes == []


@pytest.mark.parametrize("seed", range(5))
def test_common_subsequences_are_longest(seed: int) -> None:
    rng = random.Random(seed)
    first, second = ("".join(rng.choices("acgt", k=7)) for _ in range(2))
    found = truth_of("lcs_length", first, second)
    lengths = np.zeros((8, 8), int)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            lengths[i + 1, j + 1] = lengths[i, j] + 1 if a == b else max(lengths[i, j + 1], lengths[i + 1, j])
    assert found["length"] == lengths[-1, -1] == len(found["subsequence"])


@pytest.mark.parametrize("scale, shift", [(1, 0), (1000, 0), (1, 1e6), (1e-6, 3)])
def test_hulls_move_along(scale: float, shift: float) -> None:
    points = np.random.RandomState(0).randn(10, 2)
    expected = truth_of("graham_scan", points)["corners"]
    for algorithm in ("graham_scan", "jarvis_march"):
        plain = truth_of(algorithm, {f"p{i}": tuple(point) for i, point in enumerate(points * scale + shift)})
        assert plain["corners"] == [f"p{i}" for i in expected]
    mapped = prepare("graham_scan", points * scale + shift).arguments
    assert 0.9 < np.hypot(mapped["xs"], mapped["ys"]).max() <= 2


def test_segments_and_choices() -> None:
    cross = [[(0, 0), (10, 10)], [(0, 10), (10, 0)]]
    apart = np.array([[(0, 0), (10, 10)], [(11, 0), (12, -5)]])
    assert truth_of("segments_intersect", cross)["intersect"] is True
    assert truth_of("segments_intersect", apart)["intersect"] is False
    # One that starts when another finishes does not overlap it.
    assert truth_of("activity_selector", [(1, 2), (2, 3), (1, 3)])["selected"] == [0, 1]
    assert truth_of("activity_selector", {"a": (1, 2), "b": (2, 2), "c": (0, 5)})["selected"] == ["a", "b"]
    assert truth_of("task_scheduling", [(9, 1), (1, 5), (1, 5)]) == {"selected": [0, 1], "penalty": 5}


def test_answers_that_make_no_sense_are_said_plainly() -> None:
    sort = prepare("quicksort", [5, 3, 1])
    assert PROBLEMS["quicksort"].plain(sort, {"pred": np.array([1, 1, 1])}) == {
        "sorted": [3, 5], "order": [1, 0], "left_out": [1],
    }  # fmt: skip
    assert PROBLEMS["quicksort"].plain(sort, {"pred": np.array([1, 2, 0])})["sorted"] == []
    path = prepare("bfs", [(0, 1), (1, 2), (2, 3)], source=0)
    plain = PROBLEMS["bfs"].plain(path, {"pi": np.array([0, 2, 1, 0])})
    assert plain["paths"] == {0: [0], 1: None, 2: None, 3: [0, 3]}
    assert plain["lengths"][3] is None  # there is no such edge
    assert PROBLEMS["bfs"].lines(path, plain)
    chain = prepare("matrix_chain_order", [2, 3, 4, 5])
    assert PROBLEMS["matrix_chain_order"].plain(chain, {"s": np.full((4, 4), 3)})["product"] is None
    tree = prepare("optimal_bst", [1, 2], [1, 1, 1])
    assert PROBLEMS["optimal_bst"].plain(tree, {"root": np.full((3, 3), 2)})["tree"] is None
    run = prepare("find_maximum_subarray_kadane", [1, 2, 3])
    ends = {"start": np.array([0, 0, 1]), "end": np.array([1, 0, 0])}
    assert PROBLEMS["find_maximum_subarray_kadane"].plain(run, ends)["sum"] is None


def test_parameters_are_explained() -> None:
    text = inspect.getdoc(narkit.solve.solve) or ""  # type: ignore[attr-defined]
    for problem in PROBLEMS.values():
        assert all(f"`{name}`" in text for name in problem.parameters)


def judged(algorithm: str, outputs: dict[str, Any], *data: Any, **named: Any) -> bool:
    """Whether raw outputs make an answer that is as good as the algorithm's."""
    instance = prepare(algorithm, *data, **named)
    problem = PROBLEMS[algorithm]
    plain = problem.plain(instance, {name: np.array(values) for name, values in outputs.items()})
    return problem.is_as_good(instance, plain, truth_of(algorithm, *data, **named))


SQUARE = [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1)]  # two ways from 0 to 3


def test_other_right_answers_are_right() -> None:
    for predecessor in (1, 2):
        assert judged("dijkstra", {"pi": [0, 0, 0, predecessor]}, SQUARE, source=0)
    assert not judged("dijkstra", {"pi": [0, 0, 3, 1]}, SQUARE, source=0)  # a detour to 2
    assert not judged("dijkstra", {"pi": [0, 0, 0, 0]}, SQUARE, source=0)  # no such edge
    for parents in ([0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 3, 1]):
        assert judged("mst_prim", {"pi": parents}, SQUARE, source=0)
    assert not judged("mst_prim", {"pi": [0, 0, 0, 3]}, SQUARE, source=0)  # 3 is left out
    assert not judged("mst_prim", {"pi": [0, 3, 0, 1]}, SQUARE, source=0)  # a cycle
    order = {"topo": [1, 2, 3, 3], "topo_head": [1, 0, 0, 0]}
    assert judged("topological_sort", order, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert not judged("topological_sort", {**order, "topo": [3, 2, 2, 1]}, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert judged("quicksort", {"pred": [1, 2, 2]}, [5, 3, 3])
    assert not judged("quicksort", {"pred": [0, 0, 1]}, [5, 3, 3])
    assert judged("minimum", {"min": [0, 0, 1]}, [5, 3, 3])
    assert judged("find_maximum_subarray_kadane", {"start": [1, 0, 0], "end": [0, 1, 0]}, [2, 0, -5])
    assert judged("activity_selector", {"selected": [0, 1, 1]}, [(0, 2), (1, 2), (2, 3)])
    assert not judged("activity_selector", {"selected": [1, 1, 0]}, [(0, 2), (1, 2), (2, 3)])


def test_numbers_are_alike_but_for_rounding() -> None:
    assert alike({"a": 0.1 + 0.2, "b": None}, {"a": 0.3, "b": None})
    assert alike([[1, None]], [[1.0, None]])
    assert not alike(1.0, 1.001)
    assert not alike(None, 0) and not alike(0, None)
    assert not alike([1], [1, 2]) and not alike([1, 2], [1])


def test_tables_are_judged_by_what_is_read_off_them() -> None:
    instance = prepare("lcs_length", "ab", "ba")
    truth = truth_of("lcs_length", "ab", "ba")
    assert truth["length"] == 1
    arrows = np.zeros((4, 4, 4), np.int8)
    for (i, j), arrow in {(0, 0): 1, (0, 1): 0, (1, 0): 0, (1, 1): 2}.items():
        arrows[i, 2 + j, arrow] = 1
    other = PROBLEMS["lcs_length"].plain(instance, {"b": arrows})
    assert {other["subsequence"], truth["subsequence"]} == {"a", "b"}
    assert PROBLEMS["lcs_length"].is_as_good(instance, other, truth)
    assert not PROBLEMS["lcs_length"].is_as_good(instance, {**other, "subsequence": "c"}, truth)
    splits = np.zeros((4, 4), np.int16)
    splits[1, 3], splits[1, 2] = 2, 1
    assert judged("matrix_chain_order", {"s": splits}, [2, 2, 2, 2])  # both orders cost the same
    splits[1, 3] = 3
    assert not judged("matrix_chain_order", {"s": splits}, [2, 2, 2, 2])


@pytest.mark.parametrize("algorithm", PROBLEMS)
def test_own_values_are_inputs_in_the_units_of_whoever_asked(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    instance = prepare(algorithm, **example_instance(algorithm, tmp_path))
    inputs = narkit.run(algorithm, **instance.arguments).inputs
    assert all(values.shape == inputs[name][0].shape for name, values in instance.own.items())


def test_own_values_are_numbers_as_they_were_given() -> None:
    assert prepare("quicksort", [30, 10, 20]).own["key"].tolist() == [30, 10, 20]
    assert prepare("quicksort", ["b", "a"]).own == {}
    found = prepare("binary_search", [10, 20], 20).own
    assert (found["key"].tolist(), float(found["target"])) == ([10, 20], 20)
    found = prepare("task_scheduling", [(9, 100), (1, 50)]).own
    assert (found["d"].tolist(), found["w"].tolist()) == ([9, 1], [100, 50])
    assert prepare("segments_intersect", [(0, 0), (4, 4), (0, 3), (5, 1)]).own["y"].tolist() == [0, 4, 3, 1]
    assert prepare("matrix_chain_order", [30, 35, 15]).own["p"].tolist() == [30, 35, 15]
    assert prepare("dijkstra", [("a", "b", 80)], source="a").own["A"].tolist() == [[0, 80], [80, 0]]
