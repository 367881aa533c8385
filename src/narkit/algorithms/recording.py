"""The step counter and the few patterns that many probes share, with which the algorithms record their run.

`probes` is a named tuple of zero-filled arrays, one field per probe (a trailing underscore where the name is a
Python keyword). Hints have a leading axis of steps; `next_step` gives the row to fill:

    def snapshot():
        step = next_step(probes)
        fill(probes.reach_h[step], reach)  # a value per node
        probes.u[step, u] = 1  # a mask with a single one
        probes.time[step] = time  # a value of the graph
"""

import numpy as np
from numba import njit


@njit
def next_step(probes):
    """Advances the clock and returns the row of this snapshot.

    When the rows run out the clock still counts while the last row is overwritten; the caller sees from the clock
    that it must provide more rows, and runs the instance again.
    """
    step = probes.clock[0]
    probes.clock[0] = step + 1
    return min(step, probes.clock[1] - 1)


@njit
def fill(row, values):
    """Does `row[:] = values`, several times faster than the slice assignment, and compiled in a moment.

    Numba takes three seconds for the message that a slice assignment has for arrays of different shapes.
    """
    for i in range(len(values)):
        row[i] = values[i]


@njit
def fill_matrix(row, values):
    """Does the same as `fill` for matrices."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            row[i, j] = values[i, j]


@njit
def fill_positions(pos):
    """Fills in positions evenly spaced in [0, 1): the input by which a network tells nodes apart."""
    num_nodes = len(pos)
    for i in range(num_nodes):
        pos[i] = i * 1.0 / num_nodes


@njit
def fill_keys(probes, A):
    """Fills in the inputs of algorithms on keys: positions, and the keys themselves."""
    fill_positions(probes.pos)
    fill(probes.key, A)


@njit
def fill_graph(probes, A):
    """Fills in the inputs of every graph algorithm: positions, weights, and adjacency with self-loops."""
    fill_positions(probes.pos)
    fill_matrix(probes.A, A)
    fill_adjacency(probes.adj, A)


@njit
def fill_adjacency(adjacency, A):
    """Fills in ones where there is an edge or a self-loop."""
    num_nodes = len(A)
    for i in range(num_nodes):
        for j in range(num_nodes):
            if A[i, j] + (i == j) != 0:
                adjacency[i, j] = 1


@njit
def fill_classes(one_hot, classes):
    """Fills in one-hot rows from class numbers."""
    for i in range(len(classes)):
        one_hot[i, classes[i]] = 1


@njit
def fill_search(probes, step, color, s_prev, u, v, s_last):
    """Fills in what every depth-first search shows at a step: colours, the stack, and the nodes at hand."""
    fill_classes(probes.color[step], color)
    fill(probes.s_prev[step], s_prev)
    probes.u[step, u] = 1
    probes.v[step, v] = 1
    probes.s_last[step, s_last] = 1


@njit
def fill_order(pred, order):
    """Fills in predecessor pointers of a linear order of the nodes; the first points to itself."""
    pred[order[0]] = order[0]
    for i in range(1, len(order)):
        pred[order[i]] = order[i - 1]


@njit
def fill_identity_order(pred):
    """Fills in predecessor pointers of the nodes in their given order."""
    pred[0] = 0
    for i in range(1, len(pred)):
        pred[i] = i - 1


@njit
def fill_two_strings(probes, first, second):
    """Fills in the inputs of algorithms on two strings: which string, the position within it, and the character."""
    offset = len(first)
    fill_positions(probes.pos[:offset])
    fill_positions(probes.pos[offset:])
    probes.string[offset:] = 1
    fill_classes(probes.key[:offset], first)
    fill_classes(probes.key[offset:], second)


@njit
def fill_two_orders(pred, length_of_first):
    """Fills in predecessor pointers within each of two strings laid end to end."""
    for i in range(len(pred)):
        pred[i] = i if i == 0 or i == length_of_first else i - 1


@njit
def identity(num_nodes):
    """Returns pointers that all point to their own node."""
    return np.arange(num_nodes)


@njit
def take_out_least(keys, in_queue):
    """Takes the node of the least key out of a queue; -1 if it is empty.

    Of equal ones that is the first, where the benchmark's sort is unstable.
    """
    least, node = np.inf, -1
    for i in range(len(keys)):
        if keys[i] < least and in_queue[i] == 1:
            least, node = keys[i], i
    if node >= 0:
        in_queue[node] = 0
    return node


@njit
def swap(keys, order, a, b):
    """Exchanges the keys in slots a and b, and the nodes that they belong to."""
    keys[a], keys[b] = keys[b], keys[a]
    order[a], order[b] = order[b], order[a]
