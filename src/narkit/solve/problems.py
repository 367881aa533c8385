"""The problem that each algorithm solves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from narkit.solve.graph_problems import GRAPH_PROBLEMS
from narkit.solve.greedy_problems import GREEDY_PROBLEMS
from narkit.solve.key_problems import KEY_PROBLEMS
from narkit.solve.plane_problems import PLANE_PROBLEMS
from narkit.solve.problem import Instance, Outputs, Plain, Problem, check_size, shown
from narkit.solve.text_problems import TEXT_PROBLEMS
from narkit.solve.tree_problems import TREE_PROBLEMS
from narkit.spec import ALGORITHMS, Algorithm

PROBLEMS: dict[str, Problem] = {
    **GRAPH_PROBLEMS,
    **GREEDY_PROBLEMS,
    **KEY_PROBLEMS,
    **PLANE_PROBLEMS,
    **TEXT_PROBLEMS,
    **TREE_PROBLEMS,
}


class RawProblem(Problem):
    """Instances of an algorithm from another package: its own arguments, and its outputs as they are."""

    def __init__(self, entry: Algorithm):
        self.parameters = tuple(entry.arguments)  # type: ignore[misc]

    def read(self, given: Mapping[str, Any]) -> Instance:
        num_nodes = max((len(value) for value in given.values() if np.ndim(value)), default=0)
        check_size(num_nodes)
        notes = ["the instance was not mapped: the range that its networks know is not known"]
        return Instance(dict(given), tuple(range(num_nodes)), notes=notes)

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        return {name: values.tolist() for name, values in outputs.items()}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return [f"{name}: {shown(value)}" for name, value in plain.items()]


def problem_of(algorithm: str) -> Problem:
    """Returns the problem that an algorithm solves."""
    return PROBLEMS[algorithm] if algorithm in PROBLEMS else RawProblem(ALGORITHMS[algorithm])
