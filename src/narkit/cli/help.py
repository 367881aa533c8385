"""What help texts of several commands share."""

from __future__ import annotations

from typing import Any

from typer.core import TyperOption


def examples(*lines: str) -> str:
    """The end of a help text. Blank lines keep the examples apart, since Typer fills paragraphs."""
    return "Examples:\n\n" + "\n\n".join(f"  {line}" for line in lines)


def hide_types_of_flags() -> None:
    """Help says nothing of the type of options that take no value: some versions of Typer show them with `<bool>`."""
    shown: Any = getattr(TyperOption, "display_type_rich", None)
    if shown is None:  # versions that do not
        return

    def display_type_rich(self: Any, ctx: Any) -> str | None:
        return None if self.is_flag else shown(self, ctx)

    TyperOption.display_type_rich = display_type_rich  # type: ignore[method-assign]
