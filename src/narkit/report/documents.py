"""Parts of documents that are written from records: the README's results, and the marks where any such part stands.

A generated part stands between two comments, `<!-- results: begin ... -->` and `<!-- results: end -->`; everything
outside belongs to whoever writes the document.
"""

from __future__ import annotations

import re

from narkit.report import paper
from narkit.report.grid import Grid
from narkit.report.provenance import cells_left, cells_wanted, origin, remarks
from narkit.report.published import summary
from narkit.report.rendering import Cell, Heading, Number, Row, Table, markdown
from narkit.report.tables import SHARE, THOSE_RUN, algorithm_table, difference, has_ours, is_complete, published_average

NOT_RUN = "not run yet"
FIGURES = "docs/images"  # below the README's folder
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
    """The README's results: averages, all thirty algorithms, and the figures once there are records."""
    left = cells_left(grid)
    parts = [origin(grid) + (f" {left} of {cells_wanted(grid)} cells are {NOT_RUN}." if left else ""), ""]
    parts += [markdown(headline_table(grid))]
    parts += [
        *([] if left else [highest_averages(grid), ""]),
        "Micro-F1 on the official test split in percent: mean ± standard deviation over seeds (number of seeds; the "
        "paper does not say it for the column that it cites). Each column has one selection rule, fixed before "
        "anything was run."
        + (" The average over those run compares the same algorithms on both sides." if left else ""),
        "",
        "<details><summary>All thirty algorithms</summary>",
        "",
        markdown(algorithm_table(grid), not_run=NOT_RUN),
        "</details>",
        "",
    ]
    if grid.cells:
        parts += [f"![Test scores by category beside the paper's]({FIGURES}/{CATEGORIES}.png)", ""]
        parts += [f"![Learning curves by algorithm]({FIGURES}/{CURVES}.png)", ""]
    parts += [f"- {line}" for line in remarks(grid)] + ([""] if remarks(grid) else [])
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
        pairs: list[tuple[Cell, Cell]] = [
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
        rows.append(Row(column.name, f"{column.title} (rule {column.rule})", cells))
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
