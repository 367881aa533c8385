"""The command line: options and help. What a command does is in `narkit.commands`, imported when it runs."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from narkit import __version__
from narkit.commands.choices import (
    comma_separated_algorithms,
    comma_separated_sizes,
    known_algorithm,
    one_of,
    plain_errors,
)

SPLITS = ("train", "val", "test")


def _examples(*lines: str) -> str:
    """The end of a help text. Blank lines keep the examples apart, since Typer fills paragraphs."""
    return "Examples:\n\n" + "\n\n".join(f"  {line}" for line in lines)


app = typer.Typer(
    name="narkit",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Neural algorithmic reasoning on CLRS-30.",
    epilog=_examples(
        "narkit list",
        "narkit data show dijkstra --size 5 --seed 1",
        "narkit --import my_algorithms data show gnome_sort",
        "narkit train --algorithm bfs --preset quick",
        "narkit eval runs/bfs-team-quick --size 32",
        "narkit report results/ --out report/",
        "narkit demo",
    ),
)
data_app = typer.Typer(
    no_args_is_help=True,
    help="Look at trajectories and export them.",
    epilog=_examples("narkit data show bfs --size 6", "narkit data export bfs --split test --out bfs.npz"),
)
bench_app = typer.Typer(
    no_args_is_help=True,
    help="Measure how fast narkit is.",
    epilog=_examples(
        "narkit bench data",
        "narkit bench data --algorithms bfs,dijkstra --sizes 16",
        "narkit bench train --algorithm bfs --sizes 16",
    ),
)
records_app = typer.Typer(
    no_args_is_help=True,
    help="Look after the records of finished runs.",
    epilog=_examples("narkit records check results"),
)
app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")
app.add_typer(records_app, name="records")

AlgorithmName = Annotated[
    str, typer.Argument(metavar="ALGORITHM", callback=known_algorithm, help="A name from `narkit list`.")
]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"narkit {__version__}")
        raise typer.Exit


def _import_modules(names: list[str] | None) -> list[str]:
    """Imports the user's own modules, for the algorithms that they register; the current folder counts, too."""
    for name in names or []:
        sys.path.insert(0, os.getcwd())
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise typer.BadParameter(f"{error}; expected a module as in `import {name}`") from None
        finally:
            sys.path.remove(os.getcwd())
    return names or []


