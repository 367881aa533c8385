"""The maximum subarray, which the benchmark counts among divide and conquer although Kadane's method needs neither."""

from narkit.algorithms import arguments, instances
from narkit.algorithms.recording import fill_identity_order, fill_keys, next_step
from narkit.algorithms.shared_probes import GIVEN_ORDER, POSITION
from narkit.spec import algorithm, graph, node


@algorithm(
    category="divide and conquer",
    inputs={"pos": POSITION, "key": node("scalar", "the number to add up")},
    hints={
        "pred_h": GIVEN_ORDER,
        "best_low": node("mask_one", "the first node of the best run of neighbours so far"),
        "best_high": node("mask_one", "the last node of the best run so far"),
        "best_sum": graph("scalar", "the sum of the best run so far"),
        "i": node("mask_one", "the first node of the best run that ends at j"),
        "j": node("mask_one", "the node just added"),
        "sum": graph("scalar", "the sum of the best run that ends at j"),
    },
    outputs={
        "start": node("mask_one", "the first node of the run with the largest sum"),
        "end": node("mask_one", "the last node of the run with the largest sum"),
    },
    arguments={"A": arguments.keys()},
    sampler=instances.signed_keys,
    multiplier=32,
)
def find_maximum_subarray_kadane(A, probes):
    """Maximum subarray by Kadane's method (CLRS exercise 4.1-5).

    One hint step is one number more: the best run that ends there either goes on or starts anew.
    """
    num_nodes = len(A)
    fill_keys(probes, A)
    fill_identity_order(probes.pred_h)

    def snapshot(best_low, best_high, best_sum, i, j, run_sum):
        step = next_step(probes)
        probes.best_low[step, best_low] = 1
        probes.best_high[step, best_high] = 1
        probes.best_sum[step] = best_sum
        probes.i[step, i] = 1
        probes.j[step, j] = 1
        probes.sum[step] = run_sum

    best_low, best_high, best_sum = 0, 0, A[0]
    i, run_sum = 0, A[0]
    snapshot(best_low, best_high, best_sum, i, 0, run_sum)
    for j in range(1, num_nodes):
        # Not `run_sum >= 0`: a tiny negative sum can vanish in rounding, and then dm-clrs goes on with the run.
        if run_sum + A[j] >= A[j]:
            run_sum += A[j]
        else:
            i, run_sum = j, A[j]
        if run_sum > best_sum:
            best_low, best_high, best_sum = i, j, run_sum
        snapshot(best_low, best_high, best_sum, i, j, run_sum)
    probes.start[best_low] = 1
    probes.end[best_high] = 1
