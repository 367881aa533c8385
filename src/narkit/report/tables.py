"""The paper's three tables, each value of a grid of records beside the paper's.

- Table 1: the means of the eight categories, their average, the average rank, and how many of the thirty algorithms
  are above 90 % and 50 %.
- Table 2: the thirty algorithms, their average, and the average of the eight categories. The two averages differ,
  since categories have from one to twelve algorithms; both are shown and never mixed.
- Table 3: the parameters of TEAM relative to the baseline's.
- The appendix has every selection rule of every run.

A column is a system under its one rule, fixed in `narkit.SYSTEMS`. Where nothing was published the cells are empty.
What was not run is missing; a column with a missing cell has no averages, only those over the cells that it has, beside
the paper's over the same cells. Such rows go when all is run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np

from narkit.report import paper
from narkit.report.grid import Grid, category_members
from narkit.report.paper import Score
from narkit.report.published import algorithm_scores, category_scores, summary
from narkit.report.rendering import Entry, Heading, Number, Table, TableRow
from narkit.sweeps.systems import System

SHARE = "{:.0f} of 30"
COMPARED = ("paper", "ours", "difference")
THOSE_RUN = "average_of_those_run"
LEGEND = (
    "Micro-F1 on the official test split in percent: mean ± standard deviation of a sample over seeds (number of "
    "seeds, where it is known). Differences are ours minus the paper's."
)
RULES = (
    "The rules “id” and “ood” take the best validation score at size 16 and at size 32, and of equal ones that with "
    "the lowest validation loss; “id_first” and “ood_first” take the first of equal ones, as dm-clrs does; “last” is "
    "the end of training."
)

ColumnValues = Callable[[System], tuple[Entry, Entry]]
"""The paper's entry and ours for a column."""


def all_tables(grid: Grid) -> list[Table]:
    """Makes all tables that a report shows."""
    return [category_table(grid), algorithm_table(grid), parameter_table(), rule_table(grid)]


def category_table(grid: Grid) -> Table:
    """Makes the paper's Table 1."""
    columns, ranks = grid.columns, average_ranks(grid)

    def category(name: str) -> TableRow:
        values: ColumnValues = lambda c: (category_scores(c).get(name), grid.column(c).category(name))  # noqa: E731
        return _row(grid, columns, name.replace(" ", "_"), name.capitalize(), values)

    def rank(column: System) -> tuple[Entry, Entry]:
        theirs, ours = summary(column), ranks.get(column.name)
        # Ranks are multiples of 1/8; the paper rounds 1.625 up.
        return theirs and Number(theirs.average_rank), None if ours is None else Number(ours + 1e-9)

    def above(threshold: int, column: System) -> tuple[Entry, Entry]:
        theirs, scores = summary(column), grid.column(column)
        count = theirs and (theirs.above_90 if threshold == 90 else theirs.above_50)
        ours = Number(scores.above(threshold), SHARE) if scores.complete else None
        return None if count is None else Number(count, SHARE), ours

    rows = [
        *(category(name) for name in category_members()),
        _average_of_categories(grid, columns),
        _row(grid, columns, "average_rank", "Average rank", rank, summary=True),
        _row(grid, columns, "above_90", "> 90 %", lambda c: above(90, c), summary=True),
        _row(grid, columns, "above_50", "> 50 %", lambda c: above(50, c), summary=True),
        *_number_run(grid, columns),
    ]
    notes = [
        LEGEND,
        "The spread of a category is that of all runs of its algorithms together, as in the paper; the spread of an "
        "average is that of the seeds' own averages.",
        "For the average rank, our complete columns stand in for the paper's among its six.",
    ]
    return Table("table1", "Table 1: categories", "Category", _headings(grid, columns), rows, notes)


