"""`narkit solve` and `narkit weights`: published networks on instances of one's own."""

from __future__ import annotations

import contextlib
import json
import warnings as python_warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from narkit.cli import instances
from narkit.cli.choices import known_algorithm
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


@contextlib.contextmanager
def plain_refusals() -> Iterator[None]:
    """Turns errors about an instance or about weights into one line and exit code 2."""
    from narkit.errors import InstanceError, UnknownNameError
    from narkit.solve.weights import WeightsError

    try:
        yield
    except (InstanceError, UnknownNameError, WeightsError, TypeError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    except ValueError as error:
        if type(error).__name__ != "ModelFileError":  # its module would load JAX
            raise
        raise typer.BadParameter(str(error)) from None


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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")] = False,
) -> None:
    """Let a trained network solve an instance of yours, with the algorithm's own answer beside it.

    The end of `narkit solve ALGORITHM --help` shows an instance of that algorithm.
    """
    import narkit
    from narkit.solve.problem import TrainingRangeWarning

    name = known_algorithm(algorithm)
    with plain_refusals(), python_warnings.catch_warnings():
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


@app.command("weights", epilog=examples("narkit weights", "narkit weights dijkstra", "narkit weights --json"))
def weights(
    algorithm: Annotated[
        str | None, typer.Argument(metavar="[ALGORITHM]", help="Only those for this algorithm.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")] = False,
) -> None:
    """List the published weights, the best for each algorithm first: score, size, SHA-256 and record.

    The score is that on the official test split. NARKIT_WEIGHTS names another folder to look in.
    """
    from narkit.solve.weights import folders, published

    with plain_refusals():
        found = published(None if algorithm is None else known_algorithm(algorithm))
        rows = [entry.summary() for entry in sorted(found, key=lambda entry: entry.algorithm)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        typer.echo(f"no weights in {', '.join(map(str, folders()))}")
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        score = "not tested" if row["score"] is None else f"{100 * row['score']:8.2f} %"
        state = "" if row["agrees_with_record"] is not False else "  DIFFERS FROM ITS RECORD"
        size = f"{row['bytes'] / 1e6:6.2f} MB"
        typer.echo(f"{row['name']:{width}}  {score:>10}  {size}  {row['sha256']}  {row['record'] or '-'}{state}")
