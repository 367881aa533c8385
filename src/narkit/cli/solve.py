"""`narkit solve`: published networks on instances of one's own."""

from __future__ import annotations

import json
import warnings as python_warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from narkit.cli import instances
from narkit.cli.choices import AsJson, Weights, examples, known_algorithm, plain_errors, refuse
from narkit.solve.examples import EXAMPLES

SHOWN_IN_HELP = ("dijkstra", "quicksort", "kmp_matcher", "graham_scan", "optimal_bst")

WORDS = "narkit.words"  # where a command's context keeps what was typed

app = typer.Typer()


class CommandWithExamples(TyperCommand):
    """A command whose help, asked for behind an algorithm, ends in the example of that algorithm."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = list(args)  # --help is answered before the other words are parsed
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
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
    epilog=examples(*(EXAMPLES[name].command(name) for name in SHOWN_IN_HELP), "narkit solve dijkstra --help"),
)
@instances.takes_instance
def solve(
    context: typer.Context,
    algorithm: instances.Algorithm,
    many: Annotated[
        Path | None, typer.Option("--instances", metavar="FILE", help="Many instances: one JSON object a line.")
    ] = None,
    weights: Weights = None,
    as_json: AsJson = False,
) -> None:
    """Let a trained network solve an instance of yours, with the algorithm's own answer beside it.

    The end of `narkit solve ALGORITHM --help` shows an instance of that algorithm.
    """
    name = known_algorithm(algorithm)
    with plain_errors(also=(TypeError,)):
        if many is None:
            answers = [solved(name, weights, **instances.given_instance(name, context.params))]
        elif instances.given_parameters(context.params):
            refuse(None, "expected --instances alone, or one instance by the other options")
        else:
            answers = solved(name, weights, instances=instances.read_instances(many))
    if as_json:
        made = [answer.to_dict() for answer in answers]
        typer.echo(json.dumps(made[0] if many is None else made, indent=2, ensure_ascii=False))
    else:
        typer.echo("\n\n".join(map(str, answers)))


def solved(algorithm: str, weights: str | None, **instance: Any) -> Any:
    """Calls `narkit.solve` without its warnings, which answers show themselves."""
    import narkit
    from narkit.solve.problem import TrainingRangeWarning

    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore", TrainingRangeWarning)
        return narkit.solve(algorithm, **instance, weights=weights)
