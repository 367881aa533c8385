"""`narkit sweep`: from words on the command line to a grid of runs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from narkit.cli import choices
from narkit.cli.choices import comma_separated_algorithms, examples, mistakes, one_of, refuse
from narkit.cli.train import other_settings

if TYPE_CHECKING:
    from narkit.sweeps.cells import Cell
    from narkit.sweeps.executor import Executor

UNITS = {"s": 1, "m": 60, "h": 3600}

app = typer.Typer()


@app.command(
    "sweep",
    epilog=examples(
        "narkit sweep --preset paper --systems team,triplet_gmpnn --seeds 5 --out results/paper --plan",
        "narkit sweep --preset paper --systems team --seeds 5 --out results/paper --budget 9m --whole-cells",
        "narkit sweep --preset paper --systems team --seeds 5 --out results/paper --processes 3",
        "narkit sweep --preset quick --systems team,mpnn --algorithms bfs,bellman_ford --seeds 2 --out results/quick",
        "narkit sweep --preset paper --systems team --seeds 5 --out results/paper --on ray --gpus-per-cell 0.5",
        "narkit sweep --preset paper --out results/paper --status",
    ),
)
def sweep(
    preset: Annotated[
        str | None,
        typer.Option(
            help="The preset: paper, plus, development, quick, clrs2022 or yours.", show_default="that of the systems"
        ),
    ] = None,
    systems: Annotated[
        str, typer.Option(help="Registered systems or processors, with commas between.")
    ] = "team,triplet_gmpnn",
    algorithms: choices.Algorithms = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="The number of seeds, trained as one program.", show_default="those of the preset"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder of records and weights.", show_default="results/PRESET")
    ] = None,
    steps: choices.Steps = None,
    hidden_size: choices.HiddenSize = None,
    batch_size: choices.BatchSize = None,
    settings: choices.Settings = None,
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
        int | None,
        typer.Option(min=1, help="How many threads make data and compile.", show_default="one per core, at most 8"),
    ] = None,
    save_every: choices.SaveEvery = 30.0,
    processes: Annotated[
        int, typer.Option(min=1, help="Cells at a time, each in a process of its own, the longest first.")
    ] = 1,
    devices: choices.Devices = 1,
    on: Annotated[
        str | None, typer.Option(metavar="ray", help="Run the cells on a Ray cluster.", show_default="this machine")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Where the cluster is: auto, local, HOST:PORT or ray://HOST:PORT.", show_default="auto"),
    ] = None,
    gpus_per_cell: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="How many GPUs, or which share of one, a cell gets on the cluster.",
            show_default="1 where there are any",
        ),
    ] = None,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="Keep checkpoints of cells on the cluster here.")
    ] = None,
) -> None:
    """Train a grid, systems times algorithms, to one record each. Run again, it goes on where it stopped."""
    began = time.monotonic()
    seconds = parse_budget(budget)  # mistakes that are quick to find come first
    if whole_cells and seconds is None:
        refuse("--whole-cells", "expected --budget TIME with it")
    if plan and status:
        refuse("--plan", "expected --plan or --status, got both")
    if weights is not None and no_weights:
        refuse("--weights", "expected --weights or --no-weights, got both")
    cluster = {"address": address, "gpus_per_cell": gpus_per_cell, "storage": storage}
    check_places(on, cluster, processes, compile_ahead)

    from narkit.cli.sweep_display import print_plan, print_status, run
    from narkit.sweeps.cells import SweepDirectory, make_cells
    from narkit.sweeps.executor import SweepOptions
    from narkit.training.sharding import shares

    typed = {"steps": steps, "hidden_size": hidden_size, "batch_size": batch_size}
    given = {name: value for name, value in typed.items() if value is not None}
    names = [name.strip() for name in systems.split(",") if name.strip()]
    with mistakes():
        wanted = given | other_settings(settings or [], given)
        cells = make_cells(preset, names, comma_separated_algorithms(algorithms), seeds, wanted)
        for cell in cells:
            shares(cell.config, devices)  # whether there are so many devices, the cells find out
        kept = chosen_weights(weights, no_weights, cells)
        directory = SweepDirectory(out or _default_folder(cells))
        directory.check(cells)
    console = Console()
    if status:
        print_status(console, directory, cells)
    elif plan:
        print_plan(console, directory, cells)
    else:
        if seconds is not None:  # what loading JAX has taken counts
            seconds = max(0.0, seconds - (time.monotonic() - began))
        options = SweepOptions(seconds, whole_cells, retry_failed, compile_ahead, kept, threads, save_every, devices)
        executor = chosen_executor(on, cluster, processes)
        run(console, directory, cells, options, executor)


def check_places(on: str | None, cluster: dict[str, Any], processes: int, compile_ahead: bool | None) -> None:
    """Refuses options of where cells run that would have no effect, or that contradict each other."""
    if on not in (None, "ray"):
        refuse("--on", f"expected ray, or nothing for this machine, got {on!r}")
    for name, value in cluster.items():
        if on is None and value is not None:
            refuse(f"--{name.replace('_', '-')}", "has an effect only with --on ray")
    if on is not None and processes > 1:
        refuse("--processes", "has no effect beside --on ray, which runs as many cells as fit")
    if on is not None and compile_ahead is not None:
        refuse("--compile-ahead", "has no effect beside --on ray")
    if processes > 1 and compile_ahead is not None:
        refuse("--compile-ahead", "has no effect beside --processes: others train while a cell is compiled")


def chosen_executor(on: str | None, cluster: dict[str, Any], processes: int) -> Executor | None:
    """Returns the executor of the cells; None for this process."""
    if on is not None:
        with mistakes():
            from narkit.sweeps.executors.ray import Ray

            return Ray(**{name: value for name, value in cluster.items() if value is not None})
    if processes > 1:
        from narkit.sweeps.executors.processes import Processes

        return Processes(processes)
    return None


def parse_budget(text: str | None) -> float | None:
    """Reads a time such as `9m`, `90s` or `1h30m` in seconds."""
    if text is None:
        return None
    if not re.fullmatch(r"(\d+(\.\d+)?[smh])+", text):
        refuse("--budget", f"expected a time such as 9m, 90s or 1h30m, got {text!r}")
    total = sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)([smh])", text))
    if total <= 0:
        refuse("--budget", f"expected more than no time, got {text!r}")
    return total


def chosen_weights(weights: str | None, no_weights: bool, cells: Sequence[Cell]) -> frozenset[str] | None:
    """Returns the systems whose weights are kept; None for all."""
    if weights is None:
        return frozenset() if no_weights else None
    known = {cell.system.name for cell in cells}
    return frozenset(one_of("system of this sweep", name.strip(), known, "--weights") for name in weights.split(","))


def _default_folder(cells: Sequence[Cell]) -> Path:
    """Returns the folder `results/PRESET`."""
    presets = list(dict.fromkeys(cell.system.preset for cell in cells))
    if len(presets) > 1:
        refuse(
            "--systems",
            f"expected systems of one preset, got those of {' and '.join(presets)}, whose records lie in different "
            "folders; sweep them one after the other, or by one preset with --preset",
        )
    return Path("results") / presets[0]
