"""Trajectories equal dm-clrs's, hint for hint, on the instances that `tests/golden/make_golden.py` keeps."""

import hashlib
import json
from collections import defaultdict

import numpy as np
import pytest

import narkit


@pytest.fixture(scope="module")
def golden(golden_directory, check_maker):
    with np.load(golden_directory / "trajectories.npz") as file:
        arrays = {name: file[name] for name in file.files}
    index = json.loads(arrays.pop("index").tobytes())
    check_maker(index["made by"], "make_golden.py")
    by_algorithm = defaultdict(list)
    for trajectory in index["trajectories"]:
        by_algorithm[trajectory["algorithm"]].append(trajectory)
    return arrays, by_algorithm


def read(arrays, place):
    kind, offset, shape = place
    return arrays[kind][offset : offset + int(np.prod(shape))].reshape(shape)


def test_golden_covers_all_algorithms(golden):
    _, by_algorithm = golden
    assert set(by_algorithm) == set(narkit.ALGORITHMS)
    for trajectories in by_algorithm.values():
        assert {4, 16, 64} <= {trajectory["size"] for trajectory in trajectories}


@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_trajectories_equal_golden(name, golden, float32_bytes):
    arrays, by_algorithm = golden
    for trajectory in by_algorithm[name]:
        arguments = {key: read(arrays, place) for key, place in trajectory["arguments"].items()}
        batch = narkit.run(name, **arguments)
        probes = {**batch.inputs, **batch.hints, **batch.outputs}
        where = f"{name}, size {trajectory['size']}"
        assert set(probes) == set(trajectory["probes"]), where
        for key, place in trajectory["probes"].items():
            assert list(probes[key].shape) == place[2], f"{where}, probe {key}"
            if place[0] == "sha256":
                digest = hashlib.sha256(float32_bytes(probes[key])).hexdigest()
                assert digest == place[1], f"{where}, probe {key}"
            else:
                expected = read(arrays, place).astype(np.float32)
                np.testing.assert_array_equal(probes[key].astype(np.float32), expected, f"{where}, probe {key}")


def test_other_makers_are_rejected(check_maker, golden_directory):
    script = hashlib.sha256((golden_directory / "make_golden.py").read_bytes()).hexdigest()
    check_maker({"dm-clrs": "2.0.3", "script": script}, "make_golden.py")
    with pytest.raises(AssertionError, match=r"run tests/golden/make_golden\.py again"):
        check_maker({"dm-clrs": "2.0.2", "script": script}, "make_golden.py")
    with pytest.raises(AssertionError, match="expected"):
        check_maker({"dm-clrs": "2.0.3", "script": "0" * 64}, "make_golden.py")
