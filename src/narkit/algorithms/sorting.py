"""Sorting algorithms. The order of the keys is held as predecessor pointers: each node points to the one before it."""

import functools

import numpy as np
from numba import njit

from narkit.algorithms import arguments, instances
from narkit.algorithms.recording import fill_keys, fill_order, identity, next_step, swap
from narkit.algorithms.shared_probes import ARRAY_ORDER, POSITION
from narkit.spec import algorithm, graph, node

BUILDING, TAKING_OUT, RESTORING = range(3)  # the phases of heapsort

sort = functools.partial(
    algorithm,
    category="sorting",
    inputs={"pos": POSITION, "key": node("scalar", "the key to sort by")},
    outputs={"pred": node("should_be_permutation", "the node before this one in sorted order; the first: itself")},
    arguments={"A": arguments.keys()},
    sampler=instances.keys,
)
"""The probes that all sorts have in common; they differ in their hints."""


@sort(
    hints={
        "pred_h": ARRAY_ORDER,
        "i": node("mask_one", "the node that had the slot into which the key goes"),
        "j": node("mask_one", "the node whose key is inserted"),
    },
)
def insertion_sort(A, probes):
    """Insertion sort (CLRS 2.1).

    One hint step is one key inserted into the sorted part of the array.
    """
    num_nodes = len(A)
    keys = A.copy()
    order = identity(num_nodes)  # order[slot] is the node whose key stands in that slot
    fill_keys(probes, A)

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


@sort(
    hints={
        "pred_h": ARRAY_ORDER,
        "i": node("mask_one", "the node in the slot that this pass fills with the smallest key left"),
        "j": node("mask_one", "the node in the right one of the two slots just compared"),
    },
)
def bubble_sort(A, probes):
    """Bubble sort (CLRS problem 2-2).

    One hint step is one comparison of two neighbouring keys, which are swapped if they stand the wrong way round.
    """
    num_nodes = len(A)
    keys = A.copy()
    order = identity(num_nodes)
    fill_keys(probes, A)

    def snapshot(i, j):
        step = next_step(probes)
        fill_order(probes.pred_h[step], order)
        probes.i[step, order[i]] = 1
        probes.j[step, order[j]] = 1

    snapshot(0, 0)
    for i in range(num_nodes - 1):
        for j in range(num_nodes - 1, i, -1):
            if keys[j] < keys[j - 1]:
                swap(keys, order, j, j - 1)
            snapshot(i, j)
    fill_order(probes.pred, order)


@sort(
    hints={
        "pred_h": ARRAY_ORDER,
        "parent": node("pointer", "the parent in the heap; the root and nodes outside the heap: themselves"),
        "i": node("mask_one", "the node in the slot that this round began with; in phase 1, the new root"),
        "j": node("mask_one", "the node in the slot just compared with its children; in phase 1, the maximum"),
        "largest": node("mask_one", "the node in the slot to which the sinking key moved; in phase 1, always node 0"),
        "heap_size": node("mask_one", "the node in the last slot of the heap"),
        "phase": graph("categorical", "0: building the heap, 1: taking the maximum out, 2: restoring the heap", 3),
    },
)
def heapsort(A, probes):
    """Heapsort (CLRS 6.2 to 6.4).

    One hint step is one comparison of a key with its children's (MAX-HEAPIFY), or one maximum taken out of the heap.
    """
    num_nodes = len(A)
    keys = A.copy()
    order = identity(num_nodes)
    fill_keys(probes, A)

    def snapshot(i, j, largest, heap_size, phase):
        step = next_step(probes)
        fill_order(probes.pred_h[step], order)
        _fill_heap(probes.parent[step], order, heap_size)
        probes.i[step, i] = 1
        probes.j[step, j] = 1
        probes.largest[step, largest] = 1
        probes.heap_size[step, order[heap_size - 1]] = 1
        probes.phase[step, phase] = 1

    def max_heapify(i, heap_size, mark, phase):
        """Lets the key in slot i sink to its place; `mark` is the slot that the hint `i` shows."""
        while True:
            largest = _largest_of_family(keys, i, heap_size)
            if largest != i:
                swap(keys, order, i, largest)
            snapshot(order[mark], order[i], order[largest], heap_size, phase)
            if largest == i:
                break
            i = largest

    last = num_nodes - 1
    snapshot(last, last, last, num_nodes, BUILDING)
    for i in range(last, -1, -1):
        max_heapify(i, num_nodes, i, BUILDING)
    for i in range(last, 0, -1):
        swap(keys, order, 0, i)
        # As in dm-clrs, `largest` marks node 0 here, whichever node is at the root.
        snapshot(order[0], order[i], 0, i, TAKING_OUT)
        max_heapify(0, i, i, RESTORING)
    fill_order(probes.pred, order)


@sort(
    hints={
        "pred_h": ARRAY_ORDER,
        "p": node("mask_one", "the node in the first slot of the part being partitioned"),
        "r": node("mask_one", "the node in the part's last slot: the pivot, until it is put in its place"),
        "i": node("mask_one", "the node in the slot just after the keys found to be at most the pivot"),
        "j": node("mask_one", "the node in the slot just compared with the pivot; at the end, the last slot"),
    },
)
def quicksort(A, probes):
    """Quicksort with the last key of each part as the pivot (CLRS 7.1).

    One hint step is one key compared with the pivot, or the pivot put in its place between the two sides.
    """
    num_nodes = len(A)
    keys = A.copy()
    order = identity(num_nodes)
    fill_keys(probes, A)

    def snapshot(p, r, i, j):
        step = next_step(probes)
        fill_order(probes.pred_h[step], order)
        probes.p[step, order[p]] = 1
        probes.r[step, order[r]] = 1
        probes.i[step, order[i]] = 1
        probes.j[step, order[j]] = 1

    # A stack of the parts still to sort instead of the book's recursion, which Numba cannot do in a closure.
    parts = np.empty((num_nodes, 2), np.int64)
    parts[0] = 0, num_nodes - 1
    waiting = 1
    while waiting > 0:
        waiting -= 1
        p, r = parts[waiting]
        pivot = keys[r]
        i = p - 1
        for j in range(p, r):
            if keys[j] <= pivot:
                i += 1
                swap(keys, order, i, j)
            snapshot(p, r, i + 1, j)
        q = i + 1
        swap(keys, order, q, r)
        snapshot(p, r, q, r)
        if q + 1 < r:
            parts[waiting] = q + 1, r
            waiting += 1
        if p < q - 1:  # pushed last, so sorted first
            parts[waiting] = p, q - 1
            waiting += 1
    fill_order(probes.pred, order)


@njit
def _largest_of_family(keys, i, heap_size):
    """Returns the slot with the largest key among slot i and its children in the heap."""
    left, right = 2 * i + 1, 2 * i + 2
    largest = i
    if left < heap_size and keys[left] > keys[largest]:
        largest = left
    if right < heap_size and keys[right] > keys[largest]:
        largest = right
    return largest


@njit
def _fill_heap(parent, order, heap_size):
    """Fills in pointers to the parents in a binary heap that fills the first slots."""
    parent[order[0]] = order[0]
    for slot in range(1, heap_size):
        parent[order[slot]] = order[(slot - 1) // 2]
    for slot in range(heap_size, len(order)):
        parent[order[slot]] = order[slot]
