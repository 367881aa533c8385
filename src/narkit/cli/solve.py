"""`narkit solve`: published networks on instances of one's own."""

from __future__ import annotations

import json
import warnings as python_warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from narkit.cli import choices, instances
from narkit.cli.choices import known_algorithm, plain_errors
from narkit.cli.help import examples

SHOWN_IN_HELP = ("dijkstra", "quicksort", "kmp_matcher", "graham_scan", "optimal_bst")

WORDS = "narkit.words"  # where a command's context keeps what was typed

app = typer.Typer()


def example_of(algorithm: str) -> str:
    from narkit.solve.examples import EXAMPLES

    return EXAMPLES[algorithm].command(algorithm)


class CommandWithExamples(TyperCommand):
    """A command whose help, asked for behind an algorithm, ends in the example of that algorithm."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = list(args)  # --help is answered before the other words are parsed
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from narkit.solve.examples import EXAMPLES

        algorithm = next((word for word in ctx.meta.get(WORDS, []) if word in EXAMPLES), None)
        if algorithm is not None:
            example = EXAMPLES[algorithm]
            paragraphs = [examples(example.command(algorithm).replace("narkit solve", f"narkit {self.name}"))]
            for name, text in example.files.items():
                paragraphs = [f"{name}:", *(f"  {line}" for line in text.splitlines()), *paragraphs]
            self.epilog = "\n\n".join(paragraphs)
        super().format_help(ctx, formatter)


@app.command(
    "solve",
    cls=CommandWithExamples,
    context_settings={"ignore_unknown_options": True},  # -4 is a number
    epilog=examples(*map(example_of, SHOWN_IN_HELP), "narkit solve dijkstra --help"),
)
def solve(
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
    many: Annotated[
        Path | None, typer.Option("--instances", metavar="FILE", help="Many instances: one JSON object a line.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="A name of `narkit weights`, or a file.", show_default="the best"),
    ] = None,
    as_json: choices.AsJson = False,
) -> None:
    """Let a trained network solve an instance of yours, with the algorithm's own answer beside it.

    The end of `narkit solve ALGORITHM --help` shows an instance of that algorithm.
    """
    import narkit
    from narkit.solve.problem import TrainingRangeWarning

    name = known_algorithm(algorithm)
    with plain_errors(also=(TypeError,)), python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore", TrainingRangeWarning)  # answers say them
        if many is None:
            answers: Any = narkit.solve(name, **instances.given_instance(name, context.params), weights=weights)
        else:
            if any(context.params.get(option) not in (None, [], ()) for option in instances.OPTIONS):
                raise typer.BadParameter("expected --instances alone, or one instance by the other options")
            answers = narkit.solve(name, instances=instances.read_instances(many), weights=weights)
    if as_json:
        made = answers.to_dict() if many is None else [answer.to_dict() for answer in answers]
        typer.echo(json.dumps(made, indent=2, ensure_ascii=False))
    else:
        typer.echo("\n\n".join(map(str, [answers] if many is None else answers)))
