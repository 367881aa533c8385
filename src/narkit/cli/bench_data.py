"""`narkit bench data`: how fast data is made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narkit.cli.choices import OutFile, OutFiles, comma_separated_algorithms, comma_separated_sizes, plain_errors, store
from narkit.cli.help import examples

app = typer.Typer()


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
    sizes: Annotated[str, typer.Option(help="Nominal sizes, with commas between.")] = "16,64",
    algorithms: Annotated[
        str | None, typer.Option(help="Only these algorithms, with commas between.", show_default="all")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time to spend on each measurement.")] = 1.0,
    out: OutFiles = None,
    json: OutFile = None,
) -> None:
    """Measure the microseconds per sample on one core, from a seed to a finished batch."""
    from rich.console import Console

    from narkit.bench import data
    from narkit.files import write_with_folder

    wanted = comma_separated_sizes(sizes)
    names = comma_separated_algorithms(algorithms)
    with plain_errors():
        record = data.measure(names, wanted, seconds, reference_python, Console(stderr=True))
    data.print_record(Console(), record)
    store(out, data.as_json(record), data.as_markdown(record))
    if json is not None:
        with plain_errors("--json"):
            write_with_folder(json, data.as_json(record))
