"""The names of the values of categories and phases.

Every probe says in its spec what it means (`Probe.meaning`); here stand the names of the values that are numbers only
because networks read numbers. Pictures, the viewer and the documentation write these names.
"""

from __future__ import annotations

from narkit.spec import ALGORITHMS, Kind

LETTERS = ("a", "b", "c", "d")
ARROWS = ("diagonal", "above", "left", "no cell")

# Names by probe, and by algorithm and probe where a name such as `phase` means something else in each.
NAMES: dict[str | tuple[str, str], tuple[str, ...]] = {
    "color": ("white", "gray", "black"),
    ("lcs_length", "key"): LETTERS,
    ("naive_string_matcher", "key"): LETTERS,
    ("kmp_matcher", "key"): LETTERS,
    ("lcs_length", "b_h"): ARROWS,
    ("lcs_length", "b"): ARROWS,
    ("lcs_length", "string"): ("first string", "second string"),
    ("naive_string_matcher", "string"): ("haystack", "needle"),
    ("kmp_matcher", "string"): ("haystack", "needle"),
    ("kmp_matcher", "phase"): ("computing the prefix function", "matching"),
    ("graham_scan", "phase"): (
        "begin",
        "lowest point found",
        "angles found and sorted",
        "point taken off the stack",
        "point put on the stack",
    ),
    ("jarvis_march", "phase"): ("begin", "marching around the hull"),
    ("heapsort", "phase"): ("building the heap", "taking the maximum out", "restoring the heap"),
    ("mst_kruskal", "phase"): ("the edge is decided", "climbing from u", "climbing from v"),
    ("dag_shortest_paths", "phase"): ("sorting the nodes", "relaxing edges"),
    ("strongly_connected_components", "phase"): ("searching the graph", "searching the transposed graph"),
}


def value_names(algorithm: str, probe: str) -> tuple[str, ...]:
    """Returns the names of a probe's values, from 0 on: numbers for an unnamed category, nothing for other kinds."""
    entry = ALGORITHMS[algorithm]
    found = NAMES.get((entry.name, probe), NAMES.get(probe, ()))
    kind = entry.spec[probe]
    if kind.kind is Kind.CATEGORICAL:
        return found if len(found) == kind.num_classes else tuple(str(value) for value in range(kind.num_classes))
    return found if kind.kind is Kind.MASK else ()
