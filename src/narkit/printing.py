"""Printing of lines and tables on a console, the same way everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_line(console: Console, text: str, style: str | None = None) -> None:
    """Prints a line as it is: not folded, and nothing in it is taken for markup or coloured."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def print_table(console: Console, header: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Prints a table whose first column holds names and whose others hold numbers."""
    console.print(number_table(header, rows, title))


def number_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> Table:
    """Returns a table whose first column holds names and whose others hold numbers."""

    table = Table(title=title or None, title_justify="left")
    for i, column in enumerate(header):
        table.add_column(column, justify="right" if i else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
