"""`narkit sweep`, `report` and `records`: from many runs to tables."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from narkit.cli.choices import (
    comma_separated_algorithms,
    plain_errors,
)
from narkit.cli.help import examples

app = typer.Typer()
records_app = typer.Typer(
    no_args_is_help=True,
    help="Look after the records of finished runs.",
    epilog=examples("narkit records check results"),
)
app.add_typer(records_app, name="records")


@app.command(
    "sweep",
    epilog=examples(
        "narkit sweep --preset paper --systems team,triplet_gmpnn --seeds 5 --out results/paper --plan",
        "narkit sweep --preset paper --systems team --seeds 5 --out results/paper --budget 9m --whole-cells",
        "narkit sweep --preset paper --systems team --seeds 5 --out results/paper --processes 3",
        "narkit sweep --preset quick --systems team,mpnn --algorithms bfs,bellman_ford --seeds 2 --out results/quick",
        "narkit sweep --preset paper --out results/paper --status",
    ),
)
def sweep(
    preset: Annotated[str, typer.Option(help="paper, quick or clrs2022.")] = "paper",
    systems: Annotated[str, typer.Option(help="Processors, with commas between.")] = "team,triplet_gmpnn",
    algorithms: Annotated[str | None, typer.Option(help="Only these, with commas between.", show_default="all")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many, trained as one program.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="The folder of records and weights.", show_default="results/PRESET")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="How many training steps.", show_default="the preset's")] = None,
    hidden_size: Annotated[int | None, typer.Option(help="Width of the network.", show_default="the preset's")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples per step.", show_default="the preset's")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other option of narkit.TrainConfig.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Predict time, memory and compilations; run nothing.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Say where every cell stands; run nothing.")] = False,
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="Stop and save after e.g. 9m or 1h30m.")] = None,
    whole_cells: Annotated[
        bool, typer.Option("--whole-cells", help="Start no cell that is predicted not to fit into the budget.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed cells again.")] = False,
    weights: Annotated[
        str | None, typer.Option(metavar="SYSTEMS", help="Keep weights of these only.", show_default="all")
    ] = None,
    no_weights: Annotated[bool, typer.Option("--no-weights", help="Keep no weights.")] = False,
    compile_ahead: Annotated[
        bool | None, typer.Option(help="Compile the next cell while one trains.", show_default="on a GPU")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="That make data and compile.", show_default="one per core, at most 8")
    ] = None,
    save_every: Annotated[float, typer.Option(min=0.0, help="Seconds between checkpoints, at least.")] = 30.0,
    processes: Annotated[
        int, typer.Option(min=1, help="Cells at a time, each in a process of its own, the longest first.")
    ] = 1,
) -> None:
    """Train a grid, systems times algorithms, to one record each. Run again, it goes on where it stopped."""
    began = time.monotonic()
    from narkit.cli.sweep import parse_budget

    seconds = parse_budget(budget)  # mistakes that are quick to find come first
    if whole_cells and seconds is None:
        raise typer.BadParameter("expected --budget TIME with it", param_hint="--whole-cells")
    if plan and status:
        raise typer.BadParameter("expected --plan or --status, got both", param_hint="--plan")
    if processes > 1 and compile_ahead is not None:
        raise typer.BadParameter(
            "has no effect beside --processes: others train while a cell is compiled", param_hint="--compile-ahead"
        )

    from rich.console import Console

    from narkit.cli import sweep as command
    from narkit.sweeps.sweep import SweepOptions

    given = {"steps": steps, "hidden_size": hidden_size, "batch_size": batch_size}
    cells = command.grid(preset, systems, comma_separated_algorithms(algorithms), seeds, given, settings or [])
    kept = command.chosen_weights(weights, no_weights, cells)
    directory = command.checked_directory(out or Path("results") / preset, cells)
    console = Console()
    if status:
        command.print_status(console, directory, cells)
    elif plan:
        command.print_plan(console, directory, cells)
    else:
        if seconds is not None:  # what loading JAX has taken counts
            seconds = max(0.0, seconds - (time.monotonic() - began))
        options = SweepOptions(seconds, whole_cells, retry_failed, compile_ahead, kept, threads, save_every)
        if processes > 1:
            command.run_side_by_side(console, directory, cells, processes, preset, options)
        command.run(console, directory, cells, preset, options)


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
    preset: Annotated[str, typer.Option(help="Whose records to read: RESULTS/PRESET/SYSTEM/ALGORITHM.json.")] = "paper",
    validation: Annotated[str, typer.Option(help="The validation set of the learning curves.")] = "ood",
    empty: Annotated[bool, typer.Option("--empty", help="Also without any record: all is shown as not run.")] = False,
) -> None:
    """The paper's tables and figures from records, each value beside the paper's; and the documents that show them."""
    from narkit.cli import report as command
    from narkit.report.grid import read_grid
    from narkit.report.learning import FREE

    if check and out is None and readme is None and reproduction is None and learning is None:
        raise typer.BadParameter("expected --readme, --reproduction or --learning with it", param_hint="--check")
    if learning is not None and not (out is None and readme is None and reproduction is None):
        # Runs of any length must not get into what shows the preset's.
        raise typer.BadParameter("expected none of --out, --readme and --reproduction with it", param_hint="--learning")
    with command.clear_errors():
        grid = read_grid(results, preset, empty=empty, free=FREE if learning is not None else ())
        if check:
            problems = command.outdated(grid, readme, reproduction, learning)
            for problem in problems:
                typer.echo(problem)
            raise typer.Exit(1 if problems else 0)
        if learning is not None:
            written = command.write_part(grid, command.LEARNING, learning)
        else:
            written = command.write(grid, out, readme, reproduction, validation)
    for line in command.summary(grid, written):
        typer.echo(line)


@records_app.command(
    "check", epilog=examples("narkit records check results", "narkit records check results/paper --dry-run")
)
def check_records(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with records, at any depth.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Move nothing.")] = False,
) -> None:
    """Check every record and its weights. A damaged one is named and moved into set_aside/ beside it."""
    from rich.console import Console

    from narkit.cli.records import check_records

    with plain_errors("FOLDER"):
        check_records(Console(), folder, dry_run)
