"""The cost of the lower precision of the fused kernels: cells of a grid beside the same cells in float32.

The other cells lie in the folder `float32` beside the grid's own. They are trained without kernels and with full
products, by the same preset and seeds, and enter no other table.
"""

from __future__ import annotations

from narkit.report import paper
from narkit.report.grid import Grid, LeftOut, in_spreads, measured, read_grid
from narkit.report.rendering import Heading, Number, Table, TableRow, markdown
from narkit.report.tables import rules
from narkit.training.record import RunRecord

FOLDER = "float32"
HOW = {"kernels": "plain", "matmul_precision": "highest"}  # as records say it, among the versions

INTRODUCTION = (
    "The same cells trained without kernels and in true float32 (`NARKIT_KERNELS=plain`, "
    "`JAX_DEFAULT_MATMUL_PRECISION=highest`), beside those of the tables above:"
)


def precision_part(grid: Grid) -> list[str]:
    """Writes the lines of the comparison; none without such a folder."""
    if not (grid.folder / FOLDER).is_dir():
        return []
    other = read_grid(grid.folder / FOLDER, systems=grid.systems, empty=True)
    pairs, left_out = {}, list(other.left_out)
    for cell, record in other.cells.items():
        if reason := _misfit(cell, record, grid):
            left_out.append(LeftOut("/".join(cell) + ".json", reason))
        else:
            pairs[cell] = (grid.cells[cell], record)
    remarks = [f"- Left out: {FOLDER}/{one.path}: {one.reason}." for one in left_out]
    if not pairs:
        return remarks
    return [INTRODUCTION, "", markdown(_table(grid, pairs)), *remarks]


def _misfit(cell: tuple[str, str], record: RunRecord, grid: Grid) -> str | None:
    """Says why a cell of the folder cannot be compared; None if it can."""
    if any(record.versions.get(name) != value for name, value in HOW.items()):
        return "not trained in float32"
    return None if cell in grid.cells else "the grid has no such cell to compare it with"


def _table(grid: Grid, pairs: dict[tuple[str, str], tuple[RunRecord, RunRecord]]) -> Table:
    rows = []
    cells = [(system, name) for system in grid.trained for name in paper.labels() if (system.training, name) in pairs]
    for system, name in cells:
        for rule in rules(grid, system):
            scores = [measured(record.test_scores(name, rule)) for record in pairs[system.training, name]]
            difference = scores[0].mean - scores[1].mean
            distance = in_spreads(difference, *scores)
            entries = [*scores, Number(difference, "{:+.2f}"), Number(distance, "{:+.1f}")]
            label = f"{system.title}, {paper.labels()[name]}, rule {rule}"
            rows.append(TableRow(f"{system.training}_{name}_{rule}", label, entries))
    headings = [
        Heading("fused", "fused kernels", scores=True),
        Heading("float32", scores=True),
        Heading("difference"),
        Heading("in_both_spreads", "in both spreads"),
    ]
    return Table("precision", "Precision", "Cell", headings, rows)
