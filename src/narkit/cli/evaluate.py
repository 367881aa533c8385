"""`narkit eval`: scores of a trained run, or of saved weights, on the official test split or at any size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from narkit.cli.choices import examples, plain_errors

app = typer.Typer()


@app.command(
    "eval",
    epilog=examples(
        "narkit eval runs/bfs-team",
        "narkit eval runs/bfs-team --size 128 --rule id",
        "narkit eval runs/bfs-team --no-hints --json scores.json",
        "narkit eval results/paper/team/bfs.safetensors",
    ),
)
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, or a file of weights.")],
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Nominal size of the instances.", show_default="64, the official test split"),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="The selection rule to score.", show_default="that of its column in the tables")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="The number of instances.", show_default="as many as the official split has"),
    ] = None,
    hints: Annotated[bool, typer.Option(help="Score hints, too.")] = True,
    json: Annotated[Path | None, typer.Option(help="Write the scores here, too.")] = None,
) -> None:
    """Score a run, or saved weights, on the official test split or at any size: micro-F1 per output and per hint."""

    from narkit.cli.training_display import clear_ends
    from narkit.files import check_place
    from narkit.report import evaluation

    console = Console()
    if json is not None:
        with plain_errors("--json"):
            check_place(json)
    with clear_ends(console, run):  # damaged checkpoints, wrong names
        evaluations = evaluation.evaluate(run, size, rule, samples, hints)
    for each in evaluations:
        evaluation.print_evaluation(console, each)
    if json is not None:
        with plain_errors("--json"):
            evaluation.save_json(evaluations, json)
