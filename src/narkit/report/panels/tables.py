"""Tables of dynamic programming and matrices of paths: one grid per panel, cells that are not known yet left blank."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from narkit.algorithms.meanings import LETTERS
from narkit.report.panels import CENTRE, FAINT, INK, LINE, PASSING, SOFT, Moment, number
from narkit.report.panels.marks import draw_square
from narkit.spec import Kind

ARROWS = ("↖", "↑", "←", "")


def draw_tables_panel(axis: Axes, moment: Moment) -> None:
    """Draws the grid of the first table of numbers; the pointers that belong to it stand small below its numbers."""
    cells = moment.signs("cell")
    main = next((name for name in cells if moment.probe(name).kind is Kind.SCALAR), next(iter(cells)))
    beside = next((name for name in cells if moment.probe(name).kind is not Kind.SCALAR), None)
    rows, columns, is_triangle = _frame(moment)
    known = next((moment.values(name) == 1 for name in moment.signs("blank")), None)
    passing = moment.node("k") if "k" in moment.signs("tag") else -1
    for row in rows:
        for column in columns:
            if is_triangle and column < row:
                continue
            is_known = known is None or bool(known[row, column])
            face = "white" if is_known else FAINT
            if is_known and passing in (row, column):
                face = PASSING
            has_changed = any(bool(moment.changed(name)[row, column]) for name in cells)
            draw_square(axis, column, row, face, LINE, outlined=has_changed)
            if is_known:
                _write(axis, moment, main, beside, row, column, has_changed)
    axis.set_xticks(list(columns), _names(moment, columns), fontsize=7.5)
    axis.set_yticks(list(rows), _names(moment, rows), fontsize=7.5)
    axis.set(xlim=(columns[0] - 0.55, columns[-1] + 0.55), ylim=(rows[-1] + 0.55, rows[0] - 0.55))
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    named = f"{main}, below it {beside}" if beside else main
    axis.set_xlabel(f"{named}; k = {passing}" if passing >= 0 else named, fontsize=8, color=SOFT)


def _frame(moment: Moment) -> tuple[range, range, bool]:
    if "adj" in moment.batch.inputs:
        return range(moment.num_nodes), range(moment.num_nodes), False
    described = moment.drawing
    return range(*described["rows"]), range(*described["columns"]), "triangle" in described


def _names(moment: Moment, nodes: range) -> list[str]:
    if "string" in moment.batch.inputs:
        letters = moment.input("key").argmax(-1)
        return [LETTERS[letters[node]] for node in nodes]
    return [str(node) for node in nodes]


def _write(axis: Axes, moment: Moment, main: str, beside: str | None, row: int, column: int, has_changed: bool) -> None:
    weight = "bold" if has_changed else "normal"
    shift = 0.0 if beside is None else 0.14
    text = number(float(moment.values(main)[row, column]))
    axis.text(column, row - shift, text, **CENTRE, fontsize=7.5, color=INK, fontweight=weight, zorder=3)
    if beside is None:
        return
    value = int(np.asarray(moment.values(beside))[row, column])
    is_arrow = moment.probe(beside).kind is Kind.CATEGORICAL
    small = (ARROWS[value] if value >= 0 else "") if is_arrow else f"→{value}"
    axis.text(column, row + 0.26, small, **CENTRE, fontsize=6, color=SOFT, zorder=3)
