"""What commands share: the ends of help texts, and what Typer is taught."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperOption


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


def refuse_doubled_options() -> None:
    """An option that is given twice is a mistake: Typer would take the last one without a word."""
    make: Any = TyperCommand.make_parser

    def make_parser(self: Any, ctx: Any) -> Any:
        parser = make(self, ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            values, rest, order = parse(args)
            for option in order:
                if order.count(option) > 1 and not option.multiple:
                    raise typer.BadParameter("expected it once, got it more often", ctx=ctx, param=option)
            return values, rest, order

        parser.parse_args = parse_args
        return parser

    TyperCommand.make_parser = make_parser  # type: ignore[method-assign]
