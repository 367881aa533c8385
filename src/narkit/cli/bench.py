"""`narkit bench`: how fast narkit is."""

from __future__ import annotations

import typer

from narkit.cli import bench_data, bench_train
from narkit.cli.help import examples

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
app.add_typer(bench_data.app)
app.add_typer(bench_train.app)
