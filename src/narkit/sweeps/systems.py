"""The columns of the paper's tables: which system stands in each, and under which selection rule."""

from __future__ import annotations

from dataclasses import dataclass

from narkit.training.config import TrainConfig
from narkit.training.rules import AVERAGE_SUFFIX, LAST, rules


@dataclass(frozen=True)
class Column:
    """A column of the paper's tables: a system under the one selection rule that was fixed for it beforehand."""

    name: str  # as the paper's tables have it in `report/paper`
    title: str
    system: str
    rule: str


# The paper replaces the validation set of size 16 by one of size 32 for TEAM and for the second column of its
# baseline. One training of the baseline gives both of its columns.
COLUMNS = (
    Column("memnet", "Memnet", "memnet", "id"),
    Column("mpnn", "MPNN", "mpnn", "id"),
    Column("pgn", "PGN", "pgn", "id"),
    Column("triplet_gmpnn", "Triplet-GMPNN", "triplet_gmpnn", "id"),
    Column("triplet_gmpnn_ood_val", "Triplet-GMPNN + OOD val", "triplet_gmpnn", "ood"),
    Column("team", "TEAM", "team", "ood"),
)


def main_rule(config: TrainConfig) -> str:
    """The rule that stands for a run where only one can: that of the system's last column, else the first.

    Where weights are averaged, it is that of the averaged weights on the last validation set that selects: preset
    `plus` fixes `ood_average` beforehand.
    """
    names = [validation.name for validation in config.validations if validation.selects] or [LAST]
    average = f"{names[-1]}{AVERAGE_SUFFIX}"
    if average in rules(config):
        return average
    if config.rules and not any(name in rules(config) for name in names):
        return config.rules[0].name
    return next((c.rule for c in reversed(COLUMNS) if c.system == config.processor and c.rule in names), names[0])
