"""`narkit report`: tables, figures and documents from the records of a grid."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from narkit.cli.help import examples
from narkit.errors import UnknownNameError

app = typer.Typer()


@app.command(
    "report",
    epilog=examples(
        "narkit report results/ --out report/",
        "narkit report results/ --readme README.md --reproduction docs/reproduction.md",
        "narkit report results/ --readme README.md --reproduction docs/reproduction.md --check",
        "narkit report results/evidence/ --learning docs/learning.md",
    ),
)
def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The folder that `narkit sweep` wrote.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder for tables, figures and the page index.html.", show_default="report")
    ] = None,
    readme: Annotated[Path | None, typer.Option(help="Bring this document's results and figures up to date.")] = None,
    reproduction: Annotated[
        Path | None, typer.Option(help="Bring this document's comparison with the paper up to date.")
    ] = None,
    learning: Annotated[
        Path | None, typer.Option(help="Bring this document up to date, from runs with any number of steps and seeds.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 if a document does not follow from the records.")
    ] = False,
    preset: Annotated[
        str | None,
        typer.Option(help="Read RESULTS/PRESET/SYSTEM/ALGORITHM.json only.", show_default="of every system its own"),
    ] = None,
    validation: Annotated[str, typer.Option(help="The validation set of the learning curves.")] = "ood",
    empty: Annotated[bool, typer.Option("--empty", help="Also without any record: all is shown as not run.")] = False,
) -> None:
    """The paper's tables and figures from records, each value beside the paper's; and the documents that show them."""
    from narkit.report import writing
    from narkit.report.grid import read_grid
    from narkit.report.learning import FREE

    if check and out is None and readme is None and reproduction is None and learning is None:
        raise typer.BadParameter("expected --readme, --reproduction or --learning with it", param_hint="--check")
    if learning is not None and not (out is None and readme is None and reproduction is None):
        # Runs of any length must not get into what shows the preset's.
        raise typer.BadParameter("expected none of --out, --readme and --reproduction with it", param_hint="--learning")
    with _clear_errors():
        grid = read_grid(results, preset, empty=empty, free=FREE if learning is not None else ())
        if check:
            problems = writing.outdated(grid, readme, reproduction, learning)
            for problem in problems:
                typer.echo(problem)
            raise typer.Exit(1 if problems else 0)
        if learning is not None:
            written = writing.write_part(grid, writing.LEARNING, learning)
        else:
            written = writing.write(grid, out, readme, reproduction, validation)
    for line in writing.summary(grid, written):
        typer.echo(line)


@contextlib.contextmanager
def _clear_errors() -> Iterator[None]:
    """Turns what is wrong with folders, documents and names into usage errors."""
    from narkit.report.documents import DocumentError
    from narkit.report.grid import ResultsError

    try:
        yield
    except (ResultsError, DocumentError, UnknownNameError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
