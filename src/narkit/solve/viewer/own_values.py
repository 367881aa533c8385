"""The inputs of an instance in the units of whoever asked: kilometres, not the numbers that the network reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from narkit.solve.viewer.drawings import ARRAY, GRAPH, drawing_kind
from narkit.spec import ALGORITHMS

if TYPE_CHECKING:
    from narkit.solve.answer import Answer


def own_values(answer: Answer) -> dict[str, np.ndarray]:
    """What was given for the inputs that are drawn. An input that was not mapped need not be here."""
    kind, given = drawing_kind(ALGORITHMS[answer.algorithm]), answer._read.given
    if kind == GRAPH and hasattr(given, "weights"):
        adjacency = answer.instance.inputs["adj"][0] != 0
        return {"A": np.where(adjacency & (answer.instance.inputs["A"][0] != 0), given.weights, 0.0)}
    if kind == ARRAY and "key" in answer.instance.inputs and all(isinstance(x, (int, float)) for x in answer.labels):
        return {"key": np.array(answer.labels, float)}
    return {}
