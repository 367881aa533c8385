"""What the paper has published for a system under a selection rule."""

from __future__ import annotations

from narkit.report import paper
from narkit.report.paper import Score
from narkit.sweeps.systems import COLUMNS


def published(system: str, rule: str, algorithm: str) -> Score | None:
    """The paper's score of a system that was selected on a validation set of the same size.

    It does not say which of equal checkpoints it took, so both rules of a set have it. It has none of the end of
    training, and of TEAM only that with validation at size 32.
    """
    validation = rule.removesuffix("_first")
    columns = [column.name for column in COLUMNS if (column.system, column.rule) == (system, validation)]
    return paper.algorithm_scores(columns[0]).get(algorithm) if columns else None
