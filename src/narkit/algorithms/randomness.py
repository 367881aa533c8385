"""Random draws with two generators behind one set of functions.

The samplers in `instances` call the functions below. Executed as plain Python with a NumPy `RandomState`, they
replay the draws of the published benchmark, in its order. Compiled by Numba they draw from Philox-4x32-10 (Salmon
et al., 2011), a counter-based generator: its numbers are a pure function of (seed, step, sample), so any thread can
make any batch at any time.

A compiled generator is an array of six words: four of counter, two of key. Every draw takes whole blocks, each of
four numbers of 32 bits, and counts on; what is left of the last block is not used. So a draw is one loop over
independent blocks, which the compiler vectorises.
"""

import numpy as np
from numba import njit
from numba.extending import overload

_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_ROUNDS = 10
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


def uniform(rng, low, high, size):
    """Draws `size` numbers from [low, high)."""
    return rng.uniform(low, high, size)


def uniform_matrix(rng, low, high, rows, columns):
    return rng.uniform(low, high, (rows, columns))


def number(rng, low, high):
    """Draws one number from [low, high)."""
    return rng.uniform(low, high)


def coin(rng):
    """Draws 0 or 1, each with probability one half."""
    return rng.binomial(1, 0.5)


def bernoulli_matrix(rng, probability, rows, columns):
    """Draws a matrix of zeros and ones."""
    return rng.binomial(1, probability, (rows, columns))


def integers(rng, low, high, size):
    """Draws `size` integers from {low, ..., high - 1}."""
    return rng.randint(low, high, size)


def integer(rng, low, high):
    """Draws one integer from {low, ..., high - 1}."""
    return rng.randint(low, high)


def index(rng, count):
    """Draws one integer from {0, ..., count - 1}."""
    return rng.choice(count)


def pick(rng, values):
    """Draws one of the values."""
    return rng.choice(values)


def permutation(rng, count):
    """Draws the numbers 0, ..., count - 1 in random order."""
    return rng.permutation(count)


def sort_uniform(values):
    """Sorts numbers that were drawn uniformly from [0, 1), in place."""
    values.sort()


@njit
def new_generator():
    return np.zeros(6, np.uint64)


@njit
def restart(rng, seed, step, sample, purpose):
    """Points the generator at the start of the stream of (seed, step, sample, purpose)."""
    rng[0] = 0  # counts the blocks of the stream
    rng[1] = sample
    rng[2] = step & 0xFFFFFFFF
    rng[3] = ((step >> 32) << 8) | purpose
    rng[4] = seed & 0xFFFFFFFF
    rng[5] = seed >> 32


@njit
def random_words(rng, count):
    """Draws at least `count` random words of 32 bits: as many blocks of Philox-4x32-10 as it takes.

    First come the first words of all blocks, then their second words, and so on. The words of a block are held in
    64 bits each, since the rounds need the full products.
    """
    blocks = (count + 3) // 4
    words = np.empty((4, blocks), np.uint32)
    for block in range(blocks):
        c0, c1, c2, c3 = (rng[0] + np.uint64(block)) & _LOW_HALF, rng[1], rng[2], rng[3]
        k0, k1 = rng[4], rng[5]
        for _ in range(_ROUNDS):
            product_0 = _MULTIPLIER_0 * c0
            product_1 = _MULTIPLIER_1 * c2
            c0, c1 = (product_1 >> _HALF) ^ c1 ^ k0, product_1 & _LOW_HALF
            c2, c3 = (product_0 >> _HALF) ^ c3 ^ k1, product_0 & _LOW_HALF
            k0 = (k0 + _WEYL_0) & _LOW_HALF
            k1 = (k1 + _WEYL_1) & _LOW_HALF
        words[0, block], words[1, block], words[2, block], words[3, block] = c0, c1, c2, c3
    rng[0] = (rng[0] + np.uint64(blocks)) & _LOW_HALF
    return words.reshape(-1)


@njit
def _unit(high, low):
    """Returns a number from [0, 1) with 53 random bits, made of two words."""
    return float((np.uint64(high) << np.uint64(21)) | (np.uint64(low) >> np.uint64(11))) * 2.0**-53


@njit
def _below(count, word):
    """Returns an integer below `count`, by multiplication; the bias is below count / 2**32."""
    return np.int64((np.uint64(word) * np.uint64(count)) >> _HALF)


@overload(uniform)
def _uniform(rng, low, high, size):
    def draw(rng, low, high, size):
        words = random_words(rng, 2 * size)
        values = np.empty(size, np.float64)
        for i in range(size):
            values[i] = low + (high - low) * _unit(words[i], words[size + i])
        return values

    return draw


@overload(sort_uniform)
def _sort_uniform(values):
    def sort(values):
        """Bucket sort with one bucket per number, then insertion sort; linear on average."""
        count = len(values)
        unsorted = values.copy()
        ends = np.zeros(count + 1, np.int64)  # where the next number of a bucket goes
        for value in unsorted:
            ends[int(value * count) + 1] += 1
        for bucket in range(count):
            ends[bucket + 1] += ends[bucket]
        for value in unsorted:
            bucket = int(value * count)
            slot = ends[bucket]
            ends[bucket] += 1
            values[slot] = value
        for i in range(1, count):
            value = values[i]
            j = i - 1
            while j >= 0 and values[j] > value:
                values[j + 1] = values[j]
                j -= 1
            values[j + 1] = value

    return sort


@overload(uniform_matrix)
def _uniform_matrix(rng, low, high, rows, columns):
    return lambda rng, low, high, rows, columns: uniform(rng, low, high, rows * columns).reshape((rows, columns))


@overload(number)
def _number(rng, low, high):
    return lambda rng, low, high: uniform(rng, low, high, 1)[0]


@overload(coin)
def _coin(rng):
    return lambda rng: index(rng, 2)


@overload(bernoulli_matrix)
def _bernoulli_matrix(rng, probability, rows, columns):
    def draw(rng, probability, rows, columns):
        threshold = np.uint64(probability * 2.0**32)
        words = random_words(rng, rows * columns)
        values = np.empty(rows * columns, np.int8)
        for i in range(rows * columns):
            values[i] = np.uint64(words[i]) < threshold
        return values.reshape((rows, columns))

    return draw


@overload(integers)
def _integers(rng, low, high, size):
    def draw(rng, low, high, size):
        words = random_words(rng, size)
        values = np.empty(size, np.int64)
        for i in range(size):
            values[i] = low + _below(high - low, words[i])
        return values

    return draw


@overload(integer)
def _integer(rng, low, high):
    return lambda rng, low, high: low + index(rng, high - low)


@overload(index)
def _index(rng, count):
    return lambda rng, count: _below(count, random_words(rng, 1)[0])


@overload(pick)
def _pick(rng, values):
    return lambda rng, values: values[index(rng, len(values))]


@overload(permutation)
def _permutation(rng, count):
    def draw(rng, count):
        words = random_words(rng, count)
        order = np.arange(count)
        for i in range(count - 1, 0, -1):
            j = _below(i + 1, words[i])
            order[i], order[j] = order[j], order[i]
        return order

    return draw
