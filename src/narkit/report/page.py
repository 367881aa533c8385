"""A report as one page that needs nothing else: tables, and figures as pictures within it."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from narkit.report.grid import Grid
from narkit.report.provenance import origin, remarks
from narkit.report.rendering import Table, as_html

STYLE = """
:root { color-scheme: light dark; --ink: #1f2430; --faint: #5b6472; --page: #ffffff; --line: #d5d9e0; --row: #f4f6f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ec; --faint: #a3abb8; --page: #14171c; --line: #363c47; --row: #1d2129; }
}
body { background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 92rem; padding: 0 1.5rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
nav a { color: inherit; margin-right: 1rem; }
figure { margin: 2rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
caption { font-size: 1.1rem; font-weight: 600; padding-bottom: .5rem; text-align: left; }
th, td { padding: .22rem .6rem; text-align: right; }
thead th { border-bottom: 1px solid var(--line); font-weight: 600; }
th[colspan] { text-align: center; } th[scope=row], thead th:first-child { font-weight: 400; text-align: left; }
tbody tr:nth-child(even) { background: var(--row); }
tr.summary th, tr.summary td { font-weight: 600; }
tr:not(.summary) + tr.summary > * { border-top: 1px solid var(--line); }
small, figcaption, .faint { color: var(--faint); } figcaption p { margin: .3rem 0; max-width: 70rem; }
img { background: #ffffff; border-radius: 8px; box-sizing: border-box; max-width: 100%; padding: 8px; }
@media print { body { max-width: none; } figure { break-inside: avoid; } }
"""


def page(grid: Grid, tables: Sequence[Table], figures: Mapping[str, Path | str]) -> str:
    """The page. A figure is the path of an SVG file, or words that say why there is none."""
    contents = [(_anchor(title), title) for title in figures] + [(table.name, table.title) for table in tables]
    links = "".join(f'<a href="#{name}">{html.escape(title)}</a>' for name, title in contents)
    lines = remarks(grid)
    notes = "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>" if lines else "<p>None.</p>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>narkit: results beside the paper's</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>Triplet Edge Attention: our results beside the paper's</h1>\n<p>{html.escape(origin(grid))}</p>\n"
        f"<nav>{links}</nav>\n{''.join(_figure(title, picture) for title, picture in figures.items())}"
        f"{''.join(as_html(table) for table in tables)}"
        f'<h2 id="remarks">Left out and diverged</h2>\n{notes}\n</body>\n</html>\n'
    )


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _figure(title: str, picture: Path | str) -> str:
    """A picture, by its content; as an image it keeps its own style and cannot disturb the page's."""
    words = html.escape(title)
    if isinstance(picture, str):
        return f'<figure id="{_anchor(title)}"><figcaption>{words}: {html.escape(picture)}</figcaption></figure>\n'
    data = base64.b64encode(picture.read_bytes()).decode()
    image = f'<img alt="{words}" src="data:image/svg+xml;base64,{data}">'
    return f'<figure id="{_anchor(title)}">{image}<figcaption>{words}</figcaption></figure>\n'
