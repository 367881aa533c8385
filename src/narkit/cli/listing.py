"""`narkit list`: the algorithms with their categories, probes and typical lengths."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import narkit.algorithms  # noqa: F401  registers the algorithms
from narkit.data.execution import sample
from narkit.spec import ALGORITHMS, Algorithm, Stage, stage_of

SIZE = 16

# What `measured_length` gives; kept here because measuring compiles every algorithm. A test compares.
TYPICAL_LENGTHS: dict[str, int] = {
    "activity_selector": 17,
    "articulation_points": 55,
    "bellman_ford": 5,
    "bfs": 3,
    "binary_search": 5,
    "bridges": 55,
    "bubble_sort": 121,
    "dag_shortest_paths": 16,
    "dfs": 48,
    "dijkstra": 14,
    "find_maximum_subarray_kadane": 16,
    "floyd_warshall": 16,
    "graham_scan": 26,
    "heapsort": 84,
    "insertion_sort": 16,
    "jarvis_march": 137,
    "kmp_matcher": 15,
    "lcs_length": 9,
    "matrix_chain_order": 13,
    "minimum": 16,
    "mst_kruskal": 12,
    "mst_prim": 14,
    "naive_string_matcher": 10,
    "optimal_bst": 17,
    "quickselect": 39,
    "quicksort": 60,
    "segments_intersect": 5,
    "strongly_connected_components": 92,
    "task_scheduling": 17,
    "topological_sort": 37,
}


def measured_length(name: str) -> int:
    """The median number of steps over one training batch at the nominal size 16."""
    return int(np.median(sample(name, size=SIZE, batch_size=32, seed=0).lengths))


def typical_lengths(console: Console) -> dict[str, int]:
    """Known lengths, and measured ones for algorithms that came from elsewhere."""
    unknown = [name for name in ALGORITHMS if name not in TYPICAL_LENGTHS]
    steps = track(unknown, "measuring lengths", console=console, transient=True, disable=not unknown)
    return TYPICAL_LENGTHS | {name: measured_length(name) for name in steps}


def print_list(console: Console) -> None:
    """Prints the table of all algorithms."""
    lengths = typical_lengths(Console(stderr=True))
    table = Table(title=f"{len(ALGORITHMS)} algorithms", row_styles=["", "on grey7"], title_justify="left")
    table.add_column("algorithm", style="bold cyan", no_wrap=True)
    table.add_column("category", style="green")
    for stage in (Stage.INPUT, Stage.HINT, Stage.OUTPUT):
        table.add_column(f"{stage}s", overflow="fold")
    table.add_column(f"steps at n={SIZE}", justify="right")
    for entry in sorted(ALGORITHMS.values(), key=lambda entry: (entry.category, entry.name)):
        stages = [_probes(entry, stage) for stage in (Stage.INPUT, Stage.HINT, Stage.OUTPUT)]
        table.add_row(entry.name, entry.category, *stages, str(lengths[entry.name]))
    console.print(table)
    console.print("narkit data show ALGORITHM tells what every probe means.", style="dim")


def _probes(entry: Algorithm, stage: Stage) -> str:
    return " ".join(stage_of(entry.spec, stage))
