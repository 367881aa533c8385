"""A report as one page that needs nothing else: what was found, a heat map, statistics, figures, tables, provenance.

The page is made from the templates beside this file; what is computed for it stands here, how it looks stands there.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from narkit.report import paper
from narkit.report.figures import colours
from narkit.report.findings import Findings, find, with_records
from narkit.report.grid import Grid, measured
from narkit.report.provenance import origin, remarks
from narkit.report.published import algorithm_scores
from narkit.report.rendering import FORMATS, Heading, Number, Score, Table, TableRow, text
from narkit.report.statistics import Ranking

TEMPLATES = Path(__file__).parent / "templates"
CAPTIONS = {
    "Categories": "Test scores by category. Pale bars are the published ones, full bars ours; a dot is an algorithm.",
    "Learning curves": "Validation scores over training for every algorithm: the line is the mean of the seeds, the "
    "band reaches from the lowest to the highest.",
    "Triplet Edge Attention": "What a trained TEAM looks at on one graph. Left the graph; in the middle, for every "
    "edge from i to j, the third node that counts most; on the right all weights of the edges from one node.",
}
# How a figure, which is drawn dark on white, is shown on a dark page.
DARK = {
    **{"#1f2430": "#e6e8ec", "#6b7280": "#a3abb8", "#ffffff": "#14171c", "#e5e7eb": "#2b313b", "#000000": "#e6e8ec"},
    **{"#1b2330": "#e6e8ec", "#525c6b": "#a3abb8", "#b9c1cc": "#5b6573", "#eef0f3": "#222831", "#bcd7fb": "#1e4a80"},
}


def page(grid: Grid, tables: Sequence[Table], figures: Mapping[str, Path | str]) -> str:
    """Renders the page. A figure is the path of an SVG file, or words that say why there is none."""
    import jinja2

    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"cell": text, "tone": _tone}
    found = find(grid)
    return environment.get_template("page.html").render(
        style=(TEMPLATES / "page.css").read_text(),
        script=(TEMPLATES / "page.js").read_text(),
        findings=found.sentences,
        best=found.best,
        heat=_heat_map(grid, found),
        ranking=found.ranking and diagram(found.ranking, grid),
        figures=[_figure(title, picture) for title, picture in figures.items()],
        tables=tables,
        formats={"CSV": ".csv", "LaTeX": ".tex", "Markdown": ".md"},
        parts=parts,
        score=lambda cell: isinstance(cell, Score),
        origin=origin(grid),
        remarks=remarks(grid),
    )


assert set(FORMATS) == {".csv", ".tex", ".md"}  # what the page links to


def _tone(cell: Any, heading: Heading, row: TableRow) -> str:
    """Returns the class that colours a difference of scores: better, worse or neither. Of ranks the lower is better."""
    if not (isinstance(cell, Number) and heading.key.endswith("_difference")) or heading.key.startswith("ratio"):
        return ""
    gain = -cell.value if row.key == "average_rank" else cell.value
    return "better" if gain >= 0.005 else "worse" if gain <= -0.005 else "even"


ROOM = 220  # how many letters of a table fit a page 1400 pixels wide


def parts(table: Table) -> list[Table]:
    """Splits a table with more columns than fit into several ones below each other; a group stays together."""
    widths = [
        _letters([heading.label, *(text(row.entries[index]) for row in table.rows)])
        for index, heading in enumerate(table.headings)
    ]
    room = ROOM - _letters([table.corner, *(row.label for row in table.rows)])
    found: list[list[int]] = [[]]
    for _, group in itertools.groupby(range(len(widths)), lambda index: table.headings[index].group or index):
        columns = list(group)
        if found[-1] and sum(widths[index] for index in (*found[-1], *columns)) > room:
            found.append([])
        found[-1] += columns
    if len(found) == 1:
        return [table]
    return [
        dataclasses.replace(
            table,
            headings=[table.headings[index] for index in columns],
            rows=[dataclasses.replace(row, entries=[row.entries[index] for index in columns]) for row in table.rows],
        )
        for columns in found
    ]


def _letters(words: Iterable[str]) -> int:
    """Returns the width of a column in letters, with the space beside it."""
    return max(map(len, words)) + 2


def _heat_map(grid: Grid, found: Findings) -> dict[str, Any]:
    """Makes the heat map: a row for each algorithm, a column for each system that has records."""
    from narkit.algorithms import ALGORITHMS

    systems, palette = with_records(grid), colours(grid)
    rows = [
        {
            "label": label,
            "category": ALGORITHMS[name].category,
            "cells": [_heat_cell(grid, found, system, name) for system in systems],
        }
        for name, label in paper.labels().items()
    ]
    heads = [{"title": system.title, "rule": system.rule, "colour": palette[system.name]} for system in systems]
    return {"systems": heads, "rows": rows, "categories": sorted({row["category"] for row in rows})}


def _heat_cell(grid: Grid, found: Findings, system: Any, algorithm: str) -> dict[str, Any]:
    runs = grid.column(system).runs
    if algorithm not in runs:
        return {"value": None}
    score, published = measured(runs[algorithm]), algorithm_scores(system).get(algorithm)
    difference = None if published is None else score.mean - published.mean
    words = f"{system.title}: {text(score)}"
    if difference is not None:
        words += f"; published {text(published)}, difference {text(Number(difference, '{:+.2f}'))}"
    row = found.comparisons.get(system.name, {}).get(algorithm)
    sign = {"lower": "▼", "higher": "▲"}.get(row.verdict, "") if row else ""
    if row is not None and row.corrected is not None and found.best is not None:
        words += f"; beside {found.best.title} p = {row.corrected:.3f}"
    return {
        "value": score.mean,
        "spread": "" if score.std is None else f"± {score.std:.1f}",
        "difference": difference,
        "sign": sign,
        "words": words,
    }


def _figure(title: str, picture: Path | str) -> dict[str, str]:
    """Embeds a picture by its content; as an image it keeps its own style and cannot disturb the page's."""
    anchor, caption = title.lower().replace(" ", "-"), CAPTIONS.get(title, title)
    if isinstance(picture, str):
        return {"anchor": anchor, "title": title, "missing": picture}
    data = base64.b64encode(in_both_schemes(picture.read_text()).encode()).decode()
    return {"anchor": anchor, "title": title, "caption": caption, "data": data, "file": picture.name}


