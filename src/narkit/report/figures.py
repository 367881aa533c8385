"""The figures of a report: categories beside the paper's, and the learning curves of all thirty algorithms.

They are drawn on a white card, with dark letters, so that they read alike on paper, on a light and on a dark page.
Colours are Okabe and Ito's, which colour-blind people tell apart. The same records always give the same files: ids are
not random, and neither dates nor versions are written into them.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure  # without pyplot: no window, no global state
from matplotlib.lines import Line2D

from narkit.report import paper
from narkit.report.grid import Grid, category_members
from narkit.report.paper import Score
from narkit.report.published import algorithm_scores, category_scores, summary
from narkit.sweeps.systems import System
from narkit.training.record import RunRecord

INK, FAINT, CARD = "#1f2430", "#6b7280", "#ffffff"
FREE_COLOURS = ("#CC79A7", "#E69F00", "#56B4E9", "#8a7a00", "#5b5b5b")  # Okabe and Ito's, the yellow darkened
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # letters stay letters
    "svg.hashsalt": "narkit",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": CARD,
    "axes.facecolor": CARD,
    "savefig.facecolor": CARD,
}


def style() -> contextlib.AbstractContextManager[None]:
    """Draws in the style of a report."""
    return matplotlib.rc_context(STYLE)


def save(figure: Figure, path: Path, digest: str, suffixes: Sequence[str] = (".png", ".svg")) -> None:
    """Writes PATH.png and PATH.svg, with the digest of the records in both: it tells whether they are up to date."""
    metadata = {
        ".png": {"Software": None, "Description": digest},
        ".svg": {"Date": None, "Creator": None, "Description": digest},
    }
    with style():
        for suffix in suffixes:
            figure.savefig(path.with_suffix(suffix), dpi=150, metadata=metadata[suffix])


def digest_of(path: Path) -> str | None:
    """Returns the digest of the records that a PNG file was drawn from."""
    found = re.search(rb"tEXtDescription\0([0-9a-f]{12})", path.read_bytes())
    return found[1].decode() if found else None


def colours(grid: Grid) -> dict[str, str]:
    """Returns the colour of every system: its own, or the next one that is free."""
    free = itertools.cycle(FREE_COLOURS)
    return {system.name: system.colour or next(free) for system in grid.systems}


def category_chart(grid: Grid) -> Figure:
    """Draws a row of bars for each column with scores by algorithm, ours beside the paper's; a dot is an algorithm."""
    columns = [column for column in grid.columns if algorithm_scores(column) or grid.records(column)]
    with style():
        figure = Figure(figsize=(11, 1 + 2.2 * len(columns)), layout="constrained")
        axes = figure.subplots(len(columns), 1, sharex=True, squeeze=False)[:, 0]
        for axis, column in zip(axes, columns, strict=True):
            _draw_categories(axis, grid, column, colours(grid)[column.name])
            axis.tick_params(axis="x", length=0)
        names = [name.replace(" and ", " and\n").replace("dynamic ", "dynamic\n") for name in category_members()]
        axes[-1].set_xticks(range(9), [*names, "average of\nthe 8"])
        figure.suptitle(
            "CLRS-30 test scores by category in %: pale bars are the paper's, full bars ours, a dot is an algorithm",
            fontsize=10,
        )
    return figure


def _draw_categories(axis: Axes, grid: Grid, column: System, colour: str) -> None:
    scores, published = grid.column(column), category_scores(column)
    rows, whole = algorithm_scores(column), summary(column)
    for place, (category, members) in enumerate(category_members().items()):
        run = [name for name in members if name in scores.runs]
        _dots(axis, place - 0.2, [rows[name].mean for name in members if name in rows])
        _dots(axis, place + 0.2, [float(np.mean(scores.runs[name])) for name in run])
        theirs = published[category].mean if published else None
        _two_bars(axis, place, theirs, scores.category(category), (len(run), len(members)), colour)
    theirs = whole and whole.average_of_categories
    _two_bars(axis, 8, theirs, scores.average_of_categories(), (len(scores.runs), 30), colour)
    axis.axvline(7.5, color=FAINT, linewidth=0.6, linestyle=":")
    axis.set(ylim=(0, 116), xlim=(-0.55, 8.55), yticks=[0, 50, 100])
    counts = sorted({len(run) for run in scores.runs.values()})
    seeds = f", {' or '.join(map(str, counts))} seeds" if counts else ""
    axis.set_title(f"{column.title} (ours: rule {column.rule}{seeds})", color=colour, loc="left", fontweight="bold")