def algorithm_table(grid: Grid) -> Table:
    """Makes the paper's Table 2."""
    columns = [column for column in grid.columns if has_ours(grid, column)]

    def algorithm(name: str, label: str) -> TableRow:
        values: ColumnValues = lambda c: (algorithm_scores(c).get(name), grid.column(c).algorithm(name))  # noqa: E731
        return _row(grid, columns, name, label, values)

    def average(column: System) -> tuple[Entry, Entry]:
        return published_average(column, paper.labels()), grid.column(column).average()

    def average_of_those_run(column: System) -> tuple[Entry, Entry]:
        scores = grid.column(column)
        return published_average(column, scores.runs), scores.average_of_those_run()

    rows = [
        *(algorithm(name, label) for name, label in paper.labels().items()),
        _row(grid, columns, "average_of_algorithms", "Average over 30 algorithms", average, summary=True),
        _average_of_categories(grid, columns),
        *_number_run(grid, columns),
    ]
    notes = [LEGEND]
    if not is_complete(grid, columns):
        rows.append(_row(grid, columns, THOSE_RUN, "Average over those run only", average_of_those_run, summary=True))
        notes.append(
            "The last row compares the same algorithms on both sides; while any is missing, it is no average of the "
            "benchmark."
        )
    return Table("table2", "Table 2: algorithms", "Algorithm", _headings(grid, columns), rows, notes)


def parameter_table() -> Table:
    """Makes the paper's Table 3, from the shapes of our own networks."""

    def cells(counts: list[Number | None], published: float, ratio: float) -> list[Entry]:
        return [*counts, Number(published), Number(ratio), Number(ratio - published, "{:+.3f}")]

    rows, ratios = [], []
    for name, label in paper.labels().items():
        team, baseline = count_parameters(name, "team"), count_parameters(name, "triplet_gmpnn")
        ratios.append(team / baseline)
        counts: list[Number | None] = [Number(team, "{:,.0f}"), Number(baseline, "{:,.0f}")]
        rows.append(TableRow(name, label, cells(counts, paper.parameter_ratios()[name], ratios[-1])))
    average = cells([None, None], paper.AVERAGE_RATIO, float(np.mean(ratios)))
    rows.append(TableRow("average", "Average over 30 algorithms", average, summary=True))
    parameters, ratio = "Parameters", "TEAM / Triplet-GMPNN"
    headings = [
        Heading("team_parameters", "TEAM", parameters),
        Heading("triplet_gmpnn_parameters", "Triplet-GMPNN", parameters),
        Heading("ratio_paper", "paper", ratio),
        Heading("ratio_ours", "ours", ratio),
        Heading("ratio_difference", "difference", ratio),
    ]
    notes = ["Counted from our networks with a width of 128; nothing is trained for it. The paper has two decimals."]
    return Table("table3", "Table 3: parameters", "Algorithm", headings, rows, notes)


def rule_table(grid: Grid) -> Table:
    """Makes the table of the appendix: every run under every selection rule."""
    pairs = [(system, rule) for system in grid.trained for rule in rules(grid, system)]
    scores = [grid.scores(system, rule) for system, rule in pairs]
    rows = [
        *(TableRow(name, label, [s.algorithm(name) for s in scores]) for name, label in paper.labels().items()),
        TableRow("average_of_algorithms", "Average over 30 algorithms", [s.average() for s in scores], summary=True),
    ]
    if not all(s.complete for s in scores):
        of_those_run: list[Entry] = [s.average_of_those_run() for s in scores]
        rows.append(TableRow(THOSE_RUN, "Average over those run only", of_those_run, summary=True))
    used = "; ".join(f"{column.title}: {column.rule}" for column in grid.columns)
    notes = [LEGEND, RULES, f"The other tables use one rule for each column, fixed before anything was run: {used}."]
    headings = [Heading(f"{system.training}_{rule}", rule, system.title, True) for system, rule in pairs]
    return Table("appendix_rules", "Appendix: every selection rule", "Algorithm", headings, rows, notes)


def rules(grid: Grid, system: System) -> list[str]:
    """Returns the selection rules of a system's runs; a preset gives the same to all."""
    return next((list(record.rules) for record in grid.records(system).values()), [])


def has_ours(grid: Grid, column: System) -> bool:
    """Returns whether a column shows ours: always if the paper has scores by algorithm, else once there are records."""
    return bool(algorithm_scores(column) or grid.records(column))


def is_complete(grid: Grid, columns: Sequence[System]) -> bool:
    """Returns whether all thirty algorithms were run in every column that shows ours."""
    return all(grid.column(column).complete for column in columns if has_ours(grid, column))


