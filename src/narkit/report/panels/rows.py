"""Arrays as bars with pointers below, activities as intervals, strings as rows of cells."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from narkit.algorithms.meanings import LETTERS
from narkit.report.panels import CENTRE, CHANGED, FAINT, INK, LINE, SOFT, TONES, Moment, number, tone
from narkit.report.panels.marks import draw_square, draw_tag

BAR = "#a9bdd8"


def draw_array_panel(axis: Axes, moment: Moment) -> None:
    """Draws bars in the order in which the array stands, the names of pointers below them, parts as brackets."""
    described = moment.drawing
    heights = np.array(described["heights"])
    nodes = _order(moment)
    slots = {node: slot for slot, node in enumerate(nodes)}
    span = max(heights.max(), 0) - min(heights.min(), 0) or 1.0
    low = min(heights.min(), 0)
    filled = next((moment.values(name) == 1 for name in moment.signs("fill")), np.zeros(len(heights), bool))
    moved = moment.signs("order", "fill")
    changed = np.any([moment.changed(name) for name in moved], axis=0) if moved else np.zeros(len(heights), bool)
    for node, slot in slots.items():
        outline = {"edgecolor": CHANGED, "linewidth": 2} if changed[node] else {}
        axis.bar(slot, heights[node], width=0.7, color=TONES[0] if filled[node] else BAR, zorder=2, **outline)
        axis.text(slot, max(heights[node], 0) + 0.03 * span, number(heights[node]), ha="center", fontsize=7)
        below = [str(node), *(f"{name} {number(values[node])}" for name, values in described["below"].items())]
        axis.text(slot, low - 0.05 * span, "\n".join(below), ha="center", va="top", fontsize=7, color=SOFT)
    lines = 1 + len(described["below"])
    depth = low - (0.14 + 0.1 * lines) * span
    for node, tags in moment.tags().items():
        for place, (name, sign) in enumerate(tags):
            draw_tag(axis, moment, name, sign, (slots[node], depth - 0.13 * span * place))
    deepest = moment.deepest_tags()
    depth -= 0.13 * span * deepest
    for place, window in enumerate(described["windows"]):
        first, last = (slots[moment.node(window[end])] for end in ("first", "last"))
        _bracket(axis, first, last, depth - 0.13 * span * place, 0.04 * span, TONES[place])
    depth -= 0.13 * span * len(described["windows"])
    if described["line"] is not None:
        axis.axhline(described["line"], color=TONES[3], linestyle="--", linewidth=1.2, zorder=3)
    tops = {node: (slot, max(heights[node], 0) + 0.12 * span) for node, slot in slots.items()}
    for name, sign in moment.signs("arrow").items():
        _arcs(axis, moment.values(name), tone(sign), tops)
    axis.axhline(0, color=SOFT, linewidth=0.8)
    top = max(heights.max(), 0) + (0.45 if moment.signs("arrow") else 0.16) * span
    axis.set(xlim=(-0.7, len(nodes) - 0.3), ylim=(depth - 0.05 * span, top))
    axis.set_axis_off()


def _order(moment: Moment) -> list[int]:
    """Returns the nodes as they stand in the array."""
    orders = list(moment.signs("order"))
    given = list(range(moment.num_nodes))
    if not orders:
        return given
    before = moment.values(orders[0])
    after = {int(before[node]): node for node in given if before[node] != node}
    found = [next((node for node in given if before[node] == node), 0)]
    while found[-1] in after and len(found) < len(given):
        found.append(after[found[-1]])
    return [*found, *(node for node in given if node not in found)]


def _bracket(axis: Axes, first: int, last: int, y: float, height: float, colour: str) -> None:
    if first <= last:
        x = [first - 0.4, first - 0.4, last + 0.4, last + 0.4]
        axis.plot(x, [y + height, y, y, y + height], color=colour, linewidth=1.5)


def _arcs(axis: Axes, pointers: np.ndarray, colour: str, tops: dict[int, tuple[int, float]]) -> None:
    for node, target in enumerate(pointers):
        if node == target:
            continue
        start, end = tops[node], tops[int(target)]
        side = 0.3 if start[0] > end[0] else -0.3
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "connectionstyle": f"arc3,rad={side}"}
        axis.annotate("", xy=end, xytext=start, arrowprops=arrow, zorder=4)


def draw_intervals_panel(axis: Axes, moment: Moment) -> None:
    """Draws a bar from start to finish for every activity; selected ones are dark and have a tick."""
    start, finish = moment.input("s"), moment.input("f")
    fill = next(iter(moment.signs("fill")))
    selected, changed = moment.values(fill) == 1, moment.changed(fill)
    for node in range(moment.num_nodes):
        outline = {"edgecolor": CHANGED, "linewidth": 2} if changed[node] else {}
        colour = TONES[0] if selected[node] else LINE
        axis.barh(node, finish[node] - start[node], left=start[node], height=0.6, color=colour, **outline)
    for node, tags in moment.tags().items():
        for place, (name, sign) in enumerate(tags):
            draw_tag(axis, moment, name, sign, (start[node] - 0.05 - 0.09 * place, node))
    labels = [f"{node} ✓" if selected[node] else str(node) for node in range(moment.num_nodes)]
    axis.set_yticks(range(moment.num_nodes), labels, fontsize=8)
    low, high = min(0.0, start.min()), max(1.0, finish.max())
    axis.set_xlim(low - 0.22 * (high - low), high)
    axis.set_xticks(np.linspace(low, high, 5))
    axis.tick_params(axis="x", labelsize=7)
    axis.invert_yaxis()
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def draw_strings_panel(axis: Axes, moment: Moment) -> None:
    """Draws the haystack as a row of cells, the needle below it at the shift at which it is tried."""
    split = int((moment.input("string") == 0).sum())
    letters = moment.input("key").argmax(-1)
    length, shift = moment.num_nodes - split, min(moment.node("s"), split - 1)
    x = [node if node < split else shift + node - split for node in range(moment.num_nodes)]
    for node in range(moment.num_nodes):
        y = 0 if node < split else -1.4
        is_under = node < split and shift <= node < shift + length
        axis.text(x[node], y, LETTERS[letters[node]], **CENTRE, fontsize=9, color=INK, zorder=3)
        draw_square(axis, x[node], y, FAINT if is_under else "white", TONES[0] if is_under else LINE)
        if node < split:
            axis.text(x[node], 0.66, str(node), ha="center", va="bottom", fontsize=6.5, color=SOFT)
    rows = list(moment.signs("row"))
    for line, name in enumerate(rows):
        y = -2.3 - 0.72 * line
        axis.text(shift - 0.8, y, name, ha="right", va="center", fontsize=7, color=SOFT)
        for node in range(split, moment.num_nodes):
            value, has_changed = moment.values(name)[node], bool(moment.changed(name)[node])
            text = str(int(value) - split) if name == "pi" else "●" if value == 1 else "·"
            axis.text(x[node], y, text, **CENTRE, fontsize=7, fontweight="bold" if has_changed else None)
    for node, tags in moment.tags().items():
        for depth, (name, sign) in enumerate(tags):
            y = 1.55 + 0.85 * depth if node < split else -2.5 - 0.62 * len(rows) - 0.85 * depth
            draw_tag(axis, moment, name, sign, (x[node], y))
    left = -1.0 - (1.6 if rows else 0)
    axis.set(xlim=(left, split + 0.6), ylim=(-4.6 - 0.62 * len(rows), 3.4), aspect="equal")
    axis.set_axis_off()
