"""Random instances: one sampler per kind of instance, shared by the algorithms that run on it.

A sampler takes `(rng, size, distribution)` and returns the arguments of the algorithm. It runs in two ways (see
`randomness`): as Python, replaying the published benchmark's draws, and compiled, for the training streams. So the
order of the draws below is the benchmark's and must not be changed. Helpers that draw nothing are compiled in both.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from narkit.algorithms import randomness as draw
from narkit.algorithms.compilation import compiled
from narkit.algorithms.recording import fill, fill_matrix

ALPHABET_SIZE = 4
DISK_RADIUS = 2.0
COLLINEARITY_TOLERANCE = 1e-12
COMMUNITIES = 4
COMMUNITY_BRIDGE_PROBABILITY = 0.01
WEIGHT_EPSILON = 1e-3  # keeps the geometric mean of two weights away from underflow


class Distribution(NamedTuple):
    """The parameters in which training and the official splits differ."""

    densities: np.ndarray  # edge probabilities, one drawn per sample
    longest_needle: int  # needle length is uniform up to this; 0: a fifth of the nodes


def keys(rng, size, distribution):
    """Draws numbers from [0, 1)."""
    return (draw.uniform(rng, 0.0, 1.0, size),)


def signed_keys(rng, size, distribution):
    """Draws numbers from [-1, 1)."""
    return (draw.uniform(rng, -1.0, 1.0, size),)


def target_and_sorted_keys(rng, size, distribution):
    """Draws a number to look for, and sorted numbers to look in."""
    values = draw.uniform(rng, 0.0, 1.0, size)
    draw.sort_uniform(values)
    return draw.number(rng, 0.0, 1.0), values


def two_strings(rng, size, distribution):
    """Draws two strings of about half the size each."""
    second = size // 2
    first = size - second
    return draw.integers(rng, 0, ALPHABET_SIZE, first), draw.integers(rng, 0, ALPHABET_SIZE, second)


def search_probabilities(rng, size, distribution):
    """Draws probabilities of `size` keys and of the `size` + 1 gaps around them."""
    values = draw.uniform(rng, 0.0, 1.0, 2 * size + 1)
    values /= np.sum(values)
    return values[:size].copy(), values[size:].copy()


def activities(rng, size, distribution):
    """Draws start and finish times."""
    a = draw.uniform(rng, 0.0, 1.0, size)
    b = draw.uniform(rng, 0.0, 1.0, size)
    return np.minimum(a, b), np.maximum(a, b)


def tasks(rng, size, distribution):
    """Draws deadlines and penalties of unit tasks."""
    deadlines = draw.integers(rng, 0, size, size) + 1
    return deadlines, draw.uniform(rng, 0.0, 1.0, size)


def haystack_nodes(size):
    """Returns the number of nodes of a string matcher: `size` nodes of haystack and a quarter as many of needle."""
    return size * 5 // 4


def haystack_and_needle(rng, size, distribution):
    """Draws a random haystack with the needle planted in it."""
    num_nodes = size * 5 // 4
    if distribution.longest_needle > 0:
        longest = max(1, min(distribution.longest_needle, (num_nodes - 1) // 2))
        needle_length = draw.integer(rng, 1, longest + 1)
    else:
        needle_length = max(1, num_nodes // 5)
    haystack_length = num_nodes - needle_length
    needle = draw.integers(rng, 0, ALPHABET_SIZE, needle_length)
    haystack = draw.integers(rng, 0, ALPHABET_SIZE, haystack_length)
    start = draw.index(rng, max(1, haystack_length - needle_length))  # as in the benchmark, never the last possible one
    fill(haystack[start:], needle)
    return haystack, needle


@register_jitable
def _segments_cross(xs, ys):
    """Returns whether the segments 0-1 and 2-3 cross, collinear cases ignored."""

    def turns_left(a, b, c):
        return (ys[c] - ys[a]) * (xs[b] - xs[a]) > (ys[b] - ys[a]) * (xs[c] - xs[a])

    return turns_left(0, 2, 3) != turns_left(1, 2, 3) and turns_left(0, 1, 2) != turns_left(0, 1, 3)


def segments(rng, size, distribution):
    """Draws the endpoints of two segments that cross in half of the samples. The size plays no part."""
    should_cross = draw.coin(rng)
    while True:
        xs = draw.uniform(rng, 0.0, 1.0, 4)
        ys = draw.uniform(rng, 0.0, 1.0, 4)
        if _segments_cross(xs, ys) == should_cross:
            return xs, ys


@compiled
def some_three_are_collinear(xs, ys):
    """Returns whether three of the points lie on a line, or nearly so."""
    for k in range(len(xs)):
        for j in range(k):
            found = False
            for i in range(j):  # from 0 and without an exit: so the compiler vectorises it
                cross = (xs[j] - xs[i]) * (ys[k] - ys[i]) - (ys[j] - ys[i]) * (xs[k] - xs[i])
                found |= abs(cross) < COLLINEARITY_TOLERANCE
            if found:
                return True
    return False


def points_in_disk(rng, size, distribution):
    """Draws points uniformly in a disk, no three of them on a line."""
    while True:
        angles = draw.uniform(rng, 0.0, 2.0 * np.pi, size)
        radii = DISK_RADIUS * np.sqrt(draw.uniform(rng, 0.0, 1.0, size))
        xs = radii * np.cos(angles)
        ys = radii * np.sin(angles)
        if not some_three_are_collinear(xs, ys):
            return xs, ys


@compiled
def _undirected(mask):
    """Returns the graph of the edges that the mask has in both directions."""
    num_nodes = len(mask)
    graph = np.empty((num_nodes, num_nodes))
    for i in range(num_nodes):
        for j in range(i + 1):
            graph[i, j] = graph[j, i] = mask[i, j] * mask[j, i]
    return graph


@compiled
def _undirected_weighted(mask, weights):
    """Returns the edges that the mask has in both directions, each with the geometric mean of its weights."""
    num_nodes = len(mask)
    graph = np.empty((num_nodes, num_nodes))
    for i in range(num_nodes):
        for j in range(i + 1):
            weight = np.sqrt(weights[i, j] * weights[j, i] + WEIGHT_EPSILON)
            graph[i, j] = graph[j, i] = mask[i, j] * mask[j, i] * weight
    return graph


@compiled
def _acyclic(mask, order):
    """Returns the mask's edges from lower to higher nodes only, with the nodes renamed: `order[new] = old`."""
    num_nodes = len(mask)
    graph = np.empty((num_nodes, num_nodes))
    for i in range(num_nodes):
        for j in range(num_nodes):
            graph[i, j] = mask[order[i], order[j]] * (order[i] < order[j])
    return graph


