"""`narkit bench train`: how fast training steps are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narkit.cli import choices
from narkit.cli.choices import examples, given_options, mistakes, one_of, plain_errors, refuse

# What `bench train --reference-python` takes; the rest of that comparison is fixed.
COMPARED = ("reference_python", "processor", "steps", "hidden_size", "batch_size", "out")

# What `bench train` says by itself, and `--set` cannot.
ITS_OWN = frozenset(("algorithms", "processor", "sizes", "seeds", "hidden_size", "batch_size"))

app = typer.Typer()


@app.command(
    "train",
    epilog=examples(
        "narkit bench train --algorithm bfs --processor team --sizes 7 --seeds 1 --steps 5",
        "narkit bench train --algorithm bfs --processor team --sizes 7,16 --plain --profile traces",
        "narkit bench train --every-algorithm --processor team --steps 100 --budget 540 --out all --append",
        "narkit bench train --processor mpnn,pgn --preset clrs2022 --sizes 16 --seeds 3",
        "narkit bench train --algorithm optimal_bst --processor team_plus --preset plus --set edge_pointers=lossless",
        "narkit bench train --reference-python oracle/bin/python --steps 30 --out benchmarks/train_cpu",
    ),
)
def bench_train(
    context: typer.Context,
    algorithm: Annotated[str, typer.Option(help="Names, with commas between.")] = "bfs,articulation_points",
    processor: Annotated[str, typer.Option(help="Names, with commas between.")] = "team,triplet_gmpnn",
    sizes: choices.Sizes = "4,7,11,13,16",
    seeds: Annotated[int, typer.Option(min=1, help="The number of seeds, trained as one program.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Measured steps of each program.")] = 50,
    hidden_size: Annotated[int, typer.Option(min=1, help="Width of the networks.")] = 128,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples per step and seed.")] = 32,
    preset: Annotated[str, typer.Option(help="The preset whose settings of a step are measured.")] = "paper",
    settings: choices.Settings = None,
    out: choices.OutFiles = None,
    profile: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Leave traces here and print the kernels that take longest.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Measure TEAM written out in plain JAX, too.")] = False,
    every_algorithm: Annotated[
        bool,
        typer.Option(
            "--every-algorithm",
            help="Measure all algorithms, with validation and test, as `narkit sweep --plan` reads them.",
        ),
    ] = False,
    evaluation: Annotated[bool, typer.Option(help="With --every-algorithm: time validation and test.")] = True,
    budget: Annotated[float | None, typer.Option(min=0.0, help="Stop cleanly after so many seconds.")] = None,
    append: Annotated[bool, typer.Option("--append", help="Keep what OUT has already, and go on.")] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many threads compile.", show_default="one per core")
    ] = None,
    reference_python: Annotated[
        Path | None,
        typer.Option(help="An interpreter that has dm-clrs: compare with it on the CPU instead, on bfs at n = 16."),
    ] = None,
) -> None:
    """Measure training steps: kernels per processor step, times, compilations and memory."""
    from narkit.bench.train import BenchOptions
    from narkit.cli import bench_train_run as command
    from narkit.models.processors import PROCESSORS
    from narkit.training.config import parse_settings
    from narkit.training.presets import PRESETS

    processors = [one_of("processor", name.strip(), PROCESSORS) for name in processor.split(",")]
    one_of("preset", preset, PRESETS)
    _refuse_without_effect(given_options(context), processors)
    with mistakes():
        chosen = parse_settings(settings or [])
    for name in ITS_OWN.intersection(chosen):
        refuse("--set", f"expected {name} by an option of its own here, see narkit bench train --help")
    names = choices.comma_separated_algorithms(None if every_algorithm else algorithm)
    threads = threads or BenchOptions.threads
    measured = tuple(choices.comma_separated_sizes(sizes))
    evaluation = every_algorithm and evaluation
    options = BenchOptions(
        algorithms=tuple(names),
        processors=tuple(processors),
        sizes=measured,
        num_seeds=seeds,
        steps=steps,
        hidden_size=hidden_size,
        batch_size=batch_size,
        preset=preset,
        settings=chosen,
        plain=plain,
        evaluation=evaluation,
        threads=threads,
        together=max(1, threads // (len(measured) + 3 * evaluation)) if every_algorithm else 1,
        budget=budget,
    )
    if reference_python is not None:
        with plain_errors("--reference-python"):
            command.compare(reference_python, options, out)
        return
    with mistakes():
        for name in names:
            options.config(processors[0], name)  # sizes that an algorithm cannot have, before anything is compiled
    command.run(options, out, append, profile)


def _refuse_without_effect(given: dict[str, str], processors: list[str]) -> None:
    """Refuses options that would have no effect beside the others, or without them."""
    if "reference_python" in given and (unused := [given[name] for name in given if name not in COMPARED]):
        refuse(
            "--reference-python",
            f"expected none of {', '.join(unused)} with it: dm-clrs is compared on bfs at n = 16 with one seed; leave "
            "them out, or measure without --reference-python",
        )
    if "every_algorithm" in given and "algorithm" in given:
        refuse("--every-algorithm", "expected --algorithm or this, got both")
    if "evaluation" in given and "every_algorithm" not in given:
        refuse("--evaluation", "expected --every-algorithm with it, or neither")
    if "append" in given and "out" not in given:
        refuse("--append", "expected --out with it, the record to go on with")
    if "plain" in given and "team" not in processors:
        refuse(
            "--plain",
            f"expected team among the processors, got {', '.join(processors)}: only TEAM is written out in plain JAX; "
            "add it to --processor, or leave this out",
        )
    for option in ("preset", "settings"):
        if "plain" in given and option in given:
            refuse(
                given[option],
                "expected --plain or this, got both: TEAM in plain JAX has the settings of the preset paper",
            )
