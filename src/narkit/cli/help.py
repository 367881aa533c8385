"""What help texts of several commands share."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """The end of a help text. Blank lines keep the examples apart, since Typer fills paragraphs."""
    return "Examples:\n\n" + "\n\n".join(f"  {line}" for line in lines)
