"""The published results of a system; empty if there are none."""

from __future__ import annotations

from narkit.errors import UnknownNameError
from narkit.report import paper
from narkit.report.paper import Score, Summary
from narkit.sweeps.systems import System, sharing


def _column(system: System) -> str | None:
    """Returns the column of the published tables that a system names."""
    if system.published is not None and system.published not in paper.columns():
        raise UnknownNameError(f"published column (system {system.name})", system.published, paper.columns())
    return system.published


def algorithm_scores(system: System) -> dict[str, Score]:
    """Returns the published scores of a system by algorithm; empty if there are none, or only those of categories."""
    return paper.algorithm_scores(column) if (column := _column(system)) else {}


def category_scores(system: System) -> dict[str, Score]:
    """Returns the published scores of a system by category."""
    return paper.category_scores(column) if (column := _column(system)) else {}


def summary(system: System) -> Summary | None:
    """Returns the published averages of a system."""
    return paper.summary(column) if (column := _column(system)) else None


def published(training: str, rule: str, algorithm: str) -> Score | None:
    """Returns the published score of a training that was selected on a validation set of the same size.

    The paper does not say which of equal checkpoints it took, so both rules of a set have it. It has none of the end of
    training, and of TEAM only that with validation at size 32.
    """
    validation = rule.removesuffix("_first")
    for system in sharing(training):
        if system.rule == validation:
            return algorithm_scores(system).get(algorithm)
    return None
