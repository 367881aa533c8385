"""Random draws with two generators behind one set of functions.

The samplers in `instances` call the functions below. Executed as plain Python with a NumPy `RandomState`, they
replay the draws of the published benchmark, in its order. Compiled by Numba they draw from Philox-4x32-10 (Salmon
et al., 2011), a counter-based generator: its numbers are a pure function of (seed, step, sample), so any thread can
make any batch at any time.

A compiled generator is an array of 11 words: four of counter, two of key, four of output, and how many are used.
"""

import numpy as np
from numba import njit
from numba.extending import overload

_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_ROUNDS = 10
_WORDS = 11
_OUTPUT, _USED = 6, 10


def uniform(rng, low, high, size):
    """`size` numbers from [low, high)."""
    return rng.uniform(low, high, size)


def uniform_matrix(rng, low, high, rows, columns):
    return rng.uniform(low, high, (rows, columns))


def number(rng, low, high):
    """One number from [low, high)."""
    return rng.uniform(low, high)


def coin(rng):
    """0 or 1, each with probability one half."""
    return rng.binomial(1, 0.5)


def bernoulli_matrix(rng, probability, rows, columns):
    """A matrix of zeros and ones."""
    return rng.binomial(1, probability, (rows, columns))


def integers(rng, low, high, size):
    """`size` integers from {low, ..., high - 1}."""
    return rng.randint(low, high, size)


def integer(rng, low, high):
    """One integer from {low, ..., high - 1}."""
    return rng.randint(low, high)


def index(rng, count):
    """One integer from {0, ..., count - 1}."""
    return rng.choice(count)


def pick(rng, values):
    """One of the values."""
    return rng.choice(values)


def permutation(rng, count):
    """The numbers 0, ..., count - 1 in random order."""
    return rng.permutation(count)


@njit
def new_generator():
    return np.zeros(_WORDS, np.uint32)


@njit
def restart(rng, seed, step, sample, purpose):
    """Points the generator at the start of the stream of (seed, step, sample, purpose)."""
    rng[0] = 0
    rng[1] = np.uint32(sample)
    rng[2] = np.uint32(step & 0xFFFFFFFF)
    rng[3] = np.uint32(((step >> 32) << 8) | purpose)
    rng[4] = np.uint32(seed & 0xFFFFFFFF)
    rng[5] = np.uint32(seed >> 32)
    rng[_USED] = 4


@njit
def philox(counter, key, output):
    """One block of Philox-4x32-10: four words of output from four of counter and two of key."""
    c0, c1, c2, c3 = counter[0], counter[1], counter[2], counter[3]
    k0, k1 = key[0], key[1]
    for _ in range(_ROUNDS):
        product_0 = _MULTIPLIER_0 * np.uint64(c0)
        product_1 = _MULTIPLIER_1 * np.uint64(c2)
        c0, c1, c2, c3 = (
            np.uint32(product_1 >> np.uint64(32)) ^ c1 ^ k0,
            np.uint32(product_1),
            np.uint32(product_0 >> np.uint64(32)) ^ c3 ^ k1,
            np.uint32(product_0),
        )
        k0 = np.uint32(k0 + _WEYL_0)
        k1 = np.uint32(k1 + _WEYL_1)
    output[0], output[1], output[2], output[3] = c0, c1, c2, c3


@njit
def _word(rng):
    if rng[_USED] == 4:
        philox(rng[:4], rng[4:6], rng[_OUTPUT:_USED])
        rng[0] += np.uint32(1)
        rng[_USED] = 0
    word = rng[_OUTPUT + rng[_USED]]
    rng[_USED] += np.uint32(1)
    return word


@njit
def _unit(rng):
    """A number from [0, 1) with 53 random bits."""
    high, low = np.uint64(_word(rng)), np.uint64(_word(rng))
    return float((high << np.uint64(21)) | (low >> np.uint64(11))) * 2.0**-53


@njit
def _below(rng, count):
    """An integer below `count`, by multiplication; the bias is below count / 2**32."""
    return np.int64((np.uint64(_word(rng)) * np.uint64(count)) >> np.uint64(32))


@overload(uniform)
def _uniform(rng, low, high, size):
    def draw(rng, low, high, size):
        values = np.empty(size, np.float64)
        for i in range(size):
            values[i] = low + (high - low) * _unit(rng)
        return values

    return draw


@overload(uniform_matrix)
def _uniform_matrix(rng, low, high, rows, columns):
    return lambda rng, low, high, rows, columns: uniform(rng, low, high, rows * columns).reshape((rows, columns))


@overload(number)
def _number(rng, low, high):
    return lambda rng, low, high: low + (high - low) * _unit(rng)


@overload(coin)
def _coin(rng):
    return lambda rng: _below(rng, 2)


@overload(bernoulli_matrix)
def _bernoulli_matrix(rng, probability, rows, columns):
    def draw(rng, probability, rows, columns):
        threshold = np.uint64(probability * 2.0**32)
        values = np.empty((rows, columns), np.int64)
        for i in range(rows):
            for j in range(columns):
                values[i, j] = np.uint64(_word(rng)) < threshold
        return values

    return draw


@overload(integers)
def _integers(rng, low, high, size):
    def draw(rng, low, high, size):
        values = np.empty(size, np.int64)
        for i in range(size):
            values[i] = low + _below(rng, high - low)
        return values

    return draw


@overload(integer)
def _integer(rng, low, high):
    return lambda rng, low, high: low + _below(rng, high - low)


@overload(index)
def _index(rng, count):
    return lambda rng, count: _below(rng, count)


@overload(pick)
def _pick(rng, values):
    return lambda rng, values: values[_below(rng, len(values))]


@overload(permutation)
def _permutation(rng, count):
    def draw(rng, count):
        order = np.arange(count)
        for i in range(count - 1, 0, -1):
            j = _below(rng, i + 1)
            order[i], order[j] = order[j], order[i]
        return order

    return draw
