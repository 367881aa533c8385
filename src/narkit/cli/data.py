"""`narkit data`: looking at trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from narkit.cli.choices import InstanceSeed, examples, known_algorithm, one_of, plain_errors

SPLITS = ("train", "val", "test")

app = typer.Typer(
    name="data",
    no_args_is_help=True,
    help="Look at trajectories and export them.",
    epilog=examples("narkit data show bfs --size 6", "narkit data export bfs --split test --out bfs.npz"),
)

AlgorithmName = Annotated[
    str, typer.Argument(metavar="ALGORITHM", callback=known_algorithm, help="A name from `narkit list`.")
]


@app.command(
    "show",
    epilog=examples(
        "narkit data show dijkstra --size 5 --seed 1",
        "narkit data show insertion_sort --size 6 --max-steps 3",
        "narkit data show bfs --size 6 --picture bfs.png",
    ),
)
def show(
    algorithm: AlgorithmName,
    size: Annotated[
        int | None, typer.Option(help="Nominal size of the instance.", show_default="5, more where that is too little")
    ] = None,
    seed: InstanceSeed = None,
    density: Annotated[float, typer.Option(min=0.0, max=1.0, help="Edge probability of random graphs.")] = 0.7,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Show only the first steps.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw the run and save it here (.png, .svg, .pdf).")] = None,
) -> None:
    """Show a run on a random instance, step by step, with the meaning of every hint."""

    from narkit.cli.show import check_readable, print_run
    from narkit.data.eventful import eventful_run, readable_size
    from narkit.data.execution import random_run

    console = Console()
    if picture is not None:
        from narkit.report.picture import check_picture

        with plain_errors("--picture"):
            check_picture(picture)
    with plain_errors("--size"):
        nodes = readable_size(algorithm) if size is None else size
        batch = eventful_run(algorithm, nodes, density) if seed is None else random_run(algorithm, nodes, seed, density)
        check_readable(batch, max_steps)
    print_run(console, batch, max_steps)
    if picture is not None:
        from narkit.report.picture import save_picture

        with plain_errors("--picture"):
            save_picture(batch, picture)
        console.print(f"drawn: {picture}")


@app.command(
    "export",
    epilog=examples(
        "narkit data export bfs --split test --out bfs.npz",
        "narkit data export dijkstra --split val --out dijkstra.npz --transformed --force",
        "narkit data export quicksort --size 32 --count 1000 --seed 1000 --out quicksort.parquet",
    ),
)
def export(
    algorithm: AlgorithmName,
    out: Annotated[Path, typer.Option(help="The file to write; its name ends in .npz or .parquet.")],
    split: Annotated[
        str,
        typer.Option(
            callback=lambda name: one_of("split", name, SPLITS), help="Which official split: train, val or test."
        ),
    ] = "test",
    size: Annotated[
        int | None, typer.Option(help="Draw new samples of this nominal size instead of the published ones.")
    ] = None,
    count: Annotated[int | None, typer.Option(help="Draw this many new samples.")] = None,
    seed: Annotated[int | None, typer.Option(help="Draw new samples with this seed of NumPy's generator.")] = None,
    transformed: Annotated[
        bool, typer.Option(help="Write what networks read, rather than what the benchmark publishes.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write an official split, or new samples like it, as a NumPy archive or a Parquet table.

    Both have the names input_*, hint_* and output_*. With any of --size, --count and --seed the samples are drawn anew
    from the benchmark's distribution; what is not given is as in the split.
    """
    from narkit.interop import samples, tables

    with plain_errors("--out"):
        tables.check_place(out, force=force)
    with plain_errors():
        batch = samples.choose_batch(algorithm, split, size=size, count=count, seed=seed, transformed=transformed)
    with plain_errors("--out"):
        tables.write(batch, out, force=force)
    typer.echo(f"{out}: {batch!r}, {out.stat().st_size / 1e6:.2f} MB")
