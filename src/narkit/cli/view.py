"""`narkit view`: a page that shows a network's run beside the textbook's, step by step."""

from __future__ import annotations

import warnings as python_warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narkit.cli import instances
from narkit.cli.choices import known_algorithm, plain_errors
from narkit.cli.help import examples
from narkit.cli.solve import CommandWithExamples

if TYPE_CHECKING:
    from narkit.solve.viewer import Run

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
def view(
    context: typer.Context,
    algorithm: Annotated[str, instances.ALGORITHM],
    values: instances.Values = None,
    edges: instances.Edges = None,
    matrix: instances.Matrix = None,
    source: instances.Source = None,
    directed: instances.Directed = None,
    target: instances.Target = None,
    text: instances.Text = None,
    pattern: instances.Pattern = None,
    first: instances.First = None,
    second: instances.Second = None,
    points: instances.Points = None,
    activities: instances.Activities = None,
    tasks: instances.Tasks = None,
    probabilities: instances.Probabilities = None,
    gaps: instances.Gaps = None,
    size: Annotated[int | None, typer.Option(min=1, help="Size of a random instance.", show_default="about 8")] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=2**32 - 1, help="Seed of a random instance.", show_default="one in which something happens"
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="A name of `narkit weights`, or a file.", show_default="the best")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The HTML file to write.", show_default="ALGORITHM.html")] = None,
) -> None:
    """Write a page that shows a network's run beside the textbook's, step by step: one file, for any browser.

    Takes an instance as `narkit solve` does, or makes a random one. Networks with attention (team) show that, too.
    """
    from narkit.files import check_place
    from narkit.solve.viewer import View, page

    name = known_algorithm(algorithm)
    own = [option for option in instances.OPTIONS if context.params.get(option) not in (None, [], ())]
    if own and (size is not None or seed is not None):
        raise typer.BadParameter("expected an instance of your own, or --size and --seed of a random one, got both")
    with plain_errors(also=(TypeError,)):
        check_place(out or Path(f"{name}.html"))
        run = _own_run(name, context, weights) if own else _random_run(name, size, seed, weights)
        file = View(page(run)).save(out or f"{name}.html")
    typer.echo(f"{file}: {run.network} on {name}, {run.num_steps} steps; open it in a browser")


def _own_run(algorithm: str, context: typer.Context, weights: str | None) -> Run:
    import narkit
    from narkit.solve.problem import TrainingRangeWarning
    from narkit.solve.viewer import run_of_answer

    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore", TrainingRangeWarning)  # the page says them
        answer = narkit.solve(algorithm, **instances.given_instance(algorithm, context.params), weights=weights)
    return run_of_answer(answer)


def _random_run(algorithm: str, size: int | None, seed: int | None, weights: str | None) -> Run:
    import narkit
    from narkit.data.eventful import eventful_run, readable_size
    from narkit.data.execution import random_run
    from narkit.solve import weights as published
    from narkit.solve.viewer import run_of

    chosen = weights or published.best(algorithm).name
    size = readable_size(algorithm, DEFAULT_SIZE) if size is None else size
    truth = eventful_run(algorithm, size, DENSITY) if seed is None else random_run(algorithm, size, seed, DENSITY)
    return run_of(truth, narkit.load(chosen), network=chosen)
