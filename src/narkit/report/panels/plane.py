"""Points in the plane, with the hull or the stack, and the lines that are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from narkit.report.drawings import LINES
from narkit.report.panels import CHANGED, FILL, INK, LINE, SOFT, TONES, Moment, number, tone

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_points_panel(axis: Axes, moment: Moment) -> None:
    """Draws points, segments, the hull found so far, pointers along a stack, tags and numbers."""
    x, y = moment.input("x"), moment.input("y")
    if moment.batch.algorithm == "segments_intersect":
        for ends in ([0, 1], [2, 3]):
            axis.plot(x[ends], y[ends], color=SOFT, linewidth=1.6, zorder=1)
    _draw_hull(axis, moment, x, y)
    for line in LINES.get(moment.batch.algorithm, []):
        ends = [moment.node(line["from"]), moment.node(line["to"])]
        is_dotted = line["style"] == "dotted"
        style: dict[str, Any] = {"color": TONES[1], "linewidth": 2.2}
        if is_dotted:
            style = {"color": SOFT, "linestyle": ":"}
        axis.plot(x[ends], y[ends], zorder=1.5, **style)
    for name, sign in moment.signs("arrow").items():
        for node, target in enumerate(moment.values(name)):
            if node != target:
                arrow = {"arrowstyle": "-|>", "color": tone(sign), "linewidth": 1.6, "shrinkA": 7, "shrinkB": 7}
                axis.annotate("", (x[target], y[target]), (x[node], y[node]), arrowprops=arrow, zorder=2)
    for node in range(moment.num_nodes):
        _draw_point(axis, moment, node, x[node], y[node])
    span = max(float(np.ptp(x)), float(np.ptp(y)), 1e-9)
    centre = ((x.max() + x.min()) / 2, (y.max() + y.min()) / 2)
    half = 0.72 * span
    axis.set(xlim=(centre[0] - half, centre[0] + half), ylim=(centre[1] - half, centre[1] + half), aspect="equal")
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set_color(LINE)


def _draw_hull(axis: Axes, moment: Moment, x: np.ndarray, y: np.ndarray) -> None:
    """The corners in the order in which they were found."""
    if "in_hull_h" not in moment.batch.hints or "stack_prev" in moment.batch.hints:
        return
    marks = moment.batch.hints["in_hull_h"][: moment.step + 1, 0]
    corners = np.flatnonzero(marks[-1])
    found = corners[np.argsort(marks[:, corners].argmax(axis=0), kind="stable")]
    axis.plot(x[found], y[found], color=TONES[0], linewidth=1.8, zorder=1.2)


def _draw_point(axis: Axes, moment: Moment, node: int, x: float, y: float) -> None:
    fill = any(moment.values(name)[node] == 1 for name in moment.signs("fill"))
    changed = any(moment.changed(name)[node] for name in moment.signs("fill", "ring"))
    if changed:
        axis.scatter(x, y, s=340, c=CHANGED, zorder=2.4)
        axis.scatter(x, y, s=240, c="white", zorder=2.5)
    for name, sign in moment.signs("ring").items():
        if moment.values(name)[node] == 1:
            axis.scatter(x, y, s=290, facecolors="none", edgecolors=tone(sign), linestyles=":", zorder=2.6)
    axis.scatter(x, y, s=190, c=FILL if fill else "white", edgecolors=INK, zorder=3)
    axis.text(x, y, str(node), ha="center", va="center", fontsize=7.5, color=INK, zorder=4)
    tags = moment.tags().get(node, [])
    everything = moment.input("y")
    is_high = y > everything.min() + 0.6 * np.ptp(everything)  # there tags go below, so that they stay in the panel
    up = -1 if is_high else 1
    for place, (name, sign) in enumerate(tags):
        edge = {"edgecolor": CHANGED, "linewidth": 1.6} if moment.has_moved(name) else {"edgecolor": "none"}
        box = {"boxstyle": "round,pad=0.2", "facecolor": tone(sign), **edge}
        axis.annotate(
            name, (x, y), xytext=(0, up * (15 + 13 * place)), textcoords="offset points", fontsize=7, color="white",
            ha="center", va="center", fontweight="bold", bbox=box, zorder=5,
        )  # fmt: skip
    for line, name in enumerate(moment.signs("value")):
        axis.annotate(
            f"{name} {number(moment.values(name)[node])}", (x, y), xytext=(0, -up * (14 + 9 * line)), fontsize=7,
            textcoords="offset points", ha="center", va="center", zorder=4,
            fontweight="bold" if moment.changed(name)[node] else "normal",
        )  # fmt: skip
