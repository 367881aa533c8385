"""`narkit train`: from words on the command line to a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from narkit.cli import choices
from narkit.cli.choices import comma_separated_algorithms, given_options, mistakes, refuse
from narkit.cli.help import examples
from narkit.printing import print_line, print_table

if TYPE_CHECKING:
    from narkit.training.config import TrainConfig
    from narkit.training.record import RunRecord

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
    run_training(config, folder, tensorboard, wandb, save_every, devices)


def other_settings(words: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """What `--set` says; an option that was also given by its own name would be a silent choice between the two."""
    from narkit.training.config import parse_settings

    parsed = parse_settings(words)
    for name in parsed:
        if name in given:
            option = "--algorithm" if name == "algorithms" else f"--{name.replace('_', '-')}"
            raise ValueError(f"expected {option} or --set {name}=…, got both; leave one out")
    return parsed


def run_training(
    config: TrainConfig, out: Path, tensorboard: bool, wandb: bool, save_every: float, devices: int
) -> None:
    """Trains with a display and prints the result."""

    from narkit.cli.training_display import LiveDisplay, clear_ends
    from narkit.training.callbacks import Callback
    from narkit.training.run import train as run

    console = Console()
    display = LiveDisplay(console)
    callbacks: list[Callback] = [display]
    with mistakes():
        if tensorboard:
            from narkit.training.tensorboard import TensorBoard

            callbacks.append(TensorBoard(out / "tensorboard"))
        if wandb:
            from narkit.training.weights_and_biases import WeightsAndBiases

            callbacks.append(WeightsAndBiases(out / "wandb"))
    with clear_ends(console, out), display:
        record = run(config, out, callbacks=callbacks, save_every=save_every, devices=devices)
    print_record(console, record)
    print_line(console, f"record, metrics and checkpoints: {out}")


def print_record(console: Console, record: RunRecord) -> None:
    """The test scores of every rule, with their spread and the number of seeds, beside the paper's under that rule."""
    from narkit.report.grid import measured
    from narkit.report.published import published
    from narkit.report.rendering import text

    config = record.config
    tables = [(algorithm, "official test split", True) for algorithm in record.test]
    tables += [(algorithm, name, False) for name, found in record.scored.items() for algorithm in found]
    for algorithm, instances, official in tables:
        title = f"{algorithm}, {config.processor}: {instances}, {len(config.seeds)} seeds, micro-F1 in %"
        header = ("rule", "mean ± std (seeds)", *(["paper"] if official else []), "each seed", "chosen at step")
        rows = []
        for rule in record.rules:
            found = record.test_scores(algorithm, rule) if official else record.scores_on(instances, algorithm, rule)
            paper = [text(published(config.processor, rule, algorithm))] if official else []
            seeds = "  ".join(f"{score:.1f}" for score in found)
            rows.append([rule, text(measured(found)), *paper, seeds, "  ".join(map(str, record.selected[rule].steps))])
        print_table(console, header, rows, title)
    for d in record.diverged:
        console.print(f"seed {d.seed} diverged at step {d.step} on a batch of {d.algorithm}, size {d.size}")
    for s in record.skipped:
        console.print(f"seed {s.seed} skipped {len(s.steps)} steps on batches of {s.algorithm}, size {s.size}")
    print_line(
        console,
        f"{record.steps} steps in {record.timings.training:.0f} s, {100 * record.waiting_share:.1f} % of it waiting "
        f"for data; {100 * record.compiling_share:.0f} % of all time compiling; {record.device}",
    )
