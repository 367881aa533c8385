"""Links of documents: they are written for the repository, and led to the site's own pages here."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ {0,3}(```|~~~)")


def from_elsewhere(root: Path) -> dict[str, str]:
    """Pages that are made from documents outside docs/: address on the site to path in the repository."""
    pages = {
        "contributing.md": "CONTRIBUTING.md",
        "changelog.md": "CHANGELOG.md",
        "measured/records.md": "results/README.md",
    }
    pages |= {f"measured/{path.name}": f"benchmarks/{path.name}" for path in sorted((root / "benchmarks").glob("*.md"))}
    return {uri: path for uri, path in pages.items() if (root / path).exists()}


def for_the_site(markdown: str, source: str, uri: str, root: Path) -> str:
    """A page's text with links for the site. `source` is where it lies in the repository, `uri` where on the site.

    What the site does not show (source code, records) is named by its path instead of linked.
    """
    site = {path: address for address, path in from_elsewhere(root).items()} | {"README.md": "index.md"}

    def lead(match: re.Match[str]) -> str:
        text, target = match.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return match.group()
        path, _, anchor = target.partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if place in site:
            address = site[place]
        elif place.startswith("docs/"):
            address = place.removeprefix("docs/")
        else:
            named = f"`{place}`"
            return named if text.strip("`") in (place, posixpath.basename(place)) else f"{text} ({named})"
        if text.strip("`").endswith(".md"):  # in the repository a page is called by its file, here by its title
            text = title(root / place) or text
        address = posixpath.relpath(address, posixpath.dirname(uri) or ".")
        return f"[{text}]({address}{'#' + anchor if anchor else ''})"

    lines, fenced = [], False
    for line in markdown.split("\n"):
        fenced ^= bool(FENCE.match(line))
        lines.append(line if fenced else LINK.sub(lead, line))
    return "\n".join(lines)


def title(path: Path) -> str | None:
    """The first heading of a document; None where it has none."""
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), None)
