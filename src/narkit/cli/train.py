"""`narkit train`: from words on the command line to a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from narkit.cli import choices
from narkit.cli.choices import comma_separated_algorithms, examples, given_options, mistakes, refuse

app = typer.Typer()

RESUMABLE = ("resume", "tensorboard", "wandb", "save_every", "devices")  # what may be said of a run that goes on


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
    seeds: Annotated[int, typer.Option(min=1, help="The number of seeds, trained as one program.")] = 1,
    preset: Annotated[str, typer.Option(help="The preset: paper, plus, development, quick or clrs2022.")] = "paper",
    out: Annotated[
        Path | None, typer.Option(help="The folder of the run.", show_default="runs/ALGORITHM-PROCESSOR-PRESET")
    ] = None,
    steps: choices.Steps = None,
    hidden_size: choices.HiddenSize = None,
    batch_size: choices.BatchSize = None,
    settings: choices.Settings = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with the run in this folder.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write curves for TensorBoard, too.")] = False,
    wandb: Annotated[bool, typer.Option("--wandb", help="Log curves with Weights & Biases, too.")] = False,
    save_every: choices.SaveEvery = 30.0,
    devices: choices.Devices = 1,
) -> None:
    """Train a reasoner, several seeds at once, and score what every selection rule chose on the official test split."""
    typed = given_options(context)
    if resume is not None:
        unused = [option for name, option in typed.items() if name not in RESUMABLE]
        if unused:
            refuse(
                "--resume",
                f"expected no options of the run, got {', '.join(unused)}: its folder has them; leave them out, or "
                "start another run without --resume",
            )
        from narkit.training.run_directory import RunDirectory

        with mistakes():
            config, folder = RunDirectory(resume).config(), resume
    else:
        if algorithm is None:
            refuse("--algorithm", "expected a name, or --resume RUN")
        from narkit.training import presets

        names = comma_separated_algorithms(algorithm)
        options = {"processor": processor, "steps": steps, "hidden_size": hidden_size, "batch_size": batch_size}
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        with mistakes():
            if "seeds" in typed:
                given["seeds"] = presets.seeds_of(preset, seeds)
            given["algorithms"] = tuple(names)
            config = presets.preset(preset, **given, **other_settings(settings or [], given))
        folder = out or Path("runs") / "-".join([*names, config.processor, preset])
    if devices > 1:
        from narkit.training.sharding import Shards

        with mistakes():
            Shards.over(config, devices)
    from narkit.cli.training_display import run_training

    run_training(config, folder, tensorboard, wandb, save_every, devices)


def other_settings(words: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Parses `--set` and refuses options that were also given by their own name."""
    from narkit.training.config import parse_settings

    parsed = parse_settings(words)
    for name in parsed:
        if name in given:
            option = "--algorithm" if name == "algorithms" else f"--{name.replace('_', '-')}"
            raise ValueError(f"expected {option} or --set {name}=…, got both; leave one out")
    return parsed
