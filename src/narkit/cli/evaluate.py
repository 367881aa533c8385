"""`narkit eval`: scores of a trained run, or of saved weights, on the official test split or at any size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from narkit.cli.choices import plain_errors
from narkit.cli.help import examples
from narkit.printing import print_table

if TYPE_CHECKING:
    from narkit.report.evaluation import Evaluation

app = typer.Typer()


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
        int | None,
        typer.Option(min=1, help="Nominal size of the instances.", show_default="64, the official test split"),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="The selection rule to score.", show_default="that of the paper's column")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="The number of instances.", show_default="as many as the official split has"),
    ] = None,
    hints: Annotated[bool, typer.Option(help="Score hints, too.")] = True,
    json: Annotated[Path | None, typer.Option(help="Write the scores here, too.")] = None,
) -> None:
    """Score a run, or saved weights, on the official test split or at any size: micro-F1 per output and per hint."""

    from narkit.cli.training_display import clear_ends
    from narkit.files import check_place
    from narkit.report import evaluation

    console = Console()
    if json is not None:
        with plain_errors("--json"):
            check_place(json)
    with clear_ends(console, run):  # damaged checkpoints, wrong names
        evaluations = evaluation.evaluate(run, size, rule, samples, hints)
    for each in evaluations:
        print_evaluation(console, each)
    if json is not None:
        with plain_errors("--json"):
            evaluation.save_json(evaluations, json)


def print_evaluation(console: Console, evaluation: Evaluation) -> None:
    """Prints the scores of every output and hint, with their spread over the seeds, and what the paper has."""
    import numpy as np

    from narkit.data.splits import SPLITS
    from narkit.report.grid import measured
    from narkit.report.published import published
    from narkit.report.rendering import text
    from narkit.spec import ALGORITHMS, Kind
    from narkit.sweeps.systems import main_rule

    def percent(label: str, values: list[float]) -> list[str]:
        scores = 100 * np.array(values)
        return [label, text(measured(scores)), "  ".join(f"{score:.1f}" for score in scores)]

    config, test, entry = evaluation.config, SPLITS["test"], ALGORITHMS[evaluation.algorithm]
    official = (evaluation.size, evaluation.num_samples) == (test.size, test.num_samples * entry.multiplier)
    where = "official test split" if official else f"{evaluation.num_samples} samples of size {evaluation.size}"
    which = f"rule {evaluation.rule}, {len(config.seeds)} seeds" if evaluation.rule else "one network"
    rows = []
    for name in evaluation.seeds[0].outputs:
        label = "mean of outputs" if name == "score" else f"output {name}"
        rows.append(percent(label, [scores.outputs[name] for scores in evaluation.seeds]))
    paper = published(config.processor, evaluation.rule or main_rule(config), evaluation.algorithm)
    if paper is not None and official:
        rows.append(["paper", text(paper), ""])
    for name in evaluation.seeds[0].hints:
        values = [scores.hints[name] for scores in evaluation.seeds]
        if entry.transformed_spec[name].kind is Kind.SCALAR:
            error = measured(np.array(values))
            spread = "" if error.std is None else f" ± {error.std:.2g}"
            mean, each = f"{error.mean:.2g}{spread} ({error.seeds})", "  ".join(f"{value:.2g}" for value in values)
            rows.append([f"hint {name} (squared error)", mean, each])
        else:
            rows.append(percent(f"hint {name}", values))
    title = f"{evaluation.algorithm}, {config.processor}: {where}, {which}, micro-F1 in %"
    print_table(console, ("probe", "mean ± std (seeds)", "each seed"), rows, title)
