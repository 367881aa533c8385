"""The number of steps that the processor takes on batches of each algorithm, for estimates of a run's cost."""

from __future__ import annotations

import functools

import numpy as np

from narkit.data.splits import SPLITS, load_split, validation_set
from narkit.data.stream import TRAINING_SIZES, TrainingStream

VALIDATION_SIZE = 32
SIZES = (*TRAINING_SIZES, VALIDATION_SIZE, SPLITS["test"].size)

# What `measured_steps` gives for each of SIZES; kept here because measuring compiles every sampler. A test compares.
PROCESSOR_STEPS: dict[str, tuple[float, ...]] = {
    "activity_selector": (4, 7, 11, 13, 16, 32, 64),
    "articulation_points": (19.8, 37, 72.5, 95.1, 132.9, 380, 403),
    "bellman_ford": (3, 4.9, 6.1, 7, 8.1, 8, 7),
    "bfs": (3, 4.6, 6.2, 6.9, 7.6, 8, 3),
    "binary_search": (2, 3, 4, 4, 4, 5, 6),
    "bridges": (19.8, 37, 72.5, 95.1, 132.9, 380, 403),
    "bubble_sort": (6, 21, 55, 78, 120, 496, 2016),
    "dag_shortest_paths": (12, 21, 33, 39, 47.6, 93, 174),
    "dfs": (11, 20, 32, 38, 47, 95, 191),
    "dijkstra": (4, 7, 11, 13, 16, 32, 64),
    "find_maximum_subarray_kadane": (3, 6, 10, 12, 15, 31, 63),
    "floyd_warshall": (3, 6, 10, 12, 15, 31, 63),
    "graham_scan": (6, 12, 19, 22.6, 28, 58, 120),
    "heapsort": (15, 30.9, 55.9, 68.9, 89.6, 204, 467),
    "insertion_sort": (3, 6, 10, 12, 15, 31, 63),
    "jarvis_march": (20, 56, 109.5, 136.5, 184.9, 462, 1040),
    "kmp_matcher": (3, 8.2, 14.6, 19, 23.2, 50, 64.2),
    "lcs_length": (1, 4, 7, 8.5, 11, 23, 45),
    "matrix_chain_order": (2, 5, 9, 11, 14, 30, 62),
    "minimum": (3, 6, 10, 12, 15, 31, 63),
    "mst_kruskal": (12.2, 23, 59.4, 84.4, 127.6, 445, 379),
    "mst_prim": (4, 7, 11, 13, 16, 32, 64),
    "naive_string_matcher": (2, 5.9, 12, 16, 20.2, 47, 46.8),
    "optimal_bst": (4, 7, 11, 13, 16, 32, 64),
    "quickselect": (9, 26.1, 48.1, 61.4, 80.1, 177, 198.5),
    "quicksort": (8, 25.8, 50.8, 65.9, 86.6, 216, 511),
    "segments_intersect": (4, 4, 4, 4, 4, 4, 4),
    "strongly_connected_components": (23, 41, 65, 77, 95, 191, 323),
    "task_scheduling": (4, 7, 11, 13, 16, 32, 64),
    "topological_sort": (11, 20, 31.5, 37.1, 44.9, 86, 140),
}


def processor_steps(name: str, size: int) -> float:
    """Returns the processor steps that a batch of this nominal size takes: those of its longest sample, on average."""
    if name in PROCESSOR_STEPS and size in SIZES:
        return PROCESSOR_STEPS[name][SIZES.index(size)]
    return measured_steps(name, size)


@functools.cache
def measured_steps(name: str, size: int) -> float:
    """Returns the mean number of steps over batches as training, validation and test have them: of five seeds with 32
    samples each, of 128 samples, or of 32 samples of about the same length of the official test split."""
    if size == SPLITS["test"].size:
        lengths = np.sort(load_split(name, "test").lengths)  # as `EvaluationSet` cuts it into parts
        batches = [lengths[start : start + 32] for start in range(0, len(lengths), 32)]
    elif size == VALIDATION_SIZE:
        batches = [validation_set(name, size, 128).lengths]
    else:
        streams = [TrainingStream(name, seed, (size,)) for seed in range(5)]
        batches = [np.concatenate([stream.batch(turn).lengths for stream in streams]) for turn in range(8)]
    return float(np.mean([max(1, int(lengths.max()) - 1) for lengths in batches]))
