"""Drawings of runs: which drawing fits an algorithm, and by which sign each of its probes is shown.

Signs follow from the kind of a probe; the tables below hold what cannot be derived. An algorithm of your own needs no
entry: a graph is drawn as a graph, points as points, two strings as cells, everything else as an array.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from narkit.report.layout import place
from narkit.spec import Algorithm, Kind, Location, Probe, Stage, stage_of

GRAPH, ARRAY, STRINGS, POINTS, TABLE, INTERVALS = "graph", "array", "strings", "points", "table", "intervals"
TABLES = {"matrix_chain_order", "lcs_length", "optimal_bst"}

# Outputs are drawn as the hint that they complete; `x` completes `x_h` without being told.
COMPLETES = {
    "find_maximum_subarray_kadane": {"start": "best_low", "end": "best_high"},
    "binary_search": {"return": "mid"},
    "naive_string_matcher": {"match": "s"},
    "kmp_matcher": {"match": "s"},
}

# Lists beside the drawing, of every algorithm that has their hints. A chain starts at a one-hot mask and follows
# pointers; a set is sorted by a number.
LISTS = (
    {"title": "queue, nearest first", "set": "in_queue", "by": "d"},
    {"title": "queue, lightest edge first", "set": "in_queue", "by": "key"},
    {"title": "stack, from the top", "first": "s_last", "next": "s_prev"},
    {"title": "stack, from the top", "first": "last_stack", "next": "stack_prev"},
    {"title": "order so far", "first": "topo_head_h", "next": "topo_h"},
)

# Parts of an array or a string between two one-hot masks.
WINDOWS: dict[str, list[dict[str, str]]] = {
    "find_maximum_subarray_kadane": [
        {"title": "best run", "first": "best_low", "last": "best_high"},
        {"title": "run that ends at j", "first": "i", "last": "j"},
    ],
    "binary_search": [{"title": "may still be the answer", "first": "low", "last": "high"}],
    "quicksort": [{"title": "part", "first": "p", "last": "r"}],
    "quickselect": [{"title": "part", "first": "p", "last": "r"}],
}

# Lines between two points that one-hot masks name, and the points on the hull in the order in which they were found.
LINES: dict[str, list[dict[str, str]]] = {
    "jarvis_march": [
        {"from": "last_point", "to": "endpoint", "style": "solid"},
        {"from": "last_point", "to": "i", "style": "dotted"},
    ],
    "segments_intersect": [{"from": "i", "to": "j", "style": "solid"}],
}

# What is switched off at first: another sign shows the same.
OFF = {"graham_scan": {"atans"}, "strongly_connected_components": {"A_t"}}
FIRST_TONES = {"edge": 1, "ring": 1}  # these often stand beside arrows and fills, whose first tone is 0
SHOWN_IN_LISTS = {"s_prev", "topo_h"}
FILLS = ("color", "is_cut_h", "mark", "msk", "reach_h", "in_hull_h", "selected_h")


@dataclass(frozen=True)
class Sign:
    """The sign of one probe: its shape, the number of its colour, and whether it is switched on at first."""

    shape: str
    tone: int
    on: bool = True


def drawing_kind(entry: Algorithm) -> str:
    """Returns the drawing that fits an algorithm."""
    inputs = stage_of(entry.spec, Stage.INPUT)
    if entry.name in TABLES:
        return TABLE
    if "adj" in inputs:
        return GRAPH
    if {"x", "y"} <= set(inputs):
        return POINTS
    if "string" in inputs:
        return STRINGS
    return INTERVALS if entry.name == "activity_selector" else ARRAY


def completed_hint(entry: Algorithm, output: str) -> str:
    """Returns the hint as which an output is drawn; the output's own name if there is none."""
    known = COMPLETES.get(entry.name, {}).get(output)
    return known or (f"{output}_h" if f"{output}_h" in entry.spec else output)


def signs(entry: Algorithm) -> dict[str, Sign]:
    """Returns the sign of every hint that moves, and of outputs that complete none of them."""
    found: dict[str, Sign] = {}
    fill = next((name for name in FILLS if name in entry.spec and entry.spec[name].location is Location.NODE), None)
    for name, probe in entry.spec.items():
        is_moving = probe.stage is Stage.HINT and not probe.constant
        is_own_output = probe.stage is Stage.OUTPUT and completed_hint(entry, name) == name
        if is_moving or is_own_output:
            shape = _shape(entry, name, probe, fill)
            on = name not in OFF.get(entry.name, ()) and not (shape == "arrow" and name in SHOWN_IN_LISTS)
            same_before = sum(sign.shape == shape for sign in found.values())
            found[name] = Sign(shape, same_before + FIRST_TONES.get(shape, 0), on)
    return found