@app.callback()
def _options(
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", callback=_import_modules, help="Import your own algorithms first."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("list", epilog=_examples("narkit list", "narkit list | grep graphs"))
def list_algorithms() -> None:
    """The algorithms with category, probes and typical number of steps."""
    from rich.console import Console

    from narkit.commands.listing import print_list

    print_list(Console())


@data_app.command(
    "show",
    epilog=_examples(
        "narkit data show dijkstra --size 5 --seed 1",
        "narkit data show insertion_sort --size 6 --max-steps 3",
        "narkit data show bfs --size 6 --picture bfs.png",
    ),
)
def show(
    algorithm: AlgorithmName,
    size: Annotated[int, typer.Option(help="Nominal size of the instance.")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the instance.")] = 0,
    density: Annotated[float, typer.Option(min=0.0, max=1.0, help="Edge probability of random graphs.")] = 0.7,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Show only the first steps.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw the run and save it here (.png, .svg, .pdf).")] = None,
) -> None:
    """A run on a random instance, step by step, with the meaning of every hint."""
    from rich.console import Console

    from narkit.commands.show import print_run, random_run

    console = Console()
    with plain_errors("--size"):
        batch = random_run(algorithm, size, seed, density)
    print_run(console, batch, max_steps)
    if picture is not None:
        from narkit.commands.picture import save_picture

        with plain_errors("--picture"):
            save_picture(batch, picture)
        console.print(f"drawn: {picture}")


@data_app.command(
    "export",
    epilog=_examples(
        "narkit data export bfs --split test --out bfs.npz",
        "narkit data export dijkstra --split val --out dijkstra.npz --transformed --force",
    ),
)
def export(
    algorithm: AlgorithmName,
    out: Annotated[Path, typer.Option(help="The archive to write.")],
    split: Annotated[
        str, typer.Option(callback=lambda name: one_of("split", name, SPLITS), help="train, val or test.")
    ] = "test",
    transformed: Annotated[bool, typer.Option(help="As networks read it, rather than as published.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """An official split as a NumPy archive with the keys input_*, hint_*, output_* and lengths."""
    from narkit.commands.export import export_split

    with plain_errors("--out"):
        batch = export_split(algorithm, split, out, transformed=transformed, force=force)
    typer.echo(f"{out}: {batch!r}, {out.stat().st_size / 1e6:.2f} MB")


@bench_app.command(
    "data",
    epilog=_examples(
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
    algorithms: Annotated[str | None, typer.Option(help="Only these, with commas between.", show_default="all")] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time to spend on each measurement.")] = 1.0,
    out: Annotated[Path | None, typer.Option(help="Write OUT.json and OUT.md, too.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the record here.")] = None,
) -> None:
    """Microseconds per sample on one core, from a seed to a finished batch."""
    from rich.console import Console

    from narkit.benchmarking import data

    wanted = comma_separated_sizes(sizes)
    names = comma_separated_algorithms(algorithms)
    with plain_errors("--reference-python"):
        record = data.measure(names, wanted, seconds, reference_python, Console(stderr=True))
    data.print_table(Console(), record)
    if out is not None:
        data.write(out.with_suffix(".json"), data.as_json(record))
        data.write(out.with_suffix(".md"), data.as_markdown(record))
    if json is not None:
        data.write(json, data.as_json(record))


@bench_app.command(
    "train",
    epilog=_examples(
        "narkit bench train",
        "narkit bench train --algorithm bfs --processor team --sizes 7,16 --plain --profile traces",
        "narkit bench train --every-algorithm --processor team --steps 100 --budget 540 --append",
        "narkit bench train --reference-python oracle/bin/python --steps 30",
    ),
)
def bench_train(
    algorithm: Annotated[str, typer.Option(help="Names, with commas between.")] = "bfs,articulation_points",
    processor: Annotated[str, typer.Option(help="Names, with commas between.")] = "team,triplet_gmpnn",
    sizes: Annotated[str, typer.Option(help="Nominal sizes, with commas between.")] = "4,7,11,13,16",
    seeds: Annotated[int, typer.Option(min=1, help="How many, trained as one program.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Measured steps of each program.")] = 50,
    hidden_size: Annotated[int, typer.Option(min=1, help="Width of the networks.")] = 128,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples per step and seed.")] = 32,
    out: Annotated[
        Path | None,
        typer.Option(help="Where the record goes.", show_default="benchmarks/train.json, or train_cpu.json and .md"),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Leave traces here and print the kernels that take longest.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Measure TEAM written out in plain JAX, too.")] = False,
    every_algorithm: Annotated[
        bool,
        typer.Option("--every-algorithm", help="All algorithms, with validation and test: projects the whole column."),
    ] = False,
    evaluation: Annotated[bool, typer.Option(help="With --every-algorithm: time validation and test.")] = True,
    budget: Annotated[float | None, typer.Option(min=0.0, help="Stop cleanly after so many seconds.")] = None,
    append: Annotated[bool, typer.Option("--append", help="Keep what OUT has already, and go on.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="That compile.", show_default="one per core")] = None,
    reference_python: Annotated[
        Path | None,
        typer.Option(help="An interpreter that has dm-clrs: compare with it on the CPU instead, on bfs at n = 16."),
    ] = None,
) -> None:
    """Kernels per processor step, times, compilations and memory of training steps, forward + backward + Adam."""
    import dataclasses

    from narkit.benchmarking.train import Options
    from narkit.commands import bench_train as command
    from narkit.commands.train import mistakes
    from narkit.models.processors import PROCESSORS

    names = comma_separated_algorithms(None if every_algorithm else algorithm)
    processors = [one_of("processor", name.strip(), PROCESSORS) for name in processor.split(",")]
    if reference_python is not None:
        with plain_errors("--reference-python"):
            command.compare(command.wide_console(), reference_python, processors, steps, hidden_size, batch_size, out)
        return
    options = Options(
        algorithms=tuple(names),
        processors=tuple(processors),
        sizes=tuple(comma_separated_sizes(sizes)),
        num_seeds=seeds,
        steps=steps,
        hidden_size=hidden_size,
        batch_size=batch_size,
        plain=plain,
        evaluation=every_algorithm and evaluation,
        budget=budget,
    )
    if threads is not None:
        options = dataclasses.replace(options, threads=threads)
    if every_algorithm:
        together = max(1, options.threads // (len(options.sizes) + 3 * options.evaluation))
        options = dataclasses.replace(options, together=together)
    with mistakes():
        for name in names:
            options.config(processors[0], name)  # sizes that an algorithm cannot have, before anything is compiled
    with plain_errors("--out"):
        command.run(command.wide_console(), options, out or Path("benchmarks/train.json"), append, profile)


@app.command(
    "train",
    epilog=_examples(
        "narkit train --algorithm bfs --processor team --seeds 5 --preset paper --out runs/bfs-team",
        "narkit train --algorithm bfs,dfs,dijkstra --preset quick --steps 1000",
        "narkit train --algorithm minimum --processor pgn --preset clrs2022 --set gradient_clip=1.0",
        "narkit train --resume runs/bfs-team",
    ),
)
def train(
    algorithm: Annotated[str | None, typer.Option(help="A name, or several with commas between: one network.")] = None,
    processor: Annotated[str | None, typer.Option(help="A name of a processor.", show_default="the preset's")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many, trained as one program.")] = 1,
    preset: Annotated[str, typer.Option(help="paper, quick or clrs2022.")] = "paper",
    out: Annotated[
        Path | None, typer.Option(help="The folder of the run.", show_default="runs/ALGORITHM-PROCESSOR-PRESET")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="How many training steps.", show_default="the preset's")] = None,
    hidden_size: Annotated[int | None, typer.Option(help="Width of the network.", show_default="the preset's")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples per step.", show_default="the preset's")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other option of narkit.TrainConfig.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with the run in this folder.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write curves for TensorBoard, too.")] = False,
) -> None:
    """Train a reasoner, several seeds at once, and score what every selection rule chose on the official test split."""
    from rich.console import Console

    from narkit.commands import train as command

    console = Console()
    given = {"processor": processor, "steps": steps, "hidden_size": hidden_size, "batch_size": batch_size}
    if resume is not None:
        if algorithm or out or settings or any(value is not None for value in given.values()):
            raise typer.BadParameter("expected no options of the run; its folder has them", param_hint="--resume")
        from narkit.training.run_directory import RunDirectory

        with command.mistakes():
            config, folder = RunDirectory(resume).config(), resume
    else:
        if algorithm is None:
            raise typer.BadParameter("expected a name, or --resume RUN", param_hint="--algorithm")
        names = comma_separated_algorithms(algorithm)
        with command.mistakes():
            config = command.configuration(preset, names, given | {"seeds": tuple(range(seeds))}, settings or [])
        folder = out or Path("runs") / "-".join([*names, config.processor, preset])
    command.run_training(console, config, folder, tensorboard)


@app.command(
    "eval",
    epilog=_examples(
        "narkit eval runs/bfs-team",
        "narkit eval runs/bfs-team --size 128 --rule id",
        "narkit eval runs/bfs-team --no-hints --json scores.json",
    ),
)
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    size: Annotated[
        int | None, typer.Option(help="Nominal size of the instances.", show_default="64, the official test split")
    ] = None,
    rule: Annotated[str | None, typer.Option(help="The selection rule to score.", show_default="ood")] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="How many instances.", show_default="as many as the official split has")
    ] = None,
    hints: Annotated[bool, typer.Option(help="Score hints, too.")] = True,
    json: Annotated[Path | None, typer.Option(help="Write the scores here, too.")] = None,
) -> None:
    """Score a run on the official test split or at any size: micro-F1 per output and per hint."""
    from rich.console import Console

    from narkit.commands import evaluate as command
    from narkit.commands.train import clear_ends

    console = Console()
    with clear_ends(console, run):  # damaged checkpoints, wrong names
        evaluations = command.evaluate_run(run, size, rule, samples, hints)
    for evaluation in evaluations:
        command.print_evaluation(console, evaluation)
    if json is not None:
        with plain_errors("--json"):
            command.save_json(evaluations, json)


@app.command(
    "sweep",
    epilog=_examples(
        "narkit sweep --preset paper --systems team,triplet_gmpnn --seeds 5 --out results/paper --plan",
        "narkit sweep --preset paper --systems team --seeds 5 --out results/paper --budget 9m --whole-cells",
        "narkit sweep --preset quick --systems team,mpnn --algorithms bfs,minimum --seeds 2 --out results/quick",
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
) -> None:
    """Train a grid, systems times algorithms, to one record each. Run again, it goes on where it stopped."""
    began = time.monotonic()
    from narkit.commands.sweep import parse_budget

    seconds = parse_budget(budget)  # mistakes that are quick to find come first
    if whole_cells and seconds is None:
        raise typer.BadParameter("expected --budget TIME with it", param_hint="--whole-cells")
    if plan and status:
        raise typer.BadParameter("expected --plan or --status, got both", param_hint="--plan")

    from rich.console import Console

    from narkit.commands import sweep as command
    from narkit.experiments.sweep import SweepOptions

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
        command.run(console, directory, cells, preset, options)


@app.command(
    "report",
    epilog=_examples(
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
    from narkit.commands import report as command
    from narkit.experiments.grid import read_grid
    from narkit.experiments.learning import FREE

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
    "check", epilog=_examples("narkit records check results", "narkit records check results/paper --dry-run")
)
def check_records(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with records, at any depth.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Move nothing.")] = False,
) -> None:
    """Check every record and its weights. A damaged one is named and moved into set_aside/ beside it."""
    from rich.console import Console

    from narkit.commands.records import check_records

    with plain_errors("FOLDER"):
        check_records(Console(), folder, dry_run)


@app.command("demo", epilog=_examples("narkit demo", "narkit demo --seed 1 --out pictures"))
def demo(
    out: Annotated[Path, typer.Option(help="The folder for pictures, record and network.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the network and its training data.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="How many training steps.")] = 400,
) -> None:
    """Follow a run, then train TEAM on the CPU in about two minutes, score it and draw its attention."""
    from rich.console import Console

    from narkit.commands.demo import demo_config, run_demo

    with plain_errors("--out"):
        run_demo(Console(), out, demo_config(seed, steps=steps))


def main() -> None:
    """The entry point of the `narkit` script."""
    app(prog_name="narkit")
