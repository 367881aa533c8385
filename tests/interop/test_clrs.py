"""With dm-clrs's parameters our network computes what dm-clrs computes: goldens of all thirty algorithms."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import narkit
from narkit.interop.clrs import from_haiku, to_haiku
from narkit.spec import Kind

GOLDEN = Path(__file__).parents[1] / "golden"
SCRIPT = GOLDEN / "make_model_golden.py"


def read_golden() -> tuple[dict, dict]:
    with np.load(GOLDEN / "models.npz") as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("index").tobytes()), arrays


def check_maker(made_by: dict[str, str]) -> None:
    expected = {"dm-clrs": "2.0.3", "script": hashlib.sha256(SCRIPT.read_bytes()).hexdigest()}
    assert made_by == expected, f"made by {made_by}, expected {expected}; run tests/golden/{SCRIPT.name} again"


INDEX, ARRAYS = read_golden()
CASES = {f"{case['processor']} {case['algorithm']}": case for case in INDEX["cases"]}


def read(place: Any) -> Any:
    """The stored arrays in place of the places: nested dictionaries of [type, offset, shape, unit]."""
    if isinstance(place, dict):
        return {name: read(part) for name, part in place.items()}
    if isinstance(place, str):
        return place
    kind, offset, shape, unit = place
    return ARRAYS[kind][offset : offset + int(np.prod(shape))].reshape(shape) * np.float32(unit)


def test_golden_is_of_the_reference_and_of_this_script():
    check_maker(INDEX["made by"])
    for other in ({"dm-clrs": "2.0.2"}, {"script": "0" * 64}):
        with pytest.raises(AssertionError, match=r"run tests/golden/make_model_golden\.py again"):
            check_maker(INDEX["made by"] | other)


def test_golden_covers_what_it_should():
    algorithms = {
        processor: [case["algorithm"] for case in CASES.values() if case["processor"] == processor]
        for processor in ("triplet_gmpnn", "mpnn", "pgn")
    }
    assert set(algorithms["triplet_gmpnn"]) == set(narkit.ALGORITHMS)
    categories = {entry.category for entry in narkit.ALGORITHMS.values()}
    kinds = {
        (probe.location, probe.kind)
        for entry in narkit.ALGORITHMS.values()
        for probe in entry.transformed_spec.values()
    }
    for processor in ("mpnn", "pgn"):
        entries = [narkit.ALGORITHMS[name] for name in algorithms[processor]]
        assert {entry.category for entry in entries} == categories
        covered = {probe.kind for entry in entries for probe in entry.transformed_spec.values()}
        assert covered == {kind for _, kind in kinds}
        assert covered == set(Kind) - {Kind.SHOULD_BE_PERMUTATION}


# Triplet-GMPNN is compared on all algorithms, behind `slow` on some without a kind of probe that the others lack.
# PGN is a part of it, and MPNN is PGN without the choice of senders: of these some networks are compared by default.
ALIKE = (
    *("bubble_sort", "dag_shortest_paths", "dijkstra", "minimum", "mst_prim", "naive_string_matcher", "quicksort"),
    *("task_scheduling", "topological_sort", "optimal_bst", "bridges", "articulation_points", "bellman_ford", "dfs"),
    *("find_maximum_subarray_kadane", "quickselect", "jarvis_march"),
)
QUICK = [
    case for case in CASES if case.startswith("triplet_gmpnn ") and case.removeprefix("triplet_gmpnn ") not in ALIKE
] + [*("pgn floyd_warshall", "pgn graham_scan", "mpnn heapsort")]


def test_quick_cases_have_all_kinds_of_probes():
    def kinds(names):
        probes = [probe for name in names for probe in narkit.ALGORITHMS[name].transformed_spec.values()]
        return {(probe.stage, probe.location, probe.kind) for probe in probes}

    assert kinds(set(narkit.ALGORITHMS) - set(ALIKE)) == kinds(narkit.ALGORITHMS)


@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_network_equals_dm_clrs(case, compare_with_reference):
    entry = CASES[case]
    compare_with_reference(entry["algorithm"], entry["processor"], read(entry))


@pytest.mark.parametrize("case", ["triplet_gmpnn floyd_warshall", "pgn heapsort"])
def test_round_trip(case):
    entry = CASES[case]
    params = read(entry["parameters"])
    back = to_haiku(from_haiku(entry["algorithm"], params, entry["processor"]))
    assert set(back) == set(params)
    for module, layer in params.items():
        assert set(back[module]) == set(layer)
        for key, values in layer.items():
            np.testing.assert_array_equal(back[module][key], values)


@pytest.mark.parametrize("hints", ["encoded", "decoded", "none"])
def test_round_trip_of_several_algorithms(hints):
    reasoner = narkit.Reasoner(["bfs", "insertion_sort"], "triplet_gmpnn", 4, hints, key=jax.random.key(0))
    back = from_haiku(["bfs", "insertion_sort"], to_haiku(reasoner))
    assert jax.tree.structure(back) == jax.tree.structure(reasoner)
    jax.tree.map(np.testing.assert_array_equal, back, reasoner)


@pytest.fixture
def params():
    return to_haiku(narkit.Reasoner("bfs", "mpnn", 4, key=jax.random.key(0)))


def test_haikus_marks_of_methods_do_not_matter(params):
    unmarked = {
        module.replace("/~/", "/").replace("/~_construct_encoders_decoders", ""): params[module] for module in params
    }
    assert set(unmarked) != set(params)
    jax.tree.map(np.testing.assert_array_equal, from_haiku("bfs", unmarked, "mpnn"), from_haiku("bfs", params, "mpnn"))


def test_missing_parameters_are_named(params):
    del params["net/mpnn_aggr_clrs_processor/linear_2"]
    with pytest.raises(
        ValueError, match=r"do not fit mpnn for bfs: missing \['net/mpnn_aggr_clrs_processor/linear_2/b'"
    ):
        from_haiku("bfs", params, "mpnn")


def test_missing_biases_are_named(params):
    del params["net/mpnn_aggr_clrs_processor/layer_norm"]["offset"]
    with pytest.raises(
        ValueError, match=r"missing \['net/mpnn_aggr_clrs_processor/layer_norm/offset'\], superfluous \[\]"
    ):
        from_haiku("bfs", params, "mpnn")


def test_superfluous_parameters_are_named(params):
    params["net/processor_lstm/linear"] = {"w": jnp.zeros((2, 2))}
    with pytest.raises(ValueError, match=r"superfluous \['net/processor_lstm/linear/w'\]"):
        from_haiku("bfs", params, "mpnn")


def test_misshapen_parameters_are_named(params):
    params["net/mpnn_aggr_clrs_processor/linear_2"]["w"] = jnp.zeros((5, 4))
    with pytest.raises(ValueError, match=r"linear_2/w: expected shape \(4, 4\), got \(5, 4\)"):
        from_haiku("bfs", params, "mpnn")


def test_other_parameters_are_refused():
    with pytest.raises(ValueError, match=r"expected dm-clrs parameters with a module .* got \['encoder/w'\]"):
        from_haiku("bfs", {"encoder": {"w": np.zeros(3)}})


def test_processors_that_dm_clrs_lacks_are_refused():
    with pytest.raises(ValueError, match="dm-clrs has no processor like TEAM"):
        to_haiku(narkit.Reasoner("bfs", "team", 4, key=jax.random.key(0)))
