"""The official splits are the published benchmark's, sample for sample; validation sets are nobody else's."""

import hashlib
import json

import numpy as np
import pytest

import narkit
from narkit.data.splits import SPLITS, benchmark_set, validation_set


@pytest.fixture(scope="module")
def golden(golden_directory, check_maker):
    file = json.loads((golden_directory / "split_hashes.json").read_text())
    check_maker(file["made by"], "make_split_hashes.py")
    return file["splits"]


def digests(batch, float32_bytes):
    """As `tests/golden/make_split_hashes.py` takes them: sample after sample, hints cut to their length."""
    hashers = {name: hashlib.sha256() for name in batch.spec}
    for b in range(len(batch)):
        for name, values in (*batch.inputs.items(), *batch.outputs.items()):
            hashers[name].update(float32_bytes(values[b]))
        for name, values in batch.hints.items():
            hashers[name].update(float32_bytes(values[: batch.lengths[b], b]))
    result = {name: hasher.hexdigest() for name, hasher in hashers.items()}
    return {**result, "lengths": hashlib.sha256(batch.lengths.astype(np.int32).tobytes()).hexdigest()}


def test_golden_covers_every_split(golden):
    assert set(golden) == {f"{name}/{split}" for name in narkit.ALGORITHMS for split in SPLITS}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_split_equals_published(name, split, golden, float32_bytes):
    batch = narkit.load_split(name, split)
    expected = golden[f"{name}/{split}"]
    assert not batch.transformed
    assert len(batch) == expected["samples"]
    assert batch.num_steps == expected["longest"]
    assert digests(batch, float32_bytes) == expected["digests"]


def test_string_matchers_have_published_nodes():
    assert narkit.load_split("kmp_matcher", "val").num_nodes == 20
    assert narkit.load_split("kmp_matcher", "test").num_nodes == 80


def test_unknown_split_names_the_nearest():
    with pytest.raises(ValueError, match="no split is named 'tests'; did you mean 'test'"):
        narkit.load_split("bfs", "tests")
    with pytest.raises(ValueError, match="no algorithm is named 'bsf'; did you mean 'bfs'"):
        narkit.load_split("bsf", "test")


def test_benchmark_set_of_any_size():
    batch = benchmark_set("bfs", size=100, num_samples=3, seed=5)
    assert (len(batch), batch.num_nodes, batch.transformed) == (3, 100, False)
    again = benchmark_set("bfs", size=100, num_samples=2, seed=5)
    np.testing.assert_array_equal(again.inputs["A"], batch.inputs["A"][:2])
    with pytest.raises(ValueError, match="size of at least"):
        benchmark_set("bfs", size=0, num_samples=3, seed=5)
    with pytest.raises(ValueError, match="at least 1 sample"):
        benchmark_set("bfs", size=4, num_samples=0, seed=5)


def test_validation_sets_are_apart_from_training():
    keys = {
        "validation": validation_set("insertion_sort", 16, 40).inputs["key"],
        "another seed": validation_set("insertion_sort", 16, 40, seed=1).inputs["key"],
        "a shorter one": validation_set("insertion_sort", 13, 40).inputs["key"],
        "training": narkit.TrainingStream("insertion_sort", sizes=(16,), batch_size=40).batch(0).inputs["key"],
    }
    first = [values[:, :13].ravel() for values in keys.values()]
    everything = np.concatenate(first)
    assert len(np.unique(everything)) > 0.999 * len(everything)  # float32 draws hardly ever meet by chance
    again = validation_set("insertion_sort", 16, 40)
    assert again.transformed
    np.testing.assert_array_equal(again.inputs["key"], keys["validation"])
