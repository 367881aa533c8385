"""`narkit train`, `eval` and `demo`: single runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narkit.cli.choices import (
    comma_separated_algorithms,
    given_options,
    mistakes,
    plain_errors,
)
from narkit.cli.help import examples

app = typer.Typer()


@app.command(
    "train",
    epilog=examples(
        "narkit train --algorithm bfs --processor team --seeds 5 --preset paper --out runs/bfs-team",
        "narkit train --algorithm bfs,dfs,dijkstra --preset quick --steps 1000",
        "narkit train --algorithm minimum --processor pgn --preset clrs2022 --set gradient_clip=1.0",
        "narkit train --resume runs/bfs-team",
    ),
)
def train(
    context: typer.Context,
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

    from narkit.cli import train as command

    console = Console()
    given = {"processor": processor, "steps": steps, "hidden_size": hidden_size, "batch_size": batch_size}
    if resume is not None:
        unused = [option for name, option in given_options(context).items() if name not in ("resume", "tensorboard")]
        if unused:
            raise typer.BadParameter(
                f"expected no options of the run, got {', '.join(unused)}: its folder has them; leave them out, or "
                "start another run without --resume",
                param_hint="--resume",
            )
        from narkit.training.run_directory import RunDirectory

        with mistakes():
            config, folder = RunDirectory(resume).config(), resume
    else:
        if algorithm is None:
            raise typer.BadParameter("expected a name, or --resume RUN", param_hint="--algorithm")
        names = comma_separated_algorithms(algorithm)
        with mistakes():
            config = command.configuration(preset, names, given | {"seeds": tuple(range(seeds))}, settings or [])
        folder = out or Path("runs") / "-".join([*names, config.processor, preset])
    command.run_training(console, config, folder, tensorboard)


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
        int | None, typer.Option(help="Nominal size of the instances.", show_default="64, the official test split")
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="The selection rule to score.", show_default="that of the paper's column")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="How many instances.", show_default="as many as the official split has")
    ] = None,
    hints: Annotated[bool, typer.Option(help="Score hints, too.")] = True,
    json: Annotated[Path | None, typer.Option(help="Write the scores here, too.")] = None,
) -> None:
    """Score a run, or saved weights, on the official test split or at any size: micro-F1 per output and per hint."""
    from rich.console import Console

    from narkit.cli import evaluate as command
    from narkit.cli.train import clear_ends

    console = Console()
    with clear_ends(console, run):  # damaged checkpoints, wrong names
        evaluations = command.evaluate(run, size, rule, samples, hints)
    for evaluation in evaluations:
        command.print_evaluation(console, evaluation)
    if json is not None:
        with plain_errors("--json"):
            command.save_json(evaluations, json)


@app.command("demo", epilog=examples("narkit demo", "narkit demo --seed 1 --out pictures"))
def demo(
    out: Annotated[Path, typer.Option(help="The folder for pictures, record and network.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the network and its training data.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="How many training steps.")] = 400,
) -> None:
    """Follow a run, then train TEAM on the CPU in about two minutes, score it and draw its attention."""
    from rich.console import Console

    from narkit.cli.demo import demo_config, run_demo

    with plain_errors("--out"):
        run_demo(Console(), out, demo_config(seed, steps=steps))
