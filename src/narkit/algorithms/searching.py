"""Searching: for the minimum, for a key in sorted keys, and for the median."""

from narkit.algorithms import arguments, instances
from narkit.algorithms.recording import fill_identity_order, fill_keys, fill_order, identity, next_step, swap
from narkit.algorithms.shared_probes import ARRAY_ORDER, GIVEN_ORDER, POSITION
from narkit.spec import algorithm, graph, node


@algorithm(
    category="search",
    inputs={"pos": POSITION, "key": node("scalar", "the key; the smallest is sought")},
    hints={
        "pred_h": GIVEN_ORDER,
        "min_h": node("mask_one", "the node with the smallest key so far"),
        "i": node("mask_one", "the node just looked at"),
    },
    outputs={"min": node("mask_one", "the node with the smallest key, the first of equals")},
    arguments={"A": arguments.keys()},
    sampler=instances.keys,
    multiplier=64,
)
def minimum(A, probes):
    """Minimum of an array (CLRS 9.1).

    One hint step is one key compared with the smallest so far.
    """
    num_nodes = len(A)
    fill_keys(probes, A)
    fill_identity_order(probes.pred_h)

    def snapshot(smallest, i):
        step = next_step(probes)
        probes.min_h[step, smallest] = 1
        probes.i[step, i] = 1

    smallest = 0
    snapshot(smallest, 0)
    for i in range(1, num_nodes):
        if A[smallest] > A[i]:
            smallest = i
        snapshot(smallest, i)
    probes.min[smallest] = 1


@algorithm(
    category="search",
    inputs={
        "pos": POSITION,
        "key": node("scalar", "the keys, sorted"),
        "target": graph("scalar", "the number to look for"),
    },
    hints={
        "pred_h": GIVEN_ORDER,
        "low": node("mask_one", "the first node that may still be the answer"),
        "high": node("mask_one", "the last node that may still be the answer"),
        "mid": node("mask_one", "the node halfway between, which is compared next"),
    },
    outputs={"return": node("mask_one", "the first node whose key is at least the target; the last node if none is")},
    arguments={
        "x": arguments.number(what="the number to look for"),
        "A": arguments.keys(arguments.ascending, what="a vector of sorted numbers"),
    },
    sampler=instances.target_and_sorted_keys,
    multiplier=64,
)
def binary_search(x, A, probes):
    """Binary search in sorted keys (CLRS exercise 2.3-5).

    One hint step halves the range of nodes in which the answer lies. Unlike the exercise's, this search always
    returns a node: the place of the target, whether or not the target itself is among the keys.
    """
    num_nodes = len(A)
    fill_keys(probes, A)
    probes.target[0] = x
    fill_identity_order(probes.pred_h)

    def snapshot(low, high):
        step = next_step(probes)
        probes.low[step, low] = 1
        probes.high[step, high] = 1
        probes.mid[step, (low + high) // 2] = 1

    low, high = 0, num_nodes - 1
    snapshot(low, high)
    while low < high:
        mid = (low + high) // 2
        if x <= A[mid]:
            high = mid
        else:
            low = mid + 1
        snapshot(low, high)
    probes.return_[high] = 1


@algorithm(
    category="search",
    inputs={"pos": POSITION, "key": node("scalar", "the key; the median is sought")},
    hints={
        "pred_h": ARRAY_ORDER,
        "p": node("mask_one", "the node in the first slot of the part that holds the median"),
        "r": node("mask_one", "the node in the last slot of the part that holds the median"),
        "i": node("mask_one", "the node in the slot just after the keys found to be at most the pivot"),
        "j": node("mask_one", "the node in the slot just compared with the pivot; at the end, the last slot"),
        "i_rank": graph("scalar", "the slot of i over the number of nodes; once the pivot is in place, counted from p"),
        "target": graph("scalar", "the rank to find, counted within the part from p to r, over the number of nodes"),
        "pivot": node("mask_one", "the node whose key the part is divided by"),
    },
    outputs={"median": node("mask_one", "the node of rank n // 2 in sorted order, ranks counted from 0")},
    arguments={"A": arguments.keys()},
    sampler=instances.keys,
    multiplier=64,
)
def quickselect(A, probes):
    """Quickselect of the median, with the last key of each part as the pivot (CLRS 9.2, without its random choice).

    One hint step is one key compared with the pivot, or the pivot put in its place between the two sides.
    The hint `pivot` exists in dm-clrs 2.0.3 but not in the benchmark as first published.
    """
    num_nodes = len(A)
    keys = A.copy()
    order = identity(num_nodes)  # order[slot] is the node whose key stands in that slot
    fill_keys(probes, A)

    def snapshot(p, r, i, j, i_rank, target, pivot):
        step = next_step(probes)
        fill_order(probes.pred_h[step], order)
        probes.p[step, order[p]] = 1
        probes.r[step, order[r]] = 1
        probes.i[step, order[i]] = 1
        probes.j[step, order[j]] = 1
        probes.i_rank[step] = i_rank / num_nodes
        probes.target[step] = target / num_nodes
        probes.pivot[step, order[pivot]] = 1

    p, r, target = 0, num_nodes - 1, num_nodes // 2
    while True:
        pivot = keys[r]
        i = p - 1
        for j in range(p, r):
            if keys[j] <= pivot:
                i += 1
                swap(keys, order, i, j)
            # As in dm-clrs, `i_rank` is counted from slot 0 here and from slot p below.
            snapshot(p, r, i + 1, j, i + 1, target, r)
        q = i + 1
        swap(keys, order, q, r)
        rank = q - p
        snapshot(p, r, q, r, rank, target, q)
        if target == rank:
            break
        if target < rank:
            r = q - 1
        else:
            p = q + 1
            target -= rank + 1
    probes.median[order[q]] = 1
