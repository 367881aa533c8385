"""Marks that several panels share: nodes with their rings, tags, numbers beside a node, and squares."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from narkit.algorithms.meanings import value_names
from narkit.report.drawings import Sign
from narkit.report.panels import CENTRE, CHANGED, COLOURS, FILL, INK, Moment, Place, number, tone
from narkit.spec import Kind


def draw_node(axis: Axes, moment: Moment, node: int, x: float, y: float, area: float, fontsize: float) -> None:
    """Draws a node as a circle with its number: filled and ringed by masks, doubled if source, outlined if changed."""
    fill, ink = "white", INK
    for name in moment.signs("fill"):
        value = moment.values(name)[node]
        if moment.probe(name).kind is Kind.CATEGORICAL:
            label = value_names(moment.batch.algorithm, name)[int(value)]
            fill, ink = COLOURS.get(label, FILL), "white" if label == "black" else INK
        elif value == 1:
            fill = FILL
    if any(moment.changed(name)[node] for name in moment.signs("fill", "ring")):
        axis.scatter(x, y, s=1.75 * area, c=CHANGED, zorder=2.8)
        axis.scatter(x, y, s=1.35 * area, c="white", zorder=2.9)
    rings = [sign for name, sign in moment.signs("ring").items() if moment.values(name)[node] == 1]
    for place, sign in enumerate(rings):
        size = (1.45 + 0.4 * place) * area
        axis.scatter(x, y, s=size, facecolors="none", edgecolors=tone(sign), linestyles=":", linewidths=1.4, zorder=3)
    axis.scatter(x, y, s=area, c=fill, edgecolors=INK, linewidths=1.1, zorder=3)
    if "s" in moment.batch.inputs and moment.input("s")[node] == 1:
        axis.scatter(x, y, s=0.62 * area, facecolors="none", edgecolors=INK, linewidths=0.9, zorder=3.1)
    axis.text(x, y, str(node), **CENTRE, fontsize=fontsize, color=ink, zorder=4)


def draw_tag(axis: Axes, moment: Moment, name: str, sign: Sign, at: Place, offset: Place = (0.0, 0.0)) -> None:
    """Draws the name of a one-hot mask on its colour, so many points off a place; outlined if the mask has moved."""
    edge = {"edgecolor": CHANGED, "linewidth": 1.6} if moment.changed(name).any() else {"edgecolor": "none"}
    axis.annotate(
        name, at, xytext=offset, textcoords="offset points", fontsize=7, color="white", **CENTRE,
        fontweight="bold", bbox={"boxstyle": "round,pad=0.2", "facecolor": tone(sign), **edge}, zorder=5,
    )  # fmt: skip


def draw_numbers(axis: Axes, moment: Moment, node: int, at: Place, below: bool = True) -> None:
    """Draws the numbers of a node below or above it, in bold where they have changed."""
    box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    for line, name in enumerate(moment.signs("value")):
        distance = 16 + 9 * line
        axis.annotate(
            f"{name} {number(moment.values(name)[node])}", at, xytext=(0, -distance if below else distance),
            textcoords="offset points", fontsize=7.5, **CENTRE, color=INK, bbox=box, zorder=4.5,
            fontweight="bold" if moment.changed(name)[node] else "normal",
        )  # fmt: skip


def draw_square(axis: Axes, x: float, y: float, face: str, edge: str, *, outlined: bool = False) -> None:
    """Draws a square of size 1 around a place, outlined if what stands in it has changed."""
    axis.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=face, edgecolor=edge, linewidth=1.0, zorder=1))
    if outlined:
        inset = Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, fill=False, edgecolor=CHANGED, linewidth=1.8, zorder=2)
        axis.add_patch(inset)
