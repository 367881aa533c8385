"""`narkit bench`: how fast narkit is; and its command for the making of data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from narkit.cli import bench_train, choices
from narkit.cli.choices import comma_separated_algorithms, comma_separated_sizes, examples, plain_errors, store

app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    help="Measure how fast narkit is.",
    epilog=examples(
        "narkit bench data",
        "narkit bench data --algorithms bfs,dijkstra --sizes 16",
        "narkit bench train --algorithm bfs --processor team --sizes 7 --seeds 1 --steps 5",
    ),
)


@app.command(
    "data",
    epilog=examples(
        "narkit bench data",
        "narkit bench data --sizes 16 --algorithms bfs,dijkstra",
        "narkit bench data --reference-python oracle/bin/python --out benchmarks/data",
    ),
)
def bench_data(
    reference_python: Annotated[
        Path | None, typer.Option(help="An interpreter that has dm-clrs, to time it in the same run.")
    ] = None,
    sizes: choices.Sizes = "16,64",
    algorithms: choices.Algorithms = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time to spend on each measurement.")] = 1.0,
    out: choices.OutFiles = None,
    json: choices.OutFile = None,
) -> None:
    """Measure the microseconds per sample on one core, from a seed to a finished batch."""

    from narkit.bench import data
    from narkit.files import write_with_folder

    wanted = comma_separated_sizes(sizes)
    names = comma_separated_algorithms(algorithms)
    with plain_errors():
        record = data.measure(names, wanted, seconds, reference_python, Console(stderr=True))
    page = data.page(record)
    page.print(Console())
    store(out, data.as_json(record), page.markdown())
    if json is not None:
        with plain_errors("--json"):
            write_with_folder(json, data.as_json(record))


app.add_typer(bench_train.app)
