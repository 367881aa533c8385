"""The tables of the paper (Jung & Ahn, 2023) as data."""

from __future__ import annotations

import csv
from importlib import resources

# Which columns of the table of algorithms belong to a processor; the baseline's as cited by the paper.
COLUMNS = ("team", "triplet_gmpnn")


def paper_score(algorithm: str, processor: str) -> tuple[float, float] | None:
    """The published test score and its standard deviation over seeds, in percent; None where there is none."""
    if processor not in COLUMNS:
        return None
    table = resources.files(__name__).joinpath("table_algorithms.csv").read_text()
    for row in csv.DictReader(table.splitlines()):
        if row["algorithm"] == algorithm:
            return float(row[processor]), float(row[f"{processor}_std"])
    return None
