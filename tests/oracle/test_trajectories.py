"""Live comparison with an installed dm-clrs: specs, samplers draw for draw, trajectories hint for hint.

pip install 'narkit[oracle]' && pytest -m oracle tests/oracle tests/data
"""

import copy
import inspect
import warnings

import numpy as np
import pytest

import narkit
from narkit.algorithms.instances import Distribution

pytestmark = pytest.mark.oracle

SIZES = (4, 5, 7, 11, 16, 24)
INSTANCES_PER_SIZE = 50
STRING_MATCHERS = ("naive_string_matcher", "kmp_matcher")


@pytest.fixture(scope="module")
def clrs():
    with warnings.catch_warnings(action="ignore"):
        return pytest.importorskip("clrs")


def sampler_of(clrs, name, size, seed):
    """dm-clrs's sampler, the length that it calls this size, and its training settings."""
    length = size * 5 // 4 if name in STRING_MATCHERS else size
    sampler, _ = clrs.build_sampler(name, num_samples=-1, seed=seed, track_max_steps=False, length=length)
    known = inspect.signature(sampler._sample_data).parameters
    longest_needle = max(1, min(8, (length - 1) // 2))
    settings = {"p": narkit.ALGORITHMS[name].densities.training, "length_needle": -longest_needle}
    return sampler, length, {key: value for key, value in settings.items() if key in known}


@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_specs_are_equal(clrs, name):
    ours = {key: (p.stage.value, p.location.value, p.kind.value) for key, p in narkit.ALGORITHMS[name].spec.items()}
    theirs = {key: tuple(getattr(part, "value", part) for part in probe) for key, probe in clrs.SPECS[name].items()}
    assert list(ours.items()) == list(theirs.items())
    assert narkit.ALGORITHMS[name].multiplier == clrs.CLRS_30_ALGS_SETTINGS[name]["num_samples_multiplier"]


def test_all_thirty_are_there(clrs):
    assert set(narkit.ALGORITHMS) == set(clrs.CLRS_30_ALGS_SETTINGS)


@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_samplers_make_the_same_draws(clrs, name):
    """With the training settings; those of the official splits are compared by the splits' digests."""
    entry = narkit.ALGORITHMS[name]
    for size in (4, 7, 16, 33):
        sampler, length, settings = sampler_of(clrs, name, size, seed=size)
        rng = np.random.RandomState(size)
        for _ in range(20):
            with warnings.catch_warnings(action="ignore"):  # NumPy's about cross products in the plane
                theirs = sampler._sample_data(length=length, **settings)
            ours = entry.sampler(rng, size, Distribution(np.array(entry.densities.training), 8))
            for key, first, second in zip(entry.arguments, ours, theirs, strict=True):
                np.testing.assert_array_equal(first, second, f"{name}, size {size}, argument {key}")


@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_trajectories_are_equal(clrs, name):
    from clrs._src import algorithms, probing  # pyright: ignore[reportMissingImports]

    function = getattr(algorithms, name)
    for size in SIZES:
        sampler, length, settings = sampler_of(clrs, name, size, seed=100 + size)
        for _ in range(INSTANCES_PER_SIZE):
            with warnings.catch_warnings(action="ignore"):
                data = sampler._sample_data(length=length, **settings)
                _, probes = function(*copy.deepcopy(data))
                stages = probing.split_stages(probes, clrs.SPECS[name])
            batch = narkit.run(name, **dict(zip(narkit.ALGORITHMS[name].arguments, data, strict=True)))
            for theirs, ours in zip(stages, (batch.inputs, batch.outputs, batch.hints), strict=True):
                assert [probe.name for probe in theirs] == list(ours)
                for probe in theirs:
                    expected = np.asarray(probe.data, np.float32)
                    np.testing.assert_array_equal(ours[probe.name].astype(np.float32), expected, f"{name} {probe.name}")


@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_transforms_are_equal(clrs, name):
    """Constant hints as inputs and permutations; random positions differ by design."""
    from clrs._src import samplers  # pyright: ignore[reportMissingImports]

    raw = narkit.load_split(name, "val")[:8]
    batch = narkit.transform(raw, random_positions=False)
    length = raw.num_nodes if name in STRING_MATCHERS else 16
    with warnings.catch_warnings(action="ignore"):
        sampler, spec = clrs.build_sampler(name, num_samples=8, seed=2, length=length)
        feedback = iter([sampler.next()])
        spec, feedback = samplers.process_pred_as_input(spec, feedback) if name_has_constant(name) else (spec, feedback)
        spec, feedback = samplers.process_permutations(spec, feedback, enforce_permutations=True)
        theirs = next(feedback)
    for probes, ours in (
        (theirs.features.inputs, batch.inputs),
        (theirs.features.hints, batch.hints),
        (theirs.outputs, batch.outputs),
    ):
        assert {probe.name for probe in probes} == set(ours)
        for probe in probes:
            have = ours[probe.name][: len(probe.data)]
            if probe.data.ndim > have.ndim:  # their permutation pointers are matrices
                have = np.eye(raw.num_nodes)[have]
            np.testing.assert_array_equal(have.astype(np.float32), np.asarray(probe.data, np.float32), probe.name)


def name_has_constant(name):
    return any(probe.constant for probe in narkit.ALGORITHMS[name].spec.values())