def directed_graph(rng, size, distribution):
    """Draws a graph in which every ordered pair is an edge with the drawn probability."""
    mask = draw.bernoulli_matrix(rng, draw.pick(rng, distribution.densities), size, size)
    return (mask.astype(np.float64),)


@register_jitable
def acyclic_graph(rng, size, distribution):
    """Draws a directed graph without cycles, its nodes shuffled."""
    mask = draw.bernoulli_matrix(rng, draw.pick(rng, distribution.densities), size, size)
    return (_acyclic(mask, draw.permutation(rng, size)),)


@register_jitable
def undirected_graph(rng, size, distribution):
    """Draws a graph in which a pair is an edge if both of its directions were drawn."""
    mask = draw.bernoulli_matrix(rng, draw.pick(rng, distribution.densities), size, size)
    return (_undirected(mask),)


def undirected_graph_and_source(rng, size, distribution):
    (graph,) = undirected_graph(rng, size, distribution)
    return graph, draw.index(rng, size)


@register_jitable
def weighted_graph(rng, size, distribution):
    """Draws an undirected graph; a weight is the geometric mean of one draw per direction."""
    mask = draw.bernoulli_matrix(rng, draw.pick(rng, distribution.densities), size, size)
    weights = draw.uniform_matrix(rng, 0.0, 1.0, size, size)
    return (_undirected_weighted(mask, weights),)


def weighted_graph_and_source(rng, size, distribution):
    (graph,) = weighted_graph(rng, size, distribution)
    return graph, draw.index(rng, size)


def weighted_acyclic_graph_and_source(rng, size, distribution):
    (graph,) = acyclic_graph(rng, size, distribution)
    weights = draw.uniform_matrix(rng, 0.0, 1.0, size, size)
    return graph * weights, draw.index(rng, size)


def community_graph(rng, size, distribution):
    """Draws four dense directed communities; a few edges lead from earlier to later ones, so no cycle joins two."""
    density = draw.pick(rng, distribution.densities)
    mask = np.zeros((size, size))
    for community in range(COMMUNITIES):
        low = community * (size // COMMUNITIES)
        high = size if community == COMMUNITIES - 1 else low + size // COMMUNITIES
        fill_matrix(mask[low:, low:], draw.bernoulli_matrix(rng, density, high - low, high - low))
    bridges = draw.bernoulli_matrix(rng, COMMUNITY_BRIDGE_PROBABILITY, size, size)
    for i in range(size):
        for j in range(size):
            later = min(i // (size // COMMUNITIES), COMMUNITIES - 1) > min(j // (size // COMMUNITIES), COMMUNITIES - 1)
            if bridges[i, j] > 0 and not later:
                mask[i, j] = 1.0 - mask[i, j]
    order = draw.permutation(rng, size)
    return (mask[order, :][:, order],)
