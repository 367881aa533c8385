"""Measurements as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> list[str]:
    """The lines of a table and an empty one after it. The first columns hold names, the others numbers."""
    rule = f"|{' --- |' * names}{' ---: |' * (len(header) - names)}"
    return [f"| {' | '.join(header)} |", rule, *(f"| {' | '.join(row)} |" for row in rows), ""]


def markdown_page(title: str, lines: Iterable[str], header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A page with one table, and above it what is needed to judge the table."""
    return "\n".join([f"# {title}", "", *(f"{line}\n" for line in lines), *markdown_table(header, rows)])


def versions_in_words(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
