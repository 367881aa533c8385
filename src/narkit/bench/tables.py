"""Measurements as tables, on a console and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from narkit.printing import print_line, print_table


@dataclass(frozen=True)
class Page:
    """A table with what is needed to judge it."""

    title: str
    circumstances: Sequence[str]
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def print(self, console: Console) -> None:
        print_table(console, self.header, self.rows)
        for line in self.circumstances:
            print_line(console, line, "dim")

    def markdown(self) -> str:
        lines = [f"# {self.title}", "", *(f"{line}\n" for line in self.circumstances)]
        return "\n".join([*lines, *markdown_table(self.header, self.rows)])


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> list[str]:
    """Returns the lines of a table and an empty one after it. The first columns hold names, the others numbers."""
    rule = f"|{' --- |' * names}{' ---: |' * (len(header) - names)}"
    return [f"| {' | '.join(header)} |", rule, *(f"| {' | '.join(row)} |" for row in rows), ""]


def versions_in_words(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
