"""Sorting algorithms. The order of the keys is held as predecessor pointers: each node points to the one before it."""

from narkit.algorithms import arguments, instances
from narkit.algorithms.recording import fill_order, fill_positions, identity, next_step
from narkit.spec import algorithm, node

INPUTS = {
    "pos": node("scalar", "position of the node in the given order"),
    "key": node("scalar", "the key to sort by"),
}
OUTPUTS = {"pred": node("should_be_permutation", "the node before this one in sorted order; the first: itself")}


@algorithm(
    category="sorting",
    inputs=INPUTS,
    hints={
        "pred_h": node("pointer", "the node before this one in the array as it stands"),
        "i": node("mask_one", "the node that had the slot into which the key goes"),
        "j": node("mask_one", "the node whose key is inserted"),
    },
    outputs=OUTPUTS,
    arguments={"A": arguments.keys()},
    sampler=instances.keys,
)
def insertion_sort(A, probes):
    """Insertion sort (CLRS 2.1).

    One hint step is one key inserted into the sorted part of the array.
    """
    num_nodes = len(A)
    keys = A.copy()
    order = identity(num_nodes)  # order[slot] is the node whose key stands in that slot
    fill_positions(probes.pos)
    probes.key[:] = A

    def snapshot(i, j):
        step = next_step(probes)
        fill_order(probes.pred_h[step], order)
        probes.i[step, i] = 1
        probes.j[step, j] = 1

    snapshot(0, 0)
    for j in range(1, num_nodes):
        key = keys[j]
        i = j - 1
        while i >= 0 and keys[i] > key:
            keys[i + 1] = keys[i]
            order[i + 1] = order[i]
            i -= 1
        keys[i + 1] = key
        displaced = order[i + 1]
        order[i + 1] = j
        snapshot(displaced, j)
    fill_order(probes.pred, order)