def in_both_schemes(drawing: str) -> str:
    """Makes an SVG that also reads in the dark: its letters and lines turn light, its card takes the page's colour."""
    rules = "".join(
        f'[style*="{what}: {light}"] {{ {what}: {dark} !important }} '
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme: dark) {{ text {{ fill: {DARK['#1f2430']} }} {rules}}}</style>"
    start = drawing.index(">", drawing.index("<svg")) + 1
    return drawing[:start] + style + drawing[start:]


LETTER = 7.5  # the width of a letter in the diagram of ranks, in pixels


def diagram(ranking: Ranking, grid: Grid) -> dict[str, Any]:
    """Places everything in the critical-difference diagram.

    Systems lie on an axis of average ranks, and bars join those which are not told apart.
    """
    palette, titles = colours(grid), {system.name: system.title for system in grid.systems}
    highest, longest = max(2, len(ranking.ranks)), max(len(titles[name]) for name in ranking.ranks)
    left = max(250.0, LETTER * (longest + len(" (1.76)")) + 18)  # room for the longest title beside the axis
    right = left + 300

    def place(value: float) -> float:
        return round(left + (value - 1) / (highest - 1) * (right - left), 1)

    ordered, groups = sorted(ranking.ranks.items(), key=lambda pair: pair[1]), ranking.groups()
    half, top = (len(ordered) + 1) // 2, 78 + 10 * len(groups)
    return {
        "systems": [
            {
                "title": titles[name],
                "rank": value,
                "colour": palette[name],
                "x": place(value),
                "y": top + 22 * (index if index < half else len(ordered) - 1 - index),
                "left": index < half,
            }
            for index, (name, value) in enumerate(ordered)
        ],
        "bars": [
            {"x1": place(ranking.ranks[group[0]]) - 4, "x2": place(ranking.ranks[group[-1]]) + 4, "y": 66 + 10 * index}
            for index, group in enumerate(groups)
        ],
        "ticks": [{"x": place(value), "label": value} for value in range(1, highest + 1)],
        "difference": ranking.critical_difference,
        "width": min(round(place(1 + ranking.critical_difference) - left, 1), right - left),
        "algorithms": ranking.algorithms,
        "height": top + 22 * half,
        "all": left + right,
        "left": left,
        "right": right,
    }
