"""`narkit compare`: two systems or two runs, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from narkit.cli.choices import examples, plain_errors

app = typer.Typer()


@app.command(
    "compare",
    epilog=examples(
        "narkit compare team triplet_gmpnn_ood_val",
        "narkit compare team triplet_gmpnn --results results --rule id",
        "narkit compare results/paper/team/bfs.json results/paper/triplet_gmpnn/bfs.json",
    ),
)
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A system, the folder of a run, or a record.")],
    second: Annotated[str, typer.Argument(metavar="B", help="What A is compared with.")],
    results: Annotated[Path, typer.Option(help="The folder with the records of systems.")] = Path("results"),
    rule: Annotated[
        str | None, typer.Option(help="The selection rule of both.", show_default="of each system its own")
    ] = None,
) -> None:
    """Compare two systems or two runs on every algorithm that both have, and say which differences are significant."""

    from narkit.report.comparing import print_comparison, side

    with plain_errors():
        print_comparison(Console(), *(side(name, results, rule) for name in (first, second)))