def _shape(entry: Algorithm, name: str, probe: Probe, fill: str | None) -> str:
    if probe.location is Location.GRAPH:
        return "caption"
    if probe.location is Location.EDGE:
        if drawing_kind(entry) == GRAPH and probe.kind is Kind.MASK and name != "msk":
            return "edge"
        return "blank" if probe.kind is Kind.MASK else "cell"
    if name == fill:
        return "fill"
    if drawing_kind(entry) == STRINGS and probe.kind is not Kind.MASK_ONE:
        return "row"
    match probe.kind:
        case Kind.SCALAR | Kind.CATEGORICAL:
            return "value"
        case Kind.MASK:
            return "ring"
        case Kind.MASK_ONE:
            return "tag"
        case Kind.POINTER | Kind.SHOULD_BE_PERMUTATION | Kind.PERMUTATION_POINTER:
            orders = drawing_kind(entry) == ARRAY and name in ("pred_h", "pred")
            return "order" if orders else "arrow"
        case _:
            assert_never(probe.kind)


def drawing(entry: Algorithm, inputs: dict[str, np.ndarray], own: Collection[str] | None = None) -> dict[str, Any]:
    """Returns all that the drawing of a run needs apart from its hints: what is drawn, and where.

    `own` names the inputs that are in the units of whoever asked; the numbers of others mean nothing to them.
    """
    kind = drawing_kind(entry)
    common = {
        "kind": kind,
        "lists": [each for each in LISTS if all(name in entry.spec for key, name in each.items() if key != "title")],
        "windows": WINDOWS.get(entry.name, []),
        "lines": LINES.get(entry.name, []),
    }
    match kind:
        case "graph":
            return common | _graph(entry, inputs)
        case "points":
            segments = [[0, 1], [2, 3]] if entry.name == "segments_intersect" else []
            return common | {"x": _rounded(inputs["x"]), "y": _rounded(inputs["y"]), "segments": segments}
        case "strings":
            return common | {"split": int((inputs["string"] == 0).sum())}
        case "table":
            return common | _table(entry, inputs)
        case "intervals":
            return common | {"start": _rounded(inputs["s"]), "end": _rounded(inputs["f"])}
        case _:
            array = _array(entry, inputs)
            return common | array | {"isOwn": own is None or array["height"] in own}


def _graph(entry: Algorithm, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    weights, is_edge = inputs.get("A", inputs["adj"]), inputs["adj"] != 0
    np.fill_diagonal(is_edge, False)
    directed = not np.array_equal(is_edge * weights, (is_edge * weights).T)
    ends = np.argwhere(is_edge if directed else np.triu(is_edge))
    values = weights[ends[:, 0], ends[:, 1]]
    source = int(inputs["s"].argmax()) if "s" in inputs else None
    hints = stage_of(entry.spec, Stage.HINT).values()
    return {
        "positions": np.round(place(is_edge), 4).tolist(),
        "edges": [[int(i), int(j)] for i, j in ends],
        "weights": _rounded(values) if len(values) and not (values == 1).all() else [],
        "directed": directed,
        "source": source,
        "matrices": any(probe.location is Location.EDGE and probe.kind is not Kind.MASK for probe in hints),
    }


def _table(entry: Algorithm, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the rows and columns of the table: nodes of the first and of the second string, or the upper triangle."""
    count = len(inputs["pos"])
    if "string" in inputs:
        split = int((inputs["string"] == 0).sum())
        return {"rows": [0, split], "columns": [split, count]}
    first = 1 if entry.name == "matrix_chain_order" else 0
    numbers = {name: _rounded(inputs[name]) for name in ("p", "q") if name in inputs}
    return {"rows": [first, count], "columns": [first, count], "triangle": True, "numbers": numbers}


def _array(entry: Algorithm, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the heights of the bars, and the numbers that are written below them or drawn as a line across."""
    candidates = [n for n, v in inputs.items() if n != "pos" and v.ndim == 1 and entry.spec[n].kind is Kind.SCALAR]
    height = "w" if entry.name == "task_scheduling" else next(iter(candidates), "pos")
    below = {name: _rounded(inputs[name]) for name in candidates if name != height}
    line = float(inputs["target"]) if "target" in inputs else None
    return {"height": height, "heights": _rounded(inputs[height]), "below": below, "line": line}


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
