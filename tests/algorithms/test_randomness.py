"""The counter-based generator: known answers, purity, and draws that are as uniform as they should be."""

import numpy as np
import pytest
from numba import njit

from narkit.algorithms import randomness
from narkit.algorithms.randomness import new_generator, random_words, restart, sort_uniform

MANY = 100_000


@njit
def draw_all(rng, size):
    return (
        randomness.uniform(rng, -1.0, 3.0, size),
        randomness.uniform_matrix(rng, 0.0, 1.0, size, 3),
        randomness.bernoulli_matrix(rng, 0.25, size, 2),
        randomness.integers(rng, 2, 7, size),
        randomness.permutation(rng, size),
    )


@njit
def draw_singles(rng, count, values):
    """One row per draw: number, coin, integer, index, pick."""
    draws = np.empty((count, 5))
    for row in range(count):
        draws[row, 0] = randomness.number(rng, 5.0, 6.0)
        draws[row, 1] = randomness.coin(rng)
        draws[row, 2] = randomness.integer(rng, 2, 7)
        draws[row, 3] = randomness.index(rng, 3)
        draws[row, 4] = randomness.pick(rng, values)
    return draws


@njit
def shuffles(rng, count, size):
    orders = np.empty((count, size), np.int64)
    for row in range(count):
        orders[row] = randomness.permutation(rng, size)
    return orders


def generator(seed=0, step=0, sample=0, purpose=0):
    rng = new_generator()
    restart(rng, seed, step, sample, purpose)
    return rng


@pytest.mark.parametrize(
    ("counter_and_key", "answer"),
    [
        ("00000000 00000000 00000000 00000000 00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_known_answers_of_philox(counter_and_key, answer):
    rng = np.array([int(word, 16) for word in counter_and_key.split()], np.uint64)
    assert " ".join(f"{word:08x}" for word in random_words(rng, 4)) == answer


def test_many_words_are_the_blocks_of_consecutive_counters():
    together = random_words(generator(seed=7), 40).reshape(4, 10)
    rng = generator(seed=7)
    one_by_one = np.stack([random_words(rng, 4) for _ in range(10)], axis=1)
    np.testing.assert_array_equal(together, one_by_one)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 16, 33])
def test_draws_have_the_shape_asked_for(size):
    uniform, matrix, bernoulli, integers, permutation = draw_all(generator(), size)
    assert uniform.shape == integers.shape == permutation.shape == (size,)
    assert matrix.shape == (size, 3)
    assert bernoulli.shape == (size, 2)
    assert sorted(permutation) == list(range(size))


def test_streams_are_pure_functions_of_seed_step_sample_and_purpose():
    here = (3, 5, 7, 1)
    first = draw_all(generator(*here), 16)
    rng = generator(1, 1, 1, 0)
    draw_all(rng, 9)  # whatever was drawn before does not matter
    restart(rng, *here)
    for a, b in zip(first, draw_all(rng, 16), strict=True):
        np.testing.assert_array_equal(a, b)


def test_streams_differ_in_every_coordinate():
    elsewhere = [
        (0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (2**32, 0, 0, 0), (0, 2**32, 0, 0),
    ]  # fmt: skip
    streams = {tuple(random_words(generator(*where), 8)) for where in elsewhere}
    assert len(streams) == len(elsewhere)


def test_consecutive_draws_differ():
    rng = generator()
    assert not np.array_equal(random_words(rng, 8), random_words(rng, 8))


def test_arrays_are_uniform():
    uniform, matrix, bernoulli, integers, _ = draw_all(generator(seed=11), MANY)
    assert uniform.min() >= -1.0 and uniform.max() < 3.0
    assert_even(np.histogram(uniform, 20, (-1.0, 3.0))[0])
    assert_even(np.histogram(matrix, 20, (0.0, 1.0))[0])
    assert_even(np.bincount(integers, minlength=7)[2:])
    assert set(np.unique(bernoulli)) == {0, 1}
    assert abs(bernoulli.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / bernoulli.size)
    assert abs(np.corrcoef(uniform[1:], uniform[:-1])[0, 1]) < 5 / np.sqrt(MANY)


def test_single_draws_are_uniform():
    draws = draw_singles(generator(seed=12), MANY, np.array([10.0, 20.0, 30.0, 40.0]))
    number, coin, integer, index, pick = draws.T
    assert number.min() >= 5.0 and number.max() < 6.0
    assert_even(np.histogram(number, 20, (5.0, 6.0))[0])
    for values, expected in ((coin, 2), (integer, 5), (index, 3), (pick, 4)):
        counts = np.unique(values, return_counts=True)[1]
        assert len(counts) == expected
        assert_even(counts)


def test_all_permutations_are_equally_likely():
    orders = shuffles(generator(seed=13), MANY, 4)
    counts = np.unique(orders @ np.array([64, 16, 4, 1]), return_counts=True)[1]
    assert len(counts) == 24
    assert_even(counts)


def test_an_edge_probability_of_one_half_cuts_the_words_in_half():
    words = random_words(generator(seed=14), 64)
    mask = draw_half(generator(seed=14), 8)
    np.testing.assert_array_equal(mask.reshape(-1), words < 2**31)


@njit
def draw_half(rng, size):
    return randomness.bernoulli_matrix(rng, 0.5, size, size)


def assert_even(counts):
    """Pearson's statistic stays within seven standard deviations of its mean, with a margin for few counts."""
    expected = counts.sum() / len(counts)
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    assert statistic < freedom + 7 * np.sqrt(2 * freedom) + 12, (statistic, counts)


@pytest.mark.parametrize("count", [0, 1, 2, 16, 64, 300])
def test_sort_uniform_sorts(count):
    sort = njit(lambda values: sort_uniform(values))
    values = np.random.RandomState(count).uniform(size=count)
    values[: count // 4] = values[count // 2 : count // 2 + count // 4]  # equal numbers
    values[-1:] = np.nextafter(1.0, 0.0)  # the last bucket
    expected = np.sort(values)
    sort(values)
    np.testing.assert_array_equal(values, expected)
    skewed = np.sort(expected**8)[::-1].copy()  # most in the first bucket
    sort(skewed)
    np.testing.assert_array_equal(skewed, expected**8)
