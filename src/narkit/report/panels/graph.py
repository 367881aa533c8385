"""A graph: nodes with their numbers and marks, edges with their weights, pointers as arrows."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from narkit.report.layout import place
from narkit.report.panels import CENTRE, CHANGED, LINE, SOFT, Moment, number, tone
from narkit.report.panels.marks import draw_node, draw_numbers, draw_tag

MOST_WEIGHTS = 40  # written on edges; more hide each other
NODE_POINTS = 10.5  # the radius of a node


def draw_graph_panel(axis: Axes, moment: Moment) -> None:
    """Draws the graph and all hints of its nodes and edges that have a sign there."""
    is_edge = moment.input("adj") != 0
    np.fill_diagonal(is_edge, False)
    positions = place(is_edge) * (1, -1) + (0, 1)
    _draw_edges(axis, moment, positions, is_edge)
    _draw_pointers(axis, moment, positions)
    for node, (x, y) in enumerate(positions):
        draw_node(axis, moment, node, x, y, (2 * NODE_POINTS) ** 2, fontsize=9)
        _write_beside(axis, moment, node, x, y)
    margin = 0.16 + 0.05 * len(moment.signs("value"))
    axis.set(xlim=(-0.2, 1.2), ylim=(-margin - 0.06, 1.26))
    axis.set_axis_off()


def _draw_edges(axis: Axes, moment: Moment, positions: np.ndarray, is_edge: np.ndarray) -> None:
    weights = np.where(is_edge, moment.input("A"), 0.0)
    directed = not np.array_equal(weights, weights.T)
    ends = np.argwhere(is_edge if directed else np.triu(is_edge))
    has_weights = len(np.unique(weights[is_edge])) > 1 and len(ends) <= MOST_WEIGHTS
    taken = [*positions]
    for i, j in ends:
        bend = 0.12 if directed and is_edge[j, i] else 0.0
        _arrow(axis, positions[i], positions[j], LINE, "-|>" if directed else "-", 1.2, bend, 1.0)
        for name, sign in moment.signs("edge").items():
            if moment.values(name)[i, j] == 1:
                if moment.changed(name)[i, j]:
                    _arrow(axis, positions[i], positions[j], CHANGED, "-", 7, bend, 1.1)
                _arrow(axis, positions[i], positions[j], tone(sign), "-", 3.5, bend, 1.2)
        if has_weights:
            at = _free_place(positions[i], positions[j], bend, taken)
            taken.append(at)
            box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
            axis.text(
                at[0], at[1], number(float(weights[i, j])), fontsize=7.5, color=SOFT, **CENTRE, bbox=box, zorder=2.5
            )


def _free_place(a: np.ndarray, b: np.ndarray, bend: float, taken: list[np.ndarray]) -> np.ndarray:
    """Finds a place along an edge that is far from all that is written already."""
    across = np.array([b[1] - a[1], a[0] - b[0]]) * bend
    places = [a + (b - a) * share + across * 2 * share * (1 - share) for share in (0.5, 0.42, 0.58, 0.34, 0.66)]
    return max(places, key=lambda at: min(0.12, min(float(np.hypot(*(at - other))) for other in taken)))


def _draw_pointers(axis: Axes, moment: Moment, positions: np.ndarray) -> None:
    for name, sign in moment.signs("arrow").items():
        changed = moment.changed(name)
        for node, target in enumerate(moment.values(name)):
            if node != target:
                bend = 0.18 if sign.tone else 0.0
                if changed[node]:
                    _arrow(axis, positions[node], positions[target], CHANGED, "-", 6, bend, 1.3)
                _arrow(axis, positions[node], positions[target], tone(sign), "-|>", 2.0, bend, 1.4)


def _arrow(
    axis: Axes, start: np.ndarray, end: np.ndarray, colour: str, style: str, width: float, bend: float, order: float
) -> None:
    shrink = {"shrinkA": NODE_POINTS, "shrinkB": NODE_POINTS, "mutation_scale": 12}
    line = {"arrowstyle": style, "color": colour, "linewidth": width, "connectionstyle": f"arc3,rad={bend}"}
    axis.annotate("", xy=tuple(end), xytext=tuple(start), arrowprops=line | shrink, zorder=order)


def _write_beside(axis: Axes, moment: Moment, node: int, x: float, y: float) -> None:
    """Writes tags above the node and numbers below it."""
    tags = moment.tags().get(node, [])
    widths = [10 + 4.6 * len(name) for name, _ in tags]  # in points, roughly
    for place_of, (name, sign) in enumerate(tags):
        shift = sum(widths[:place_of]) + widths[place_of] / 2 - sum(widths) / 2
        draw_tag(axis, moment, name, sign, (x, y), (shift, 17))
    draw_numbers(axis, moment, node, (x, y))
