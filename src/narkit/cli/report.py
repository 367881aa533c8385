"""`narkit report`: tables, figures and documents from the records of a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narkit.cli.choices import examples, plain_errors, refuse

app = typer.Typer()


@app.command(
    "report",
    epilog=examples(
        "narkit report results/ --out report/",
        "narkit report results/ --readme README.md --results-page docs/results.md --reproduction docs/reproduction.md",
        "narkit report results/ --readme README.md --check",
        "narkit report results/evidence/ --learning docs/learning.md",
    ),
)
def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The folder that `narkit sweep` wrote.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder for tables, figures and the page index.html.", show_default="report")
    ] = None,
    readme: Annotated[Path | None, typer.Option(help="Bring this document's small table up to date.")] = None,
    results_page: Annotated[
        Path | None, typer.Option(help="Bring this document's table of all algorithms and its figures up to date.")
    ] = None,
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
    empty: Annotated[
        bool, typer.Option("--empty", help="Allow a folder without any record, and show everything as not run.")
    ] = False,
) -> None:
    """Make tables, figures and a page from records, each value beside the published one, and documents that show them.

    Without any option for a document the report is written to the folder of --out.
    """
    from narkit.report import writing
    from narkit.report.grid import read_grid
    from narkit.report.learning import FREE

    named = {
        writing.README: readme,
        writing.RESULTS_PAGE: results_page,
        writing.REPRODUCTION: reproduction,
        writing.LEARNING: learning,
    }
    files = {option: file for option, file in named.items() if file is not None}
    if check and not files:
        refuse("--check", f"expected {' or '.join(named)} with it")
    if learning is not None and (out is not None or len(files) > 1):
        # Runs of any length must not get into what shows the preset's.
        refuse("--learning", "expected neither --out nor another document with it")
    with plain_errors():
        grid = read_grid(results, preset, empty=empty, free=FREE if learning is not None else ())
        if check:
            problems = writing.outdated(grid, files)
            for problem in problems:
                typer.echo(problem)
            raise typer.Exit(1 if problems else 0)
        written = writing.write(grid, out, files, validation)
    for line in writing.summary(grid, written):
        typer.echo(line)
