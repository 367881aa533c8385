"""Draws a run: one panel per step, in the drawing that fits the algorithm, with a legend of every sign.

Everything can be checked by eye: weights stand on edges, distances at nodes, phases and categories have their names.
What has changed since the step before has an amber outline.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure  # without pyplot: no window, no global state

from narkit import files
from narkit.data.batch import Batch
from narkit.errors import InstanceError
from narkit.report.drawings import ARRAY, GRAPH, INTERVALS, POINTS, STRINGS, TABLE, drawing_kind
from narkit.report.panels import Moment
from narkit.report.panels.graph import draw_graph_panel
from narkit.report.panels.legend import LegendSign, LegendSignHandler, legend_entries
from narkit.report.panels.plane import draw_points_panel
from narkit.report.panels.rows import draw_array_panel, draw_intervals_panel, draw_strings_panel
from narkit.report.panels.tables import draw_tables_panel
from narkit.spec import ALGORITHMS

FORMATS = (".png", ".svg", ".pdf")
MOST_PANELS = 12  # of longer runs only so many steps are drawn, at even distances
PANELS = {  # how to draw one, its width and height in inches at five nodes, what a further node adds, panels in a row
    GRAPH: (draw_graph_panel, 2.9, 2.8, 0.12, 0.12, 4),
    ARRAY: (draw_array_panel, 2.5, 2.1, 0.22, 0.0, 4),
    INTERVALS: (draw_intervals_panel, 3.0, 1.9, 0.0, 0.12, 4),
    STRINGS: (draw_strings_panel, 2.6, 2.0, 0.2, 0.06, 3),
    POINTS: (draw_points_panel, 2.9, 2.8, 0.06, 0.06, 4),
    TABLE: (draw_tables_panel, 2.7, 2.5, 0.32, 0.24, 3),
}


def save_picture(batch: Batch, path: Path) -> None:
    """Draws the first run of a raw batch and writes the picture in the format that the name ends in."""
    check_picture(path)
    figure = draw(batch)
    with files.replacing(path) as file:
        figure.savefig(file, dpi=150, format=path.suffix[1:])


def check_picture(path: Path) -> None:
    """Raises where a picture cannot be written, before anything is drawn."""
    if path.suffix not in FORMATS:
        raise InstanceError(f"expected a name that ends in {', '.join(FORMATS)}, got {path.name!r}")
    files.check_place(path)


def draw(batch: Batch) -> Figure:
    """Draws the steps of a run, at most twelve of them, and the meaning of all that is drawn."""
    entry = ALGORITHMS[batch.algorithm]
    steps = shown_steps(int(batch.lengths[0]))
    kind = _panel_kind(batch)
    _, width, height, wider, higher, columns = PANELS[kind]
    further = max(0, batch.num_nodes - 5)
    columns = _balanced(len(steps), columns)
    rows = -(-len(steps) // columns)
    entries = legend_entries(batch, as_table=kind == TABLE)
    legend_height = 0.18 * sum(1 + text.count("\n") for _, text in entries) + 0.05 * len(entries) + 0.2
    panel = (width + wider * further, height + higher * further)
    full_width = max(7.5, columns * panel[0])
    figure = Figure(figsize=(full_width, rows * panel[1] + 0.45 + legend_height), layout="constrained")
    drawing, words = figure.subfigures(2, 1, squeeze=False, height_ratios=[rows * panel[1] + 0.45, legend_height])[:, 0]
    axes = drawing.subplots(rows, columns, squeeze=False).flatten()
    for axis, step in zip(axes, steps, strict=False):
        draw_panel(axis, batch, step)
    for axis in axes[len(steps) :]:
        axis.set_axis_off()
    left_out = "" if len(steps) == batch.lengths[0] else f": {len(steps)} of {batch.lengths[0]} steps"
    title = f"{entry.summary.rstrip('.')}{left_out}"
    drawing.suptitle(title if len(title) < 10 * full_width else entry.name + left_out, fontsize=12, fontweight="bold")
    words.legend(
        *zip(*entries, strict=True), loc="center", frameon=False, fontsize=9, ncols=1, handlelength=2.2,
        handler_map={LegendSign: LegendSignHandler()}, alignment="left",
    )  # fmt: skip
    return figure


def _balanced(panels: int, most: int) -> int:
    """Returns how many panels stand in a row, at most `most`: the number that leaves the fewest places empty."""
    fewest = max(1, most - 1)
    return min(panels, min(range(most, fewest - 1, -1), key=lambda columns: -panels % columns))


def shown_steps(count: int) -> list[int]:
    """Selects the steps of a run that are drawn: all, or some at even distances with the first and the last."""
    if count <= MOST_PANELS:
        return list(range(count))
    return [int(step) for step in np.unique(np.linspace(0, count - 1, MOST_PANELS).round())]


def draw_panel(axis: Axes, batch: Batch, step: int) -> None:
    """Draws a batch's first run as it is at one step."""
    moment = Moment(batch, step)
    draw_kind, *_ = PANELS[_panel_kind(batch)]
    draw_kind(axis, moment)
    axis.set_title("\n".join([f"step {step + 1}", *moment.facts()]), fontsize=9)


def draw_graph(axis: Axes, batch: Batch, step: int) -> None:
    """Draws the graph of a batch's first run as it is at one step."""
    draw_graph_panel(axis, Moment(batch, step))
    axis.set_title(f"step {step + 1}")


def _panel_kind(batch: Batch) -> str:
    """Returns the kind of panel. Graphs whose hints are matrices, as in all shortest paths, are drawn as these."""
    kind = drawing_kind(ALGORITHMS[batch.algorithm])
    return TABLE if kind == GRAPH and Moment(batch, 0).signs("cell") else kind
