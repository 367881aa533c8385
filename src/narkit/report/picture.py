"""Draws a run: the graph at every step where there is one, and every hint over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from narkit.data.batch import Batch
from narkit.errors import InstanceError
from narkit.spec import Kind, Location, Stage, stage_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
GRAPHS_PER_ROW = 6
LARGEST_GRAPH = 12  # more nodes, or more steps, than this make the small graphs unreadable
INK, FAINT, REACHED, POINTER = "#1f2430", "#c9ced6", "#ffd166", "#d1495b"


def save_picture(batch: Batch, path: Path) -> None:
    """Draws the first run of a raw batch and writes the picture in the format that the name ends in."""
    if path.suffix not in FORMATS:
        raise InstanceError(f"expected a name that ends in {', '.join(FORMATS)}, got {path.name!r}")
    figure = draw(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def draw(batch: Batch) -> Figure:
    """The graph step by step if that is readable, else a time chart for every hint of the nodes."""
    from matplotlib.figure import Figure  # without pyplot: no window, no global state

    steps = int(batch.lengths[0])
    if "adj" in batch.inputs and max(batch.num_nodes, steps) <= LARGEST_GRAPH:
        rows = -(-steps // GRAPHS_PER_ROW)
        columns = min(steps, GRAPHS_PER_ROW)
        figure = Figure(figsize=(2.7 * columns, 2.9 * rows + 0.7), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for step, axis in enumerate(axes):
            draw_graph(axis, batch, step) if step < steps else axis.set_axis_off()
        figure.suptitle(f"{batch.algorithm}\n{_legend(batch)}", fontsize=10)
        return figure
    charts = _time_charts(batch)
    figure = Figure(figsize=(7, 0.8 + 1.6 * len(charts)), layout="constrained")
    for axis, (name, chart) in zip(
        figure.subplots(len(charts), 1, squeeze=False).flatten(), charts.items(), strict=True
    ):
        extent = (0.5, len(chart) + 0.5, chart.shape[1] - 0.5, -0.5)  # steps count from 1, as in `narkit data show`
        axis.imshow(chart.T, aspect="auto", cmap="viridis", interpolation="nearest", extent=extent)
        axis.set_ylabel(name)
    figure.suptitle(f"{batch.algorithm}: hints over time, one row per node")
    figure.supxlabel("step")
    return figure


def _node_hint(batch: Batch, *kinds: Kind) -> str | None:
    """The first hint of one of these kinds that is given per node."""
    hints = stage_of(batch.spec, Stage.HINT)
    return next((n for n, p in hints.items() if p.location is Location.NODE and p.kind in kinds), None)


def _legend(batch: Batch) -> str:
    mask, pointer = _node_hint(batch, Kind.MASK), _node_hint(batch, Kind.POINTER)
    parts = [f"yellow: {batch.spec[mask].meaning}"] if mask else []
    parts += [f"arrows: {batch.spec[pointer].meaning}"] if pointer else []
    return "; ".join(parts)


def draw_graph(axis: Axes, batch: Batch, step: int) -> None:
    """Draws the graph of a batch's first run as it is at one step."""
    count = batch.num_nodes
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    x, y = np.cos(angles), np.sin(angles)
    adjacency = batch.inputs["adj"][0]
    style = "-" if np.array_equal(adjacency, adjacency.T) else "-|>"
    for i, j in np.argwhere(adjacency):
        if i != j:
            line = {"arrowstyle": style, "color": FAINT, "linewidth": 1.2, "shrinkA": 9, "shrinkB": 9}
            axis.annotate("", xy=(x[j], y[j]), xytext=(x[i], y[i]), arrowprops=line, zorder=1)
    mask, pointer = _node_hint(batch, Kind.MASK), _node_hint(batch, Kind.POINTER)
    if pointer is not None:
        for i, j in enumerate(batch.hints[pointer][step, 0]):
            if i != j:
                arrow = {"arrowstyle": "-|>", "color": POINTER, "linewidth": 1.8, "shrinkA": 9, "shrinkB": 9}
                axis.annotate("", xy=(x[j], y[j]), xytext=(x[i], y[i]), arrowprops=arrow, zorder=2)
    marked = batch.hints[mask][step, 0] == 1 if mask is not None else np.zeros(count, bool)
    axis.scatter(x, y, s=260, c=[REACHED if m else "white" for m in marked], edgecolors=INK, zorder=3)
    for i in range(count):
        axis.text(x[i], y[i], str(i), ha="center", va="center", fontsize=9, color=INK, zorder=4)
    axis.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal", title=f"step {step + 1}")
    axis.set_axis_off()


def _time_charts(batch: Batch) -> dict[str, np.ndarray]:
    """For every hint of the nodes an array (step, node)."""
    charts = {}
    for name, probe in stage_of(batch.spec, Stage.HINT).items():
        if probe.location is Location.NODE and not probe.constant:
            values = batch.hints[name][: batch.lengths[0], 0]
            charts[name] = values.argmax(-1) if probe.kind is Kind.CATEGORICAL else values
    if not charts:  # only edges or the graph have hints: one chart of everything, flattened
        charts = {
            name: batch.hints[name][: batch.lengths[0], 0].reshape(batch.lengths[0], -1)
            for name in stage_of(batch.spec, Stage.HINT)
        }
    return charts
