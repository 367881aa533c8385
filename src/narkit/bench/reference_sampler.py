"""Times dm-clrs's sampler, in an interpreter that has it. A script: it must not import narkit.

It reads one JSON object per line, `{"algorithm": .., "size": .., "batch_size": .., "seconds": ..}`, and answers each
with one line, `{"microseconds": .., "batches": ..}`. The first line it writes names its versions.

What is timed is what training does in the reference for every batch: draw the instances from the training
distribution, run the algorithm, pad to a batch, and the three transforms. Building the sampler is not timed.
"""

import json
import os
import statistics
import sys
import time
from importlib import metadata

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ[_variable] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["JAX_PLATFORMS"] = "cpu"

HALF_AS_DENSE = ("articulation_points", "bridges", "mst_kruskal")
STRING_MATCHERS = ("naive_string_matcher", "kmp_matcher")
PREDECESSORS_ARE_INPUT = (
    "binary_search",
    "minimum",
    "find_maximum_subarray_kadane",
    "matrix_chain_order",
    "lcs_length",
    "optimal_bst",
    "activity_selector",
    "task_scheduling",
    "naive_string_matcher",
    "kmp_matcher",
    "jarvis_march",
)


def stream(clrs, numpy, algorithm, size, batch_size, track_max_steps=False):
    """Returns the spec of an algorithm and an endless iterator of transformed batches.

    A batch is as long as its longest trajectory. With `track_max_steps`, building draws a thousand samples, and batches
    are padded to the longest seen so far.
    """
    densities = [0.1 + 0.1 * i for i in range(9)]
    if algorithm in HALF_AS_DENSE:
        densities = [density / 2 for density in densities]
    is_matcher = algorithm in STRING_MATCHERS
    sampler, spec = clrs.build_sampler(
        algorithm,
        num_samples=-1,
        seed=0,
        track_max_steps=track_max_steps,
        length=size * 5 // 4 if is_matcher else size,
        p=tuple(densities),
        length_needle=-8,
    )

    def raw():
        while True:
            yield sampler.next(batch_size)

    iterator = clrs.process_random_pos(raw(), numpy.random.RandomState(0))
    if algorithm in PREDECESSORS_ARE_INPUT:
        spec, iterator = clrs.process_pred_as_input(spec, iterator)
    return clrs.process_permutations(spec, iterator, True)


def measure(clrs, numpy, request):
    """Measures the median time per sample over as many batches as fit into the time given, and one at least."""
    batch_size = request["batch_size"]
    wanted = (clrs, numpy, request["algorithm"], request["size"])
    next(stream(*wanted, 1)[1])  # imports and caches are not what is measured
    _, iterator = stream(*wanted, batch_size)
    times = []
    while not times or sum(times) < request["seconds"]:
        start = time.perf_counter()
        next(iterator)
        times.append(time.perf_counter() - start)
    return {"microseconds": statistics.median(times) / batch_size * 1e6, "batches": len(times)}


def serve(packages, answer):
    """Writes the versions of some packages, then `answer(clrs, numpy, request)` for each request that is read."""
    import logging

    import clrs  # pyright: ignore[reportMissingImports]
    import numpy

    logging.disable(logging.WARNING)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print must not mix with the answers
    versions = {name: metadata.version(name) for name in packages}
    print(json.dumps(versions | {"python": sys.version.split()[0]}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(clrs, numpy, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    serve(("dm-clrs", "numpy", "jax"), measure)
