"""Parts of documents that are written from records: the results in short and in full, and where such a part stands.

A generated part stands between two comments, `<!-- results: begin ... -->` and `<!-- results: end -->`; everything
outside belongs to whoever writes the document.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from narkit.report import paper, tables
from narkit.report.grid import ColumnScores, Grid
from narkit.report.provenance import cells_left, cells_wanted, origin, remarks, so_far
from narkit.report.rendering import Entry, Heading, Number, Table, TableRow, bullets, markdown, text
from narkit.sweeps.systems import System

NOT_RUN = "not run yet"
FIGURES = "images"  # below the folder of the page that shows them
CATEGORIES, CURVES = "results_categories", "results_learning_curves"

_BEGIN, _END = "<!-- results: begin", "<!-- results: end -->"
_PART = re.compile(rf"^{_BEGIN}[^\n]*-->\n(.*?)^{_END}$", re.DOTALL | re.MULTILINE)


class DocumentError(ValueError):
    """A document without a place for its generated part."""


def with_part(document: str, part: str, command: str) -> str:
    """Returns the document with its generated part replaced."""
    if len(_PART.findall(document)) != 1:
        raise DocumentError(
            f"expected one line `{_BEGIN} -->` and, below it, one line `{_END}`, got another number of them; put the "
            "two lines where the generated part should stand"
        )
    begin = f"{_BEGIN}; written by `{command}`: change the records, not this -->"
    return _PART.sub(lambda _: f"{begin}\n{part}{_END}", document)


def readme_part(grid: Grid) -> str:
    """Writes the README's results: one small table of averages, and what was reproduced in a sentence."""
    columns = _leading_first(grid)
    lines = ["| System | Ours | Published | Difference |", "| --- | ---: | ---: | ---: |"]
    for column in columns:
        scores, theirs = grid.column(column), tables.published_average(column, paper.labels())
        ours = scores.average() or _partly(scores)
        cells = [text(cell) for cell in (ours, theirs, tables.difference(theirs, ours))]
        lines.append(f"| {column.title} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_found(grid, columns), ""])


def _leading_first(grid: Grid) -> list[System]:
    """Sorts the columns that show ours: unpublished first, among them complete ones and the best before others."""
    columns = [column for column in grid.columns if tables.has_ours(grid, column)]

    def place(column: System) -> tuple[bool, float]:
        average, published = grid.column(column).average(), bool(tables.algorithm_scores(column))
        return published, 0.0 if published or average is None else -average.mean

    return sorted(columns, key=place)


def _found(grid: Grid, columns: Sequence[System]) -> list[str]:
    """Says what was reproduced and what was not, for columns that are complete and published by algorithm."""
    reached, missed = [], []
    averages = [(column, average) for column in columns if (average := grid.column(column).average()) is not None]
    for column, ours in averages:
        if theirs := tables.published_average(column, paper.labels()):
            # Two standard errors of our average: below that by more than chance.
            error = (ours.std or 0.0) / math.sqrt(ours.seeds or 1)
            (reached if ours.mean >= theirs.mean - 2 * error else missed).append(column.title)
    sentences = [
        "Averages over the thirty algorithms on the official test split, 64 nodes, in percent: mean ± standard "
        "deviation over seeds (number of seeds)."
    ]
    if len(averages) > 1:
        best, average = max(averages, key=lambda pair: pair[1].mean)
        sentences.append(f"Found: {best.title} is best, with {average.mean:.2f}.")
    complete = [column for column, _ in averages]
    partial = [column for column in columns if grid.column(column).runs and column not in complete]
    sentences += [f"So far {so_far(grid, column, complete)}" for column in partial if complete]
    if reached:
        sentences.append(f"Reproduced, or better: {', '.join(reached)}.")
    if missed:
        sentences.append(f"Not reproduced: {', '.join(missed)}.")
    return [" ".join(sentences)]


def results_part(grid: Grid) -> str:
    """Writes the results in full: averages, all thirty algorithms, and the figures once there are records."""
    left = cells_left(grid)
    parts = [markdown(headline_table(grid))]
    parts += [
        *([] if left else [highest_averages(grid), ""]),
        "Micro-F1 on the official test split in percent: mean ± standard deviation over seeds (number of seeds; the "
        "paper does not say it for the column that it cites). Each column has one selection rule, fixed before "
        "anything was run."
        + (" The average over those run compares the same algorithms on both sides." if left else ""),
        "",
        markdown(tables.algorithm_table(grid), not_run=NOT_RUN),
    ]
    if grid.cells:
        parts += [f"![Test scores by category beside the paper's]({FIGURES}/{CATEGORIES}.png)", ""]
        parts += [f"![Learning curves by algorithm]({FIGURES}/{CURVES}.png)", ""]
    parts += bullets(remarks(grid))
    parts += [origin(grid) + (f" {left} of {cells_wanted(grid)} cells are {NOT_RUN}." if left else ""), ""]
    return "\n".join(parts)


def highest_averages(grid: Grid) -> str:
    """Names the column with the highest average over thirty algorithms, ours and the paper's; empty without both."""
    ours = [(grid.column(column).average(), column.title) for column in grid.columns]
    theirs = [(tables.published_average(column, paper.labels()), column.title) for column in grid.columns]
    known = [[(score.mean, title) for score, title in side if score is not None] for side in (ours, theirs)]
    if not all(known):
        return ""
    (mean, best), (published, published_best) = (max(side, key=lambda pair: pair[0]) for side in known)
    return (
        f"The highest average over the thirty algorithms is {mean:.2f}, of {best}; in the paper it is "
        f"{published:.2f}, of {published_best}."
    )


def headline_table(grid: Grid) -> Table:
    """Tabulates the averages of the columns that have scores by algorithm, published or ours, a row for each.

    While cells are missing, also those over the others.
    """
    columns = _leading_first(grid)
    complete, rows = tables.is_complete(grid, columns), []
    groups = {"average_of_algorithms": "Average over 30", "average_of_categories": "Average of 8 categories"}
    if not complete:
        groups[tables.THOSE_RUN] = "Average over those run"
    headings = [Heading(f"{key}_{what}", what, group) for key, group in groups.items() for what in tables.COMPARED]
    headings += [] if complete else [Heading("run", "Run")]
    for column in columns:
        scores = grid.column(column)
        pairs: list[tuple[Entry, Entry]] = [
            (tables.published_average(column, paper.labels()), scores.average()),
            (tables.published_average_of_categories(column), scores.average_of_categories()),
            (tables.published_average(column, scores.runs), scores.average_of_those_run()),
        ]
        cells = [
            cell for theirs, ours in pairs[: len(groups)] for cell in tables.compared(theirs, ours or _partly(scores))
        ]
        cells += [] if complete else [Number(len(scores.runs), tables.SHARE)]
        rows.append(TableRow(column.name, f"{column.title} (rule {column.rule})", cells))
    return Table("headline", "Averages", "System", headings, rows)


def _partly(scores: ColumnScores) -> str:
    """Returns the text that stands for an incomplete average."""
    return f"{len(scores.runs)} of 30 run" if scores.runs else NOT_RUN
