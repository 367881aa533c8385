"""Equations as MathML and drawings as part of the page, made when the site is built: no script, no font, no request."""

from __future__ import annotations

import html
import re
from pathlib import Path

from latex2mathml.converter import convert

EQUATION = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
DRAWING = re.compile(r'<img alt="([^"]*)" src="([^"]+\.svg)"\s*/?>')


def as_mathml(page: str) -> str:
    """Replaces what the Markdown extension `arithmatex` marked as TeX."""
    return EQUATION.sub(_mathml, page)


def _mathml(match: re.Match[str]) -> str:
    tag, content = match.groups()
    block = tag == "div"
    tex = html.unescape(content).strip().removeprefix("\\[" if block else "\\(").removesuffix("\\]" if block else "\\)")
    written = convert(" ".join(tex.split()), display="block" if block else "inline")
    return f'<div class="equation">{written}</div>' if block else written


def inline_drawings(page: str, folder: Path) -> str:
    """Puts drawings that use the reader's text colour into the page, where they follow its light or dark scheme."""

    def put(match: re.Match[str]) -> str:
        words, source = match.groups()
        path = folder / source
        if not path.exists():
            return match.group()
        drawing = path.read_text()
        if "currentColor" not in drawing:
            return match.group()
        drawing = re.sub(r"<style>.*?</style>", "", drawing, flags=re.DOTALL)
        drawing = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", drawing, flags=re.DOTALL).strip()
        return drawing.replace("<svg ", f'<svg role="img" aria-label="{words}" class="drawing" ', 1)

    return DRAWING.sub(put, page)
