"""`narkit demo`: a run of an algorithm to look at, and TEAM trained on the CPU in about two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from narkit.cli.choices import examples, mistakes, plain_errors

if TYPE_CHECKING:
    from narkit.training.config import TrainConfig
    from narkit.training.record import RunRecord

ALGORITHM, RULE = "bfs", "ood"
SHOWN = ("dijkstra", 5, 1, 0.7)  # algorithm, size, seed and density of the run that is followed
ATTENDED = (ALGORITHM, 8, 1, 0.6)  # the same of the instance that the attention is drawn on

app = typer.Typer()


@app.command("demo", epilog=examples("narkit demo", "narkit demo --seed 1 --out pictures"))
def demo(
    out: Annotated[Path, typer.Option(help="The folder for pictures, record and network.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the network and of its training data.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="How many training steps.")] = 400,
) -> None:
    """Follow a run, then train TEAM on the CPU in about two minutes, score it and draw its attention."""
    with mistakes():
        config = demo_config(seed, steps=steps)
    with plain_errors("--out"):
        run_demo(Console(), out, config)


def demo_config(seed: int = 0, **options: object) -> TrainConfig:
    """Configures breadth-first search on graphs of up to 11 nodes, which a narrow network learns in half a minute."""
    from narkit.training.presets import preset

    settings = {"algorithms": (ALGORITHM,), "seeds": (seed,), "steps": 400, "validate_every": 20, "test": False}
    return preset("quick", **settings | options)


def run_demo(console: Console, folder: Path, config: TrainConfig) -> RunRecord:
    """Follows a run, trains, scores, and saves pictures, the record and the network."""
    from narkit.cli.show import print_run
    from narkit.cli.training_display import LiveDisplay
    from narkit.data.execution import random_run
    from narkit.models.serialization import save
    from narkit.report.evaluation import evaluate
    from narkit.report.picture import save_picture
    from narkit.report.published import published
    from narkit.report.training_pictures import save_attention, save_curves
    from narkit.training.run import train

    folder.mkdir(parents=True, exist_ok=True)
    followed = random_run(*SHOWN)
    print_run(console, followed)
    save_picture(followed, folder / f"{SHOWN[0]}.png")
    console.print(f"\ntraining TEAM on {ALGORITHM}: {config.steps} steps on graphs of up to {max(config.sizes)} nodes")
    with LiveDisplay(console) as display:
        record = train(config, callbacks=[display])
    (seed,) = config.seeds
    record.save(folder / "record.json")
    network = record.reasoner(RULE, seed)
    save(network, folder / f"{ALGORITHM}.safetensors")
    save_curves(record, folder / "learning_curves.png")
    save_attention(network, random_run(*ATTENDED), folder / "attention.png")
    console.print("scoring on the official test split: 32 graphs of 64 nodes")
    (tested,) = evaluate(folder / f"{ALGORITHM}.safetensors", None, None, None, hints=False)
    score = 100 * tested.seeds[0].outputs["score"]
    paper = published("team", "ood", ALGORITHM)
    assert paper is not None
    console.print(
        f"[bold]{ALGORITHM}: {score:.1f} %[/bold] after {record.steps} steps with a width of {config.hidden_size}; the "
        f"paper's TEAM reaches {paper.mean:.1f} ± {paper.std:.1f} % after 10,000 steps with 128",
        highlight=False,
    )
    console.print(f"pictures, record and network: {folder}", highlight=False)
    console.print("next: narkit train --help, narkit list, README.md", style="dim")
    return record