def _two_bars(
    axis: Axes, place: int, theirs: float | None, ours: Score | None, run: tuple[int, int], colour: str
) -> None:
    """Draws the paper's mean beside ours; if ours is missing, it says how many algorithms of how many were run."""
    if theirs is not None:
        _bar(axis, place - 0.2, theirs, colour, pale=True)
    if ours is not None:
        _bar(axis, place + 0.2, ours.mean, colour)
    else:
        words = "{} of {} run".format(*run) if run[0] else "not run"
        axis.text(place + 0.2, 3, words, ha="center", va="bottom", rotation=90, fontsize=7.5, color=FAINT)


def _bar(axis: Axes, place: float, height: float, colour: str, *, pale: bool = False) -> None:
    axis.bar(place, height, 0.36, color=colour, alpha=0.3 if pale else 1.0, linewidth=0)
    # Above all dots, so that none hides a number.
    colour, weight = (FAINT, "normal") if pale else (INK, "bold")
    axis.text(place, 105, f"{height:.1f}", ha="center", va="bottom", fontsize=8, color=colour, fontweight=weight)


def _dots(axis: Axes, place: float, heights: list[float]) -> None:
    if len(heights) > 1:
        spread = np.linspace(-0.12, 0.12, len(heights))
        axis.scatter(place + spread, heights, s=9, color=CARD, edgecolors=INK, linewidths=0.7, zorder=3)


def learning_curves(grid: Grid, validation: str = "ood") -> Figure:
    """Draws the validation scores of every training over the steps: mean, and smallest to largest over seeds."""
    columns, colour = _curve_columns(grid, validation), colours(grid)
    with style():
        figure = Figure(figsize=(13, 11), layout="constrained")
        axes = figure.subplots(6, 5, sharex=True, sharey=True)
        for axis, (algorithm, label) in zip(axes.flat, paper.labels().items(), strict=True):
            axis.set_title(label, fontsize=9)
            axis.set(ylim=(0, 104), yticks=[0, 50, 100])
            axis.grid(axis="y", color="#e5e7eb", linewidth=0.6)
            records = [(column, grid.cells.get((column.training, algorithm))) for column in columns]
            absent = [_short(column) for column, record in records if record is None]
            for column, record in records:
                if record is not None:
                    _draw_curve(axis, record, colour[column.name], validation)
            if absent:
                words, height = "not run yet", 0.5
                if len(absent) < len(columns):
                    words = textwrap.fill(f"{', '.join(absent)}: not run", 30)
                    low = max(line.get_ydata().max() for line in axis.lines) < 50  # so there is room above the curves
                    height = 0.5 if low else 0.04
                axis.text(0.5, height, words, transform=axis.transAxes, ha="center", color=FAINT, fontsize=8)
        longest = max((record.steps for record in grid.cells.values()), default=10_000)
        axes[-1, -1].set_xticks([0, longest / 2, longest], ["0", f"{longest // 2:,}", f"{longest:,}"])
        figure.suptitle(_curve_title(grid, validation), fontsize=10, x=0.01, ha="left")
        lines = [Line2D([], [], color=colour[c.name], label=_short(c), linewidth=2) for c in columns]
        place = "outside lower center"
        figure.legend(handles=lines, loc=place, ncols=max(2, len(lines)), labelcolor="linecolor", frameon=False)
    return figure


def _curve_columns(grid: Grid, validation: str) -> list[System]:
    """Returns the trainings that a curve is drawn of, each under its last column, the last of the table first.

    These are the columns with scores by algorithm, in print or ours.
    """
    columns = {
        column.training: column
        for column in grid.columns
        if algorithm_scores(column) or any(_has(record, validation) for record in grid.records(column).values())
    }
    return list(columns.values())[::-1]


def _has(record: RunRecord, validation: str) -> bool:
    return any(each.name == validation for each in record.config.validations)


def _short(column: System) -> str:
    """Returns a column's title without its selection rule, which changes nothing about a curve."""
    return column.title.split(" +")[0]


def _curve_title(grid: Grid, validation: str) -> str:
    sizes = {v.size for record in grid.cells.values() for v in record.config.validations if v.name == validation}
    of_size = f" at size {' or '.join(map(str, sorted(sizes)))}" if sizes else ""
    return f"Validation score{of_size} of raw weights in % over training steps: mean of the seeds, lowest to highest"


def _draw_curve(axis: Axes, record: RunRecord, colour: str, validation: str) -> None:
    if not _has(record, validation):
        return
    steps = [point.step for point in record.curve]
    # A seed that has diverged may have no score; JSON writes it as null.
    scores = 100 * np.array([point.scores[validation] for point in record.curve], dtype=float)
    with np.errstate(all="ignore"):
        known = np.isfinite(scores).any(axis=1)
        mean, low, high = (f(scores[known], axis=1) for f in (np.nanmean, np.nanmin, np.nanmax))
    shown = np.array(steps)[known]
    axis.fill_between(shown, low, high, color=colour, alpha=0.18, linewidth=0)
    axis.plot(shown, mean, color=colour, linewidth=1.3)
