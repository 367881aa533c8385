"""Shared parts of commands: options, help, and checks of words. Mistakes end in one clear line and exit code 2."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperOption

from narkit.errors import UnknownNameError, one_line

Steps = Annotated[int | None, typer.Option(help="The number of training steps.", show_default="the preset's")]
HiddenSize = Annotated[int | None, typer.Option(help="Width of the network.", show_default="the preset's")]
BatchSize = Annotated[int | None, typer.Option(help="Samples per step.", show_default="the preset's")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other option of narkit.TrainConfig.")
]
SaveEvery = Annotated[float, typer.Option(min=0.0, help="Seconds between checkpoints, at least.")]
Devices = Annotated[int, typer.Option(min=1, help="Share seeds and batches out among so many devices.")]
Algorithms = Annotated[str | None, typer.Option(help="Only these algorithms, with commas between.", show_default="all")]
Sizes = Annotated[str, typer.Option(help="Nominal sizes, with commas between.")]
InstanceSeed = Annotated[
    int | None,
    typer.Option(
        min=0, max=2**32 - 1, help="Seed of a random instance.", show_default="one in which something happens"
    ),
]
Weights = Annotated[str | None, typer.Option(help="A name of `narkit weights`, or a file.", show_default="the best")]
OutFiles = Annotated[
    Path | None, typer.Option(callback=lambda out: _writable(out, ".json"), help="Write OUT.json and OUT.md, too.")
]
OutFile = Annotated[Path | None, typer.Option(callback=lambda file: _writable(file), help="Write the record here.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]


def examples(*lines: str) -> str:
    """Returns the end of a help text. Blank lines keep the examples apart, since Typer fills paragraphs."""
    return "Examples:\n\n" + "\n\n".join(f"  {line}" for line in lines)


def hide_types_of_flags() -> None:
    """Hides the type of options that take no value from the help: some versions of Typer show them with `<bool>`."""
    shown: Any = getattr(TyperOption, "display_type_rich", None)
    if shown is None:  # versions that do not
        return

    def display_type_rich(self: Any, ctx: Any) -> str | None:
        return None if self.is_flag else shown(self, ctx)

    TyperOption.display_type_rich = display_type_rich  # type: ignore[method-assign]


def refuse(option: str | None, why: str) -> NoReturn:
    """Ends the command in a usage error, which names the option that is to blame."""
    raise typer.BadParameter(why, param_hint=option) from None


@contextlib.contextmanager
def plain_errors(hint: str | None = None, also: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turns narkit's own errors and those of the system into usage errors, and errors of the types `also`.

    What narkit defines as a `ValueError` says what was expected, what came and what to do. `hint` names the option.
    """
    try:
        yield
    except OSError as error:
        refuse(hint, one_line(error))
    except (ValueError, *also) as error:
        if not type(error).__module__.startswith("narkit.") and not isinstance(error, also):
            raise
        refuse(hint, str(error))


@contextlib.contextmanager
def mistakes() -> Iterator[None]:
    """Turns any error about what was asked for into a usage error, such as those that configurations raise."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        refuse(None, str(error))


def given_options(context: typer.Context) -> dict[str, str]:
    """Returns the options that were typed, by the name of their parameter, so that none is silently without effect."""
    found = {}
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            found[parameter.name] = max(parameter.opts, key=len)
    return found


def _writable(file: Path | None, suffix: str = "") -> Path | None:
    """Checks that a file, with its folder, can be written after long work, and refuses it now if it cannot."""
    from narkit.files import check_place

    if file is not None:
        with plain_errors():
            check_place(file.with_suffix(suffix) if suffix and file.name else file, with_folder=True)
    return file


def known_algorithm(name: str) -> str:
    """Returns the name, if an algorithm has it."""
    from narkit.algorithms import ALGORITHMS

    with plain_errors():
        return ALGORITHMS[name].name


def one_of(what: str, name: str, known: Collection[str], option: str | None = None) -> str:
    """Returns the name, if it is among the known ones."""
    if name not in known:
        refuse(option, str(UnknownNameError(what, name, known)))
    return name


def comma_separated_algorithms(text: str | None) -> list[str]:
    """Reads names of algorithms: `bfs,dijkstra` -> ["bfs", "dijkstra"]; nothing -> all."""
    from narkit.algorithms import ALGORITHMS

    return sorted(ALGORITHMS) if text is None else [known_algorithm(name.strip()) for name in text.split(",")]


def comma_separated_sizes(text: str) -> list[int]:
    """Reads what --sizes says: `16,64` -> [16, 64]."""
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        refuse("--sizes", f"expected whole numbers with commas between, such as 16,64; got {text!r}")
    if min(sizes) < 1:
        refuse("--sizes", f"expected sizes of at least 1, got {min(sizes)}")
    return sizes


def store(out: Path | None, record: str, page: str) -> None:
    """Writes what was measured to OUT.json and OUT.md, if --out was given."""
    from narkit.files import write_with_folder

    if out is not None:
        with plain_errors("--out"):
            write_with_folder(out.with_suffix(".json"), record)
            write_with_folder(out.with_suffix(".md"), page)