def published_average(column: System, names: Collection[str]) -> Score | None:
    """Returns the paper's average of a column over some algorithms; None if it has no scores by algorithm."""
    scores, whole = algorithm_scores(column), summary(column)
    chosen = [score.mean for name, score in scores.items() if name in names]
    if not chosen or whole is None:
        return None
    printed = whole.average_of_algorithms if len(chosen) == len(scores) else None
    return Score(float(np.mean(chosen)) if printed is None else printed, None, whole.seeds)


def published_average_of_categories(column: System) -> Score | None:
    """Returns the paper's average of a column over the eight categories."""
    theirs = summary(column)
    return theirs and Score(theirs.average_of_categories, None, theirs.seeds)


def compared(published: Entry, ours: Entry) -> tuple[Entry, Entry, Entry]:
    """Returns the paper's value, ours, and the difference."""
    return published, ours, difference(published, ours)


def difference(published: Entry, ours: Entry) -> Entry:
    """Subtracts the paper's value from ours, if there are both."""
    match published, ours:
        case Score(theirs), Score(mean):
            return Number(mean - theirs, "{:+.2f}")
        case Number(theirs, pattern), Number(value):
            return Number(value - theirs, "{:+.0f}" if pattern == SHARE else "{:+.2f}")
        case _:
            return None


def average_ranks(grid: Grid) -> dict[str, float]:
    """Computes the average rank of our complete columns, each in its published place among the published columns.

    One that was not published is ranked among those, too, and changes none of their ranks.
    """
    ours = {column.name: grid.column(column) for column in grid.columns if grid.column(column).complete}
    ranks: dict[str, list[int]] = {name: [] for name in ours}
    for category in category_members():
        scores = {name: column.category(category) for name, column in ours.items()}
        means = {column.name: category_scores(column)[category].mean for column in grid.columns if column.published}
        means |= {name: score.mean for name, score in scores.items() if score is not None and name in means}
        for name, score in scores.items():
            assert score is not None  # since the column is complete
            ranks[name].append(1 + sum(other > score.mean for other in means.values()))
    return {name: float(np.mean(values)) for name, values in ranks.items()}


@functools.cache
def count_parameters(algorithm: str, processor: str) -> int:
    """Counts the parameters of a network of the paper's width. Shapes suffice, nothing is computed."""
    import equinox as eqx
    import jax

    from narkit.models.network import Reasoner

    reasoner = eqx.filter_eval_shape(lambda key: Reasoner(algorithm, processor, 128, key=key), jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(reasoner))


def _shown(grid: Grid, column: System, three: Iterable[Any]) -> Iterator[Any]:
    """Selects which of published, measured and difference a column shows."""
    published, ours = bool(column.published), has_ours(grid, column)
    return compress(three, (published, ours, published and ours))


def _headings(grid: Grid, columns: Sequence[System]) -> list[Heading]:
    return [
        Heading(f"{column.name}_{what}", what, column.title, scores=what != "difference")
        for column in columns
        for what in _shown(grid, column, COMPARED)
    ]


def _row(
    grid: Grid, columns: Sequence[System], key: str, label: str, values: ColumnValues, *, summary: bool = False
) -> TableRow:
    """Makes the row under `_headings`: for every column the paper's value, ours and the difference."""
    cells = [cell for column in columns for cell in _shown(grid, column, compared(*values(column)))]
    return TableRow(key, label, cells, summary)


def _average_of_categories(grid: Grid, columns: Sequence[System]) -> TableRow:
    values: ColumnValues = lambda c: (published_average_of_categories(c), grid.column(c).average_of_categories())  # noqa: E731
    return _row(grid, columns, "average_of_categories", "Average of the 8 categories", values, summary=True)


def _number_run(grid: Grid, columns: Sequence[System]) -> list[TableRow]:
    """Makes the row of how many algorithms were run, while any is missing."""
    if is_complete(grid, columns):
        return []
    values: ColumnValues = lambda column: (None, Number(len(grid.column(column).runs), SHARE))  # noqa: E731
    return [_row(grid, columns, "algorithms_run", "Algorithms run", values, summary=True)]
