"""The tables of the paper (Jung & Ahn, 2023) as data.

`table_category.csv` is its Table 1, `table_algorithms.csv` Table 2 and `table_parameters.csv` Table 3; the last rows of
the first two are in `table_summary.csv`. The paper repeats its own two columns five times and cites the other four from
earlier work, whose number of seeds it does not say.

Two entries of its Table 1 do not follow from its Table 2, while the averages below them do: Graphs of TEAM (81.6; the
rows give 81.86) and Geometry of the baseline with OOD validation (88.02; the rows give 89.38). They stay as printed.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources

# The paper's names of categories, in its order, and what `narkit.ALGORITHMS` calls them.
CATEGORIES = {
    "Div.&C.": "divide and conquer",
    "DP": "dynamic programming",
    "Geometry": "geometry",
    "Graphs": "graphs",
    "Greedy": "greedy",
    "Search": "search",
    "Sorting": "sorting",
    "Strings": "strings",
}


@dataclass(frozen=True)
class Score:
    """A score in percent, its standard deviation, and over how many seeds; None where it is not known."""

    mean: float
    std: float | None = None
    seeds: int | None = None


@dataclass(frozen=True)
class Summary:
    """The last rows of Tables 1 and 2 for one column."""

    average_of_categories: float
    average_of_algorithms: float | None
    average_rank: float
    above_90: int
    above_50: int
    seeds: int | None


@functools.cache
def labels() -> dict[str, str]:
    """Returns the paper's name of every algorithm, in its order."""
    return {row["algorithm"]: row["label"] for row in _rows("table_algorithms.csv")}


@functools.cache
def columns() -> list[str]:
    """Returns the columns of the published tables."""
    return [row["column"] for row in _rows("table_summary.csv")]


@functools.cache
def algorithm_scores(column: str) -> dict[str, Score]:
    """Reads Table 2: the scores of a column by algorithm; empty for columns that the paper gives by category only."""
    return _scores("table_algorithms.csv", "algorithm", column)


@functools.cache
def category_scores(column: str) -> dict[str, Score]:
    """Reads Table 1: the scores of a column by category, under narkit's names of categories."""
    scores = _scores("table_category.csv", "category", column)
    return {name: scores[printed] for printed, name in CATEGORIES.items() if scores}


@functools.cache
def summary(column: str) -> Summary:
    """Returns the averages of a column, its average rank, and how many algorithms are above 90 % and 50 %."""
    categories = next(row for row in _rows("table_category.csv") if row["category"] == "Average")
    row = next(row for row in _rows("table_summary.csv") if row["column"] == column)
    average = float(row["average_of_algorithms"]) if row["average_of_algorithms"] else None
    counts = int(row["above_90"]), int(row["above_50"])
    return Summary(float(categories[column]), average, float(row["average_rank"]), *counts, _number_of_seeds(column))


@functools.cache
def parameter_ratios() -> dict[str, float]:
    """Reads Table 3: the parameters of TEAM divided by those of Triplet-GMPNN, by algorithm."""
    return {row["algorithm"]: float(row["paper_ratio"]) for row in _rows("table_parameters.csv")}


AVERAGE_RATIO = 1.25  # the last row of Table 3


def _scores(file: str, key: str, column: str) -> dict[str, Score]:
    rows = [row for row in _rows(file) if row.get(f"{column}_std")]
    seeds = _number_of_seeds(column) if rows else None
    return {row[key]: Score(float(row[column]), float(row[f"{column}_std"]), seeds) for row in rows}


def _number_of_seeds(column: str) -> int | None:
    seeds = next(row["seeds"] for row in _rows("table_summary.csv") if row["column"] == column)
    return int(seeds) if seeds else None


@functools.cache
def _rows(file: str) -> list[dict[str, str]]:
    return list(csv.DictReader(resources.files(__name__).joinpath(file).read_text().splitlines()))
