"""Points in the plane, with the hull or the stack, and the lines that are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from narkit.report.panels import LINE, SOFT, TONES, Moment, tone
from narkit.report.panels.marks import draw_node, draw_numbers, draw_tag


def draw_points_panel(axis: Axes, moment: Moment) -> None:
    """Draws points, segments, the hull found so far, pointers along a stack, tags and numbers."""
    x, y, described = moment.input("x"), moment.input("y"), moment.drawing
    for ends in described["segments"]:
        axis.plot(x[ends], y[ends], color=SOFT, linewidth=1.6, zorder=1)
    _draw_hull(axis, moment, x, y)
    for line in described["lines"]:
        ends = [moment.node(line["from"]), moment.node(line["to"])]
        solid: dict[str, Any] = {"color": TONES[1], "linewidth": 2.2}
        dotted: dict[str, Any] = {"color": SOFT, "linestyle": ":"}
        axis.plot(x[ends], y[ends], zorder=1.5, **(dotted if line["style"] == "dotted" else solid))
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
    """Draws the corners in the order in which they were found."""
    if "in_hull_h" not in moment.batch.hints or "stack_prev" in moment.batch.hints:
        return
    marks = moment.batch.hints["in_hull_h"][: moment.step + 1, 0]
    corners = np.flatnonzero(marks[-1])
    found = corners[np.argsort(marks[:, corners].argmax(axis=0), kind="stable")]
    axis.plot(x[found], y[found], color=TONES[0], linewidth=1.8, zorder=1.2)


def _draw_point(axis: Axes, moment: Moment, node: int, x: float, y: float) -> None:
    draw_node(axis, moment, node, x, y, area=190, fontsize=7.5)
    everything = moment.input("y")
    is_high = y > everything.min() + 0.6 * np.ptp(everything)  # there tags go below, so that they stay in the panel
    for place, (name, sign) in enumerate(moment.tags().get(node, [])):
        distance = 15 + 13 * place
        draw_tag(axis, moment, name, sign, (x, y), (0, -distance if is_high else distance))
    draw_numbers(axis, moment, node, (x, y), below=not is_high)
