"""The streams' instances are distributed as the benchmark's samplers draw them in training.

The samplers of narkit run in two ways: compiled, with a counter-based generator, for the streams; and as plain Python
with NumPy's generator, which `tests/data/test_splits.py` proves equal to dm-clrs's. Here the two are compared, and,
behind the marker `oracle`, the streams with dm-clrs's own samplers. Seeds are fixed, so nothing fails by chance.
"""

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

import narkit
from narkit.algorithms.instances import Distribution
from narkit.data.execution import LONGEST_TRAINING_NEEDLE
from narkit.spec import Kind, Location

NUM_SAMPLES = 1000
SIZE = 12
SMALLEST_P = 1e-5  # 359 comparisons are made per run over all algorithms; the smallest p seen is 1e-3
STRING_MATCHERS = ("naive_string_matcher", "kmp_matcher")


def statistics(batch):
    """A few numbers per sample that tell distributions apart: means, spreads, degrees, lengths."""
    result = {"length": batch.lengths}
    if "string" in batch.inputs:
        result["length of the second string"] = batch.inputs["string"].sum(axis=1)
    for name, values in {**batch.inputs, **batch.outputs}.items():
        probe = batch.spec[name]
        if name in ("pos", "pred", "pred_mask"):  # made by the transform, or not comparable across it
            continue
        flat = values.reshape(len(batch), -1).astype(np.float64)
        result[f"mean of {name}"] = flat.mean(axis=1)
        result[f"spread of {name}"] = flat.std(axis=1)
        result[f"first of {name}"] = flat[:, 0]
        if probe.location is Location.EDGE and probe.kind is not Kind.CATEGORICAL:
            result[f"degrees of {name}"] = (values != 0).sum(axis=2).std(axis=1)
            result[f"reciprocity of {name}"] = ((values != 0) & (values != 0).swapaxes(1, 2)).mean(axis=(1, 2))
        if probe.kind is Kind.MASK_ONE and probe.location is Location.NODE:
            result[f"node of {name}"] = flat.argmax(axis=1)
    return result


def statistics_of_runs(name, instances):
    """The same, where instances of different lengths cannot be stacked."""
    rows = [
        statistics(narkit.run(name, **dict(zip(narkit.ALGORITHMS[name].arguments, i, strict=True)))) for i in instances
    ]
    return {key: np.concatenate([row[key] for row in rows]) for key in rows[0]}


def replayed(name):
    entry = narkit.ALGORITHMS[name]
    rng = np.random.RandomState(0)
    distribution = Distribution(np.array(entry.densities.training), LONGEST_TRAINING_NEEDLE)
    return [entry.sampler(rng, SIZE, distribution) for _ in range(NUM_SAMPLES)]


def reference(name):
    clrs = pytest.importorskip("clrs")
    length = SIZE * 5 // 4 if name in STRING_MATCHERS else SIZE
    sampler, _ = clrs.build_sampler(name, num_samples=-1, seed=11, track_max_steps=False, length=length)
    settings = {"p": narkit.ALGORITHMS[name].densities.training, "length_needle": -min(8, (length - 1) // 2)}
    known = inspect.signature(sampler._sample_data).parameters
    chosen = {key: value for key, value in settings.items() if key in known}
    return [sampler._sample_data(length=length, **chosen) for _ in range(NUM_SAMPLES)]


def assert_same_distribution(name, instances):
    expected = statistics_of_runs(name, instances)
    streamed = statistics(narkit.sample(name, size=SIZE, batch_size=NUM_SAMPLES, seed=0))
    assert set(streamed) == set(expected)
    for key, values in streamed.items():
        test: Any = stats.ks_2samp(values, expected[key], method="asymp")
        p = test.pvalue
        assert p > SMALLEST_P, f"{name}: {key} differs (p = {p:.1e}): {values.mean()} and {expected[key].mean()}"


@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_stream_is_distributed_as_the_replayed_benchmark(name):
    assert_same_distribution(name, replayed(name))


@pytest.mark.oracle
@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_stream_is_distributed_as_the_reference(name):
    with warnings.catch_warnings(action="ignore"):
        instances = reference(name)
    assert_same_distribution(name, instances)


def test_the_comparison_notices_a_wrong_density():
    entry = narkit.ALGORITHMS["bfs"]
    rng = np.random.RandomState(0)
    distribution = Distribution(np.array(entry.densities.training[1:]), LONGEST_TRAINING_NEEDLE)
    with pytest.raises(AssertionError, match="differs"):
        assert_same_distribution("bfs", [entry.sampler(rng, SIZE, distribution) for _ in range(NUM_SAMPLES)])


def test_needles_of_every_training_length_come():
    string = narkit.sample("kmp_matcher", size=16, batch_size=2000).inputs["string"]
    lengths, counts = np.unique(string.sum(axis=1), return_counts=True)
    assert lengths.tolist() == list(range(1, LONGEST_TRAINING_NEEDLE + 1))
    assert stats.chisquare(counts).pvalue > SMALLEST_P


def test_positions_are_sorted_uniform_numbers():
    pos = narkit.sample("bfs", size=16, batch_size=2000).inputs["pos"]
    assert (np.diff(pos, axis=1) >= 0).all()
    for i in range(16):  # the i-th of n sorted uniform numbers is Beta(i + 1, n - i)
        assert stats.kstest(pos[:, i], stats.beta(i + 1, 16 - i).cdf).pvalue > SMALLEST_P
