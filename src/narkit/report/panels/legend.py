"""The legend of a picture: a sample of every sign, with the meaning of what it stands for."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.text import Text

from narkit.data.batch import Batch
from narkit.report.drawings import WINDOWS, Sign, signs
from narkit.report.panels import CENTRE, CHANGED, COLOURS, FAINT, FILL, INK, LINE, PASSING, SOFT, TONES, tone
from narkit.spec import ALGORITHMS, Kind, Probe, Stage

WIDTH = 105  # characters of a line


@dataclass(frozen=True)
class LegendSign:
    """One sign of the legend: its shape and colour, and the text that stands in it."""

    shape: str
    colour: str
    text: str = ""


def legend_entries(batch: Batch, as_table: bool = False) -> list[tuple[LegendSign, str]]:
    """Returns all signs that the panels of a run use, with what they mean."""
    entry = ALGORITHMS[batch.algorithm]
    found = [
        (_sample(sign, entry.spec[name], as_table), textwrap.fill(f"{name}: {entry.spec[name].meaning}", WIDTH))
        for name, sign in signs(entry).items()
        if entry.spec[name].stage is Stage.HINT and sign.on and sign.shape != "caption"
    ]
    for colour, window in zip(TONES, WINDOWS.get(entry.name, []), strict=False):
        words = f"{window['title']}: from {window['first']} to {window['last']}"
        found.append((LegendSign("window", colour), words))
    if "target" in batch.inputs:
        found.append((LegendSign("line", TONES[3]), f"target: {entry.spec['target'].meaning}"))
    if "adj" in batch.inputs and not as_table:
        if "s" in batch.inputs:
            found.append((LegendSign("source", INK), "the source"))
        weights = batch.inputs["A"][0][batch.inputs["adj"][0] != 0]
        if len(np.unique(weights[weights != 0])) > 1:
            found.append((LegendSign("text", SOFT, "0.42"), "on an edge: its weight"))
    return [*found, (LegendSign("changed", CHANGED), "changed since the step before")]


def _sample(sign: Sign, probe: Probe, as_table: bool) -> LegendSign:
    if sign.shape == "fill" and probe.kind is Kind.CATEGORICAL:
        return LegendSign("colours", tone(sign))
    if as_table and sign.shape == "tag":
        return LegendSign("passing", PASSING)
    if sign.shape == "cell":
        text = {Kind.SCALAR: "0.42", Kind.CATEGORICAL: "↖"}.get(probe.kind, "→2")
        return LegendSign("cell", INK if probe.kind is Kind.SCALAR else SOFT, text)
    return LegendSign(sign.shape, tone(sign))


class LegendSignHandler:
    """Draws a sample where Matplotlib wants the sign of a legend's entry."""

    def legend_artist(self, legend: Any, sample: LegendSign, fontsize: float, box: Any) -> Any:
        for artist in self._artists(sample, -box.xdescent, -box.ydescent, box.width, box.height):
            artist.set_transform(box.get_transform())
            box.add_artist(artist)
        return box

    def _artists(self, sample: LegendSign, x: float, y: float, width: float, height: float) -> list[Any]:
        middle = (x + width / 2, y + height / 2)
        radius = 0.62 * height
        match sample.shape:
            case "fill":
                return [Circle(middle, radius, facecolor=FILL, edgecolor=INK)]
            case "colours":
                places = (x + width * share for share in (0.18, 0.5, 0.82))
                return [
                    Circle((at, middle[1]), 0.5 * height, facecolor=colour, edgecolor=INK, linewidth=0.8)
                    for at, colour in zip(places, COLOURS.values(), strict=True)
                ]
            case "ring":
                dotted = Circle(middle, 0.8 * height, fill=False, edgecolor=sample.colour, linestyle=":", linewidth=1.3)
                return [Circle(middle, 0.5 * height, facecolor="white", edgecolor=INK), dotted]
            case "source":
                outer = Circle(middle, radius, facecolor="white", edgecolor=INK)
                return [outer, Circle(middle, 0.4 * height, fill=False, edgecolor=INK)]
            case "changed":
                return [Circle(middle, radius, facecolor="white", edgecolor=sample.colour, linewidth=2.5)]
            case "arrow":
                arrow = {"arrowstyle": "-|>", "mutation_scale": 9, "color": sample.colour, "linewidth": 1.8}
                return [FancyArrowPatch((x, middle[1]), (x + width, middle[1]), **arrow)]
            case "edge":
                return [Line2D([x, x + width], [middle[1]] * 2, color=sample.colour, linewidth=3.5)]
            case "tag":
                pill = {"boxstyle": "round,pad=1", "facecolor": sample.colour, "linewidth": 0}
                return [FancyBboxPatch((x + 0.2 * width, y), 0.6 * width, height, **pill)]
            case "blank" | "passing":
                face = FAINT if sample.shape == "blank" else sample.colour
                return [Rectangle((x + 0.2 * width, y - 1), 0.6 * width, height + 2, facecolor=face, edgecolor=LINE)]
            case "window":
                lines = [x, x, x + width, x + width], [y + height, y, y, y + height]
                return [Line2D(*lines, color=sample.colour, linewidth=1.5)]
            case "line":
                return [Line2D([x, x + width], [middle[1]] * 2, color=sample.colour, linewidth=1.2, linestyle="--")]
            case "row":
                return [_text(middle, LegendSign("text", INK, "0 1 ●"))]
            case "order":
                sizes = ((0.1, 0.5), (0.4, 0.8), (0.7, 1.2))
                return [Rectangle((x + a * width, y), 0.2 * width, b * height, facecolor=LINE) for a, b in sizes]
            case _:
                return [_text(middle, sample)]


def _text(middle: tuple[float, float], sample: LegendSign) -> Any:
    return Text(*middle, sample.text or "0.42", **CENTRE, fontsize=7.5, color=sample.colour)
