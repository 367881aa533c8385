"""The inputs of an instance in the units of whoever asked: kilometres, not the numbers that the network reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from narkit.spec import ALGORITHMS, Stage, stage_of

if TYPE_CHECKING:
    from narkit.solve.answer import Answer

ROWS = {  # the inputs that the columns of a given table are
    "activity_selector": ("s", "f"),
    "task_scheduling": ("d", "w"),
    "graham_scan": ("x", "y"),
    "jarvis_march": ("x", "y"),
    "segments_intersect": ("x", "y"),
}


def own_values(answer: Answer) -> dict[str, np.ndarray]:
    """What was given for the inputs that are drawn, as far as these are numbers."""
    given, inputs = answer._read.given, stage_of(ALGORITHMS[answer.algorithm].spec, Stage.INPUT)
    if answer.algorithm in ROWS:
        columns = np.asarray(given, float).reshape(-1, 2).T
        return dict(zip(ROWS[answer.algorithm], columns, strict=True))
    if "adj" in inputs and hasattr(given, "weights"):
        is_edge = answer.instance.inputs["A"][0] != 0
        return {"A": np.where(is_edge, given.weights, 0.0)}
    if answer.algorithm == "matrix_chain_order":
        return {"p": np.array(given, float)}
    if answer.algorithm == "binary_search":
        keys, target = given
        return (
            {"key": np.array(keys, float), "target": np.array(float(target))} if _are_numbers([*keys, target]) else {}
        )
    if "key" in inputs and "string" not in inputs and _are_numbers(answer.labels):
        return {"key": np.array(answer.labels, float)}
    return {}


def own_labels(answer: Answer) -> tuple[str, ...]:
    """What nodes are called; those of a chain of matrices are named after them, the first has only a dimension."""
    if answer.algorithm == "matrix_chain_order":
        return ("–", *(f"A{i}" for i in range(1, len(answer.labels))))
    return tuple(_short(label) for label in answer.labels)


def _short(label: Any) -> str:
    return f"{label:.6g}" if isinstance(label, float) else str(label)


def _are_numbers(values: Any) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
