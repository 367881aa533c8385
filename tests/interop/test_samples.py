"""Batches taken apart for other packages, in plain NumPy: nothing is lost, nothing is invented."""

import time

import numpy as np
import pytest

import narkit
from narkit.interop.samples import (
    POINTERS,
    choose_batch,
    edge_lists,
    needs_all_pairs,
    sample_of,
    samples,
    stack,
    wide,
    widened,
)
from narkit.spec import Kind, Location, Stage


@pytest.fixture(scope="module", params=["raw", "transformed"])
def batches(request: pytest.FixtureRequest) -> dict[str, narkit.Batch]:
    """Three small instances of every algorithm."""
    transformed = request.param == "transformed"
    return {name: choose_batch(name, size=5, count=3, seed=7, transformed=transformed) for name in narkit.ALGORITHMS}


def test_a_split_is_the_published_one() -> None:
    ours, published = choose_batch("bfs", "val"), narkit.load_split("bfs", "val")
    np.testing.assert_array_equal(ours.inputs["A"], published.inputs["A"])
    assert len(choose_batch("bfs")) == len(narkit.load_split("bfs", "test"))


def test_size_count_and_seed_replace_those_of_the_split() -> None:
    first = choose_batch("bfs", "val", size=6, count=4, seed=11)
    assert (len(first), first.num_nodes) == (4, 6)
    np.testing.assert_array_equal(first.inputs["A"], choose_batch("bfs", size=6, count=4, seed=11).inputs["A"])
    assert (first.inputs["A"] != choose_batch("bfs", size=6, count=4, seed=12).inputs["A"]).any()
    assert len(choose_batch("bfs", "val", size=6)) == 32
    assert choose_batch("bfs", "val", count=2).num_nodes == 16
    assert choose_batch("insertion_sort", size=4, count=2, transformed=True).transformed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "tset"}, "did you mean 'test'"),
        ({"split": "tset", "size": 4}, "did you mean 'test'"),
        ({"size": 0}, "expected a size of at least"),
        ({"size": -4}, "expected a size of at least"),
        ({"count": 0}, "expected at least 1 sample"),
        ({"seed": -1}, "expected a seed from 0"),
    ],
)
def test_mistakes_are_explained(options: dict, message: str) -> None:
    with pytest.raises((ValueError, KeyError), match=message):
        choose_batch("bfs", **options)


def test_samples_stack_to_the_batch_again(batches: dict[str, narkit.Batch]) -> None:
    for batch in batches.values():
        inputs, hints, outputs, lengths = stack(list(samples(batch)))
        np.testing.assert_array_equal(lengths, batch.lengths)
        for ours, theirs in ((inputs, batch.inputs), (hints, batch.hints), (outputs, batch.outputs)):
            assert list(ours) == list(theirs)
            for name in theirs:
                np.testing.assert_array_equal(ours[name], theirs[name])
                assert ours[name].dtype == theirs[name].dtype


def test_a_sample_ends_where_its_trajectory_ends() -> None:
    batch = choose_batch("dijkstra", size=8, count=16, seed=3)
    assert len(set(batch.lengths)) > 1
    for index in range(len(batch)):
        sample = sample_of(batch, index)
        assert {len(values) for values in sample.hints.values()} == {sample.length} == {batch.lengths[index]}


def test_types_are_those_that_losses_take(batches: dict[str, narkit.Batch]) -> None:
    for batch in batches.values():
        converted = widened(batch)
        for before, after in (
            (batch.inputs, converted.inputs),
            (batch.hints, converted.hints),
            (batch.outputs, converted.outputs),
        ):
            for name, values in after.items():
                pointer = batch.spec[name].kind in POINTERS
                assert values.dtype == wide(batch.spec[name]) == (np.int64 if pointer else np.float32)
                np.testing.assert_array_equal(values, before[name])


def test_lists_of_edges_hold_every_value(batches: dict[str, narkit.Batch]) -> None:
    """Every array can be put together again: places outside the list hold nothing, or -1 for what does not count."""
    for batch in batches.values():
        for index, graph in enumerate(edge_lists(batch)):
            source, target = graph.edge_index
            for name, probe in batch.spec.items():
                stage = {Stage.INPUT: batch.inputs, Stage.HINT: batch.hints, Stage.OUTPUT: batch.outputs}[probe.stage]
                timed = probe.stage is Stage.HINT
                dense = stage[name][:, index] if timed else stage[name][index]
                values = graph.values[name]
                if probe.location is Location.GRAPH:
                    np.testing.assert_array_equal(values[0], dense)
                    continue
                values = values.swapaxes(0, 1) if timed else values
                if probe.location is Location.NODE:
                    np.testing.assert_array_equal(values, dense)
                    continue
                rebuilt = np.zeros_like(dense)
                rebuilt[(slice(None), source, target) if timed else (source, target)] = values
                np.testing.assert_array_equal(rebuilt, np.where(rebuilt == 0, np.maximum(dense, 0), dense))


def test_which_algorithms_have_lists_of_their_own_edges() -> None:
    own = {name for name, entry in narkit.ALGORITHMS.items() if not needs_all_pairs(entry.spec)}
    with_graph = {name for name, entry in narkit.ALGORITHMS.items() if "adj" in entry.spec}
    assert with_graph - own == {"floyd_warshall"} and own < with_graph
    batch = choose_batch("bfs", size=6, count=1, seed=0)
    (graph,) = edge_lists(batch)
    assert graph.edge_index.shape == (2, batch.inputs["adj"].sum())
    (graph,) = edge_lists(choose_batch("minimum", size=6, count=1, seed=0))
    assert graph.edge_index.shape == (2, 36)


def test_the_transposed_graph_is_listed_too() -> None:
    batch = choose_batch("strongly_connected_components", size=6, count=1, seed=0)
    (graph,) = edge_lists(batch)
    edges = set(map(tuple, graph.edge_index.T))
    assert all((target, source) in edges for source, target in edges)
    assert batch.spec["A_t"].kind is Kind.MASK


def test_a_thousand_samples_take_a_moment() -> None:
    batch = choose_batch("bfs", "train")
    assert (len(batch), batch.num_nodes) == (1000, 16)
    start = time.perf_counter()
    assert sum(1 for _ in samples(widened(batch))) == sum(1 for _ in edge_lists(widened(batch))) == 1000
    assert time.perf_counter() - start < 10  # it takes a tenth of a second; the bound only catches disasters
