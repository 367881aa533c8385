"""`narkit view`: a page that shows a network's run beside the textbook's, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narkit.cli import instances
from narkit.cli.choices import InstanceSeed, Weights, examples, known_algorithm, plain_errors, refuse
from narkit.cli.solve import CommandWithExamples, solved

DEFAULT_SIZE, DENSITY = 8, 0.6

app = typer.Typer()


@app.command(
    "view",
    cls=CommandWithExamples,
    context_settings={"ignore_unknown_options": True},  # -4 is a number
    epilog=examples(
        "narkit view dijkstra --edges cities.csv --source Ulm --out run.html",
        "narkit view quicksort 5 3 1 2",
        "narkit view dijkstra --size 8 --seed 1 --weights team/dijkstra",
        "narkit view kmp_matcher --help",
    ),
)
@instances.takes_instance
def view(
    context: typer.Context,
    algorithm: instances.Algorithm,
    size: Annotated[int | None, typer.Option(min=1, help="Size of a random instance.", show_default="about 8")] = None,
    seed: InstanceSeed = None,
    weights: Weights = None,
    out: Annotated[Path | None, typer.Option(help="The HTML file to write.", show_default="ALGORITHM.html")] = None,
) -> None:
    """Write a page that shows a network's run beside the textbook's, step by step: one file, for any browser.

    Takes an instance as `narkit solve` does, or makes a random one. Of team and team_plus it shows the attention, too.
    """
    import narkit
    from narkit.data.eventful import eventful_run, readable_size
    from narkit.data.execution import random_run
    from narkit.files import check_place
    from narkit.solve import weights as published
    from narkit.solve.viewer import View, page, run_of, run_of_answer

    name = known_algorithm(algorithm)
    own = instances.given_parameters(context.params)
    if own and (size is not None or seed is not None):
        refuse(None, "expected an instance of your own, or --size and --seed of a random one, got both")
    out = out or Path(f"{name}.html")
    with plain_errors(also=(TypeError,)):
        check_place(out)
        if own:
            run = run_of_answer(solved(name, weights, **instances.given_instance(name, own)))
        else:
            network = weights or published.best(name).name
            size = readable_size(name, DEFAULT_SIZE) if size is None else size
            truth = eventful_run(name, size, DENSITY) if seed is None else random_run(name, size, seed, DENSITY)
            run = run_of(truth, narkit.load(network), network=network)
        file = View(page(run)).save(out)
    typer.echo(f"{file}: {run.network} on {name}, {run.num_steps} steps; open it in a browser")
