"""The changes that the training protocol makes to the data: random positions, and permutations closed to a cycle."""

import numpy as np
from numba import njit

from narkit.algorithms.randomness import sort_uniform, uniform
from narkit.algorithms.recording import fill

INSTANCE, POSITIONS = 0, 1  # purposes: an instance and its positions come from separate random streams
ONE_STRING = np.zeros(0, np.int8)  # stands for the `string` input where an algorithm has none


@njit
def randomise_positions(rng, pos, string):
    """Replaces positions by sorted random numbers; where there are two strings, sorted within each."""
    values = uniform(rng, 0.0, 1.0, len(pos))
    split = 0
    while split < len(string) and string[split] == 0:
        split += 1
    sort_uniform(values[:split])
    sort_uniform(values[split:])
    fill(pos, values)


@njit
def close_to_cycle(pred, first_mask):
    """Turns predecessor pointers of an order into a cyclic permutation: the first node, marked, points to the last."""
    num_nodes = len(pred)
    is_pointed_to = np.zeros(num_nodes, np.bool_)
    first = 0
    for i in range(num_nodes):
        if pred[i] == i:
            first = i
        else:
            is_pointed_to[pred[i]] = True
    for i in range(num_nodes):
        if not is_pointed_to[i]:
            pred[first] = i
            first_mask[first] = 1
            return
