"""What the site does beyond MkDocs: generated pages, links that leave docs/, equations and drawings in the page."""

from __future__ import annotations

import posixpath
from pathlib import Path

import algorithm_pages
import equations
import links
import reference_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
FALLBACK = "Guides"
WIDE = ("results.md",)  # whose tables need the room of the table of contents


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation, without pages that do not exist and with those that nobody listed."""
    known = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    known |= set(links.from_elsewhere(ROOT)) | set(reference_pages.PAGES) | {algorithm_pages.INDEX}
    nav = config.nav or []
    for section in nav:
        ((title, pages),) = section.items()
        if isinstance(pages, list):
            section[title] = [page for page in pages if next(iter(page.values())) in known]
    listed = {page for section in nav for page in _pages(section)}
    fallback = next(section for section in nav if FALLBACK in section)
    unlisted = sorted(page for page in known - listed if not page.startswith("measured/"))
    fallback[FALLBACK] += [{links.title(ROOT / "docs" / page) or page: page} for page in unlisted]
    algorithms = next(section for section in nav if next(iter(section.values())) == algorithm_pages.INDEX)
    algorithms[next(iter(algorithms))] = [algorithm_pages.INDEX, *algorithm_pages.navigation()]
    config.nav = nav
    return config


def _pages(section: dict) -> list[str]:
    (pages,) = section.values()
    return [pages] if isinstance(pages, str) else [next(iter(page.values())) for page in pages]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made from the code, from records and from documents outside docs/."""
    pages: dict[str, str | bytes] = {}
    for uri, path in links.from_elsewhere(ROOT).items():
        pages[uri] = (ROOT / path).read_text()
    pages |= reference_pages.pages()
    pages |= algorithm_pages.pages(ROOT / "results")
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Links into the repository lead to the site's own pages, or become plain text."""
    uri = page.file.src_uri
    if uri in WIDE:
        page.meta["hide"] = ["toc"]
    source = links.from_elsewhere(ROOT).get(uri, posixpath.join("docs", uri))
    return links.for_the_site(markdown, source, uri, ROOT)


def on_page_content(html: str, page, config: MkDocsConfig, files: Files) -> str:
    """Equations become MathML, which browsers draw themselves; drawings take the page's colours."""
    return equations.inline_drawings(equations.as_mathml(html), (ROOT / "docs" / page.file.src_uri).parent)
