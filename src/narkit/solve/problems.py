"""The problem that each algorithm solves."""

from __future__ import annotations

from narkit.errors import UnknownNameError
from narkit.solve.graph_problems import GRAPH_PROBLEMS
from narkit.solve.problem import Problem

PROBLEMS: dict[str, Problem] = {**GRAPH_PROBLEMS}


def problem_of(algorithm: str) -> Problem:
    """The problem that an algorithm solves."""
    if algorithm not in PROBLEMS:
        raise UnknownNameError("algorithm with a problem to solve", algorithm, PROBLEMS)
    return PROBLEMS[algorithm]
