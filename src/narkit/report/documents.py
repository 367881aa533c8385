"""Parts of documents that are written from records: the results in short and in full, and where such a part stands.

A generated part stands between two comments, `<!-- results: begin ... -->` and `<!-- results: end -->`; everything
outside belongs to whoever writes the document.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from narkit.report import paper
from narkit.report.grid import Grid, average
from narkit.report.provenance import cells_left, cells_wanted, origin, remarks
from narkit.report.published import summary
from narkit.report.rendering import Entry, Heading, Number, Table, TableRow, markdown, text
from narkit.report.tables import SHARE, THOSE_RUN, algorithm_table, difference, has_ours, is_complete, published_average
from narkit.sweeps.systems import System

NOT_RUN = "not run yet"
FIGURES = "images"  # below the folder of the page that shows them
CATEGORIES, CURVES = "results_categories", "results_learning_curves"

_BEGIN, _END = "<!-- results: begin", "<!-- results: end -->"
_PART = re.compile(rf"^{_BEGIN}[^\n]*-->\n(.*?)^{_END}$", re.DOTALL | re.MULTILINE)


class DocumentError(ValueError):
    """A document without a place for its generated part."""


def with_part(document: str, part: str, command: str) -> str:
    """The document with its generated part replaced."""
    if len(_PART.findall(document)) != 1:
        raise DocumentError(
            f"expected one line `{_BEGIN} -->` and, below it, one line `{_END}`, got another number of them; put the "
            "two lines where the generated part should stand"
        )
    begin = f"{_BEGIN}; written by `{command}`: change the records, not this -->"
    return _PART.sub(lambda _: f"{begin}\n{part}{_END}", document)


def readme_part(grid: Grid) -> str:
    """The README's results: one small table of averages, and what was reproduced in a sentence."""
    columns = [column for column in grid.columns if has_ours(grid, column)]
    lines = ["| System | Ours | Published | Difference |", "| --- | ---: | ---: | ---: |"]
    for column in columns:
        scores, theirs = grid.column(column), published_average(column, paper.labels())
        ours: Entry = scores.average() or (f"{len(scores.runs)} of 30 run" if scores.runs else NOT_RUN)
        cells = [text(cell) for cell in (ours, theirs, difference(theirs, ours))]
        lines.append(f"| {column.title} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_found(grid, columns), ""])


def _found(grid: Grid, columns: Sequence[System]) -> list[str]:
    """What was reproduced and what was not, in words, for columns that are complete and published by algorithm."""
    reached, missed = [], []
    for column in columns:
        ours, theirs = grid.column(column).average(), published_average(column, paper.labels())
        if ours is None or theirs is None:
            continue
        # Two standard errors of our average: below that by more than chance.
        error = (ours.std or 0.0) / math.sqrt(ours.seeds or 1)
        (reached if ours.mean >= theirs.mean - 2 * error else missed).append(column.title)
    averages = {column.title: grid.column(column).average() for column in columns}
    complete = {title: average.mean for title, average in averages.items() if average is not None}
    sentences = [
        "Averages over the thirty algorithms on the official test split, 64 nodes, in percent: mean ± standard "
        "deviation over seeds (number of seeds)."
    ]
    if len(complete) > 1:
        best = max(complete, key=complete.__getitem__)
        sentences.append(f"Found: {best} is best, with {complete[best]:.2f}.")
    sentences += [_so_far(grid, column, best) for column in columns for best in _best_on(grid, column, columns)]
    if reached:
        sentences.append(f"Reproduced, or better: {', '.join(reached)}.")
    if missed:
        sentences.append(f"Not reproduced: {', '.join(missed)}.")
    return [" ".join(sentences)]


def _best_on(grid: Grid, partial: System, columns: Sequence[System]) -> list[System]:
    """Of a column that is not complete yet: the complete one that is best on its algorithms, if there is one."""
    names = list(grid.column(partial).runs)
    if not names or grid.column(partial).average() is not None:
        return []
    complete = [column for column in columns if grid.column(column).average() is not None]
    return sorted(complete, key=lambda column: -_mean_over(grid, column, names))[:1]


def _so_far(grid: Grid, partial: System, best: System) -> str:
    names = list(grid.column(partial).runs)
    ours, theirs = (f"{_mean_over(grid, column, names):.2f}" for column in (partial, best))
    return (
        f"So far {partial.title} has {ours} on average over the {len(names)} algorithms that it was run on, where "
        f"{best.title}, the best of the others there, has {theirs}."
    )


def _mean_over(grid: Grid, column: System, names: Sequence[str]) -> float:
    runs = grid.column(column).runs
    return average([runs[name] for name in names]).mean


def results_part(grid: Grid) -> str:
    """The results in full: averages, all thirty algorithms, and the figures once there are records."""
    left = cells_left(grid)
    parts = [markdown(headline_table(grid))]
    parts += [
        *([] if left else [highest_averages(grid), ""]),
        "Micro-F1 on the official test split in percent: mean ± standard deviation over seeds (number of seeds; the "
        "paper does not say it for the column that it cites). Each column has one selection rule, fixed before "
        "anything was run."
        + (" The average over those run compares the same algorithms on both sides." if left else ""),
        "",
        markdown(algorithm_table(grid), not_run=NOT_RUN),
    ]
    if grid.cells:
        parts += [f"![Test scores by category beside the paper's]({FIGURES}/{CATEGORIES}.png)", ""]
        parts += [f"![Learning curves by algorithm]({FIGURES}/{CURVES}.png)", ""]
    parts += [f"- {line}" for line in remarks(grid)] + ([""] if remarks(grid) else [])
    parts += [origin(grid) + (f" {left} of {cells_wanted(grid)} cells are {NOT_RUN}." if left else ""), ""]
    return "\n".join(parts)


def highest_averages(grid: Grid) -> str:
    """Which column has the highest average over the thirty algorithms, ours and in the paper; empty without both."""
    ours, theirs = {}, {}
    for column in grid.columns:
        score, published = grid.column(column).average(), published_average(column, paper.labels())
        if score is not None:
            ours[column.title] = score.mean
        if published is not None:
            theirs[column.title] = published.mean
    found = [(means[best], best) for means in (ours, theirs) if means for best in [max(means, key=means.__getitem__)]]
    if len(found) < 2:
        return ""
    (mean, best), (published_mean, published_best) = found
    return (
        f"The highest average over the thirty algorithms is {mean:.2f}, of {best}; in the paper it is "
        f"{published_mean:.2f}, of {published_best}."
    )


def headline_table(grid: Grid) -> Table:
    """The averages of the columns that have scores by algorithm, published or ours, a row for each.

    While cells are missing, also those over the others.
    """
    columns = [column for column in grid.columns if has_ours(grid, column)]
    complete = is_complete(grid, columns)
    rows = []
    for column in columns:
        scores, theirs = grid.column(column), summary(column)
        pairs: list[tuple[Entry, Entry]] = [
            (published_average(column, paper.labels()), scores.average()),
            (
                theirs and paper.Score(theirs.average_of_categories, None, theirs.seeds),
                scores.average_of_categories(),
            ),
        ]
        if not complete:
            pairs.append((published_average(column, scores.runs), scores.average_of_those_run()))
        partly = f"{len(scores.runs)} of 30 run" if scores.runs else NOT_RUN
        cells = [cell for other, ours in pairs for cell in (other, ours or partly, difference(other, ours))]
        if not complete:
            cells.append(Number(len(scores.runs), SHARE))
        rows.append(TableRow(column.name, f"{column.title} (rule {column.rule})", cells))
    groups = {"average_of_algorithms": "Average over 30", "average_of_categories": "Average of 8 categories"}
    if not complete:
        groups[THOSE_RUN] = "Average over those run"
    headings = [
        heading
        for key, group in groups.items()
        for heading in (
            Heading(f"{key}_paper", "paper", group),
            Heading(f"{key}_ours", "ours", group),
            Heading(f"{key}_difference", "difference", group),
        )
    ]
    if not complete:
        headings.append(Heading("run", "Run"))
    return Table("headline", "Averages", "System", headings, rows)
