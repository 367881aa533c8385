"""Measurements as a table, on a console and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table


def print_table(
    console: Console, header: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None
) -> None:
    """Prints a table whose first column holds names and whose others hold numbers."""
    table = Table(title=title or None, title_justify="left")
    for i, column in enumerate(header):
        table.add_column(column, justify="right" if i else "left", no_wrap=i == 0)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_lines(console: Console, lines: Iterable[str], style: str | None = None) -> None:
    """Prints lines as they are: not folded, without markup or colours of their own."""
    for line in lines:
        console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> list[str]:
    """The lines of a table and an empty one after it. The first columns hold names, the others numbers."""
    rule = f"|{' --- |' * names}{' ---: |' * (len(header) - names)}"
    return [f"| {' | '.join(header)} |", rule, *(f"| {' | '.join(row)} |" for row in rows), ""]


def markdown_page(title: str, lines: Iterable[str], header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A page with one table, and above it what is needed to judge the table."""
    return "\n".join([f"# {title}", "", *(f"{line}\n" for line in lines), *markdown_table(header, rows)])


def versions_in_words(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
