"""The command line, one file per command. What is slow to import is imported when a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from narkit import __version__
from narkit.cli import (
    bench,
    compare,
    data,
    demo,
    evaluate,
    listing,
    records,
    report,
    solve,
    sweep,
    train,
    view,
    weights,
)
from narkit.cli.choices import examples, hide_types_of_flags, refuse
from narkit.cli.failures import DEBUG, ends_with
from narkit.errors import one_line
from narkit.sweeps.user_code import import_modules

hide_types_of_flags()
app = typer.Typer(
    name="narkit",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Neural algorithmic reasoning on CLRS-30.",
    epilog=examples(
        "narkit list",
        "narkit data show dijkstra --size 5 --seed 1",
        "narkit --import my_algorithms data show gnome_sort",
        "narkit solve quicksort 5 3 1 2",
        "narkit view dijkstra --size 8 --out run.html",
        "narkit train --algorithm bfs --preset quick",
        "narkit eval runs/bfs-team-quick --size 32",
        "narkit report results/ --out report/",
        "narkit compare team triplet_gmpnn_ood_val",
        "narkit demo",
    ),
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"narkit {__version__}")
        raise typer.Exit


def _import_modules(names: list[str] | None) -> list[str]:
    """Imports the user's own modules, for the algorithms that they register; the current folder counts, too."""
    for name in names or []:
        if not all(part.isidentifier() for part in name.split(".")):
            refuse(None, f"expected the name of a module, such as my_algorithms, got {name!r}")
        sys.path.insert(0, os.getcwd())
        try:
            import_modules([name])
        except ModuleNotFoundError as error:
            refuse(None, f"{error}; expected a module as in `import {name}`")
        except Exception as error:  # whatever somebody's own module does when it is imported
            if DEBUG in sys.argv:
                raise
            said = f"{type(error).__name__}: {one_line(error)}; `narkit {DEBUG} --import {name} …` shows where"
            refuse(None, f"the module {name} cannot be imported: {said}")
        finally:
            sys.path.remove(os.getcwd())
    return names or []


@app.callback()
def _options(
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            callback=_import_modules,
            help="Import your own algorithms, processors and systems first.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the traceback of an error in narkit itself.")] = False,
) -> None:
    pass


COMMANDS = (listing, data, solve, view, weights, train, evaluate, sweep, report, compare, records, demo, bench)
for command in COMMANDS:
    app.add_typer(command.app)


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Runs the `narkit` script. Whatever happens, it ends in an exit code and at most one clear line."""
    typed = list(sys.argv[1:] if words is None else words)
    try:
        app(typed, prog_name="narkit")
    except Exception as error:
        sys.exit(ends_with(error, typed))
    sys.exit(0)
