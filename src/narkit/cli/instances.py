"""Instances on the command line: the options that `solve` and other commands take one by, and what they make of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

ALGORITHM = typer.Argument(metavar="ALGORITHM", is_eager=True, help="A name from `narkit list`.")
Values = Annotated[
    list[str] | None, typer.Argument(metavar="VALUES", help="Keys, numbers or dimensions, where these are given.")
]
Edges = Annotated[Path | None, typer.Option(help="A graph: CSV with from, to and, if edges have them, weights.")]
Matrix = Annotated[Path | None, typer.Option(help="A graph: CSV with its adjacency matrix, 0 where no edge is.")]
Source = Annotated[str | None, typer.Option(metavar="NODE", help="Where to start, for graphs.")]
Directed = Annotated[
    bool | None,
    typer.Option("--directed/--undirected", help="How to read edges.", show_default="as in the training"),
]
Target = Annotated[str | None, typer.Option(metavar="KEY", help="What to look for, for binary_search.")]
Text = Annotated[str | None, typer.Option(help="The text to search.")]
Pattern = Annotated[str | None, typer.Option(help="What to look for in the text.")]
First = Annotated[str | None, typer.Option(help="A string, for lcs_length.")]
Second = Annotated[str | None, typer.Option(help="Another string, for lcs_length.")]
Points = Annotated[Path | None, typer.Option(help="CSV with x, y, if need be with names in front.")]
Activities = Annotated[Path | None, typer.Option(help="CSV with start, finish, if need be with names in front.")]
Tasks = Annotated[Path | None, typer.Option(help="CSV with deadline, penalty, if need be with names in front.")]
Probabilities = Annotated[
    str | None, typer.Option(metavar="P,P,..", help="Probabilities of the keys, for optimal_bst.")
]
Gaps = Annotated[
    str | None, typer.Option(metavar="P,P,..", help="Probabilities of searches between the keys, for optimal_bst.")
]

OPTIONS = (
    "values", "edges", "matrix", "source", "directed", "target", "text", "pattern", "first", "second", "points",
    "activities", "tasks", "probabilities", "gaps",
)  # fmt: skip
VALUES = ("keys", "numbers", "dimensions")  # the parameters of problems that come as values


def given_instance(algorithm: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `narkit.solve`, from the parameters of a command. Nothing that was typed is left unused."""
    from narkit.errors import InstanceError
    from narkit.solve.problems import problem_of

    typed = {name: parameters[name] for name in OPTIONS if parameters.get(name) not in (None, [], ())}
    problem = problem_of(algorithm)
    given: dict[str, Any] = {}
    for name in problem.parameters:
        if name in VALUES:
            given[name] = _values(typed.pop("values", None), name, algorithm)
        elif name == "graph":
            given |= _graph(typed, algorithm)
        elif name in typed:
            given[name] = _parsed(name, typed.pop(name), given)
        elif name in OPTIONS:
            raise InstanceError(f"{algorithm} needs --{name}; {_example(algorithm)}")
        else:
            raise InstanceError(f'{algorithm} needs {name}; give it in a file, --instances FILE with {{"{name}": ...}}')
    if typed:
        unused = ", ".join("values" if name == "values" else f"--{name}" for name in typed)
        raise InstanceError(f"{algorithm} takes no {unused}; {_example(algorithm)}")
    return given


def read_instances(path: Path) -> list[dict[str, Any]]:
    """Instances in a file with one JSON object a line.

    For example {"keys": [3, 1, 2]}, or {"edges": [["a", "b", 1], ["b", "c", 2]], "source": "a"}.
    """
    from narkit.errors import InstanceError

    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InstanceError(f"{path}: expected a file with one JSON object a line: {why}") from None
    instances = []
    for place, line in enumerate(lines, 1):
        try:
            instance = json.loads(line)
        except ValueError as error:
            raise InstanceError(f"{path}, instance {place}: expected a JSON object, got {error}") from None
        if not isinstance(instance, dict):
            raise InstanceError(f"{path}, instance {place}: expected a JSON object, got {line[:40]!r}")
        if isinstance(instance.get("edges"), list):
            instance["graph"] = [tuple(edge) if isinstance(edge, list) else edge for edge in instance.pop("edges")]
        instances.append(instance)
    if not instances:
        raise InstanceError(f"{path}: expected at least one instance, got none")
    return instances


def _example(algorithm: str) -> str:
    from narkit.solve.examples import EXAMPLES

    return f"for example: {EXAMPLES[algorithm].command(algorithm)}" if algorithm in EXAMPLES else "see --help"


def _values(words: list[str] | None, what: str, algorithm: str) -> list[Any]:
    """Words as numbers where they are such."""
    from narkit.errors import InstanceError

    if not words:
        raise InstanceError(f"{algorithm} needs {what}; {_example(algorithm)}")
    for word in words:
        if word.startswith("--"):
            raise InstanceError(f"no option is named {word}; {_example(algorithm)}")
    return [_number_or_word(word) for word in words]


def _number_or_word(word: str) -> Any:
    for convert in (int, float):
        try:
            return convert(word)
        except ValueError:
            continue
    return word


def _graph(typed: dict[str, Any], algorithm: str) -> dict[str, Any]:
    from narkit.errors import InstanceError
    from narkit.solve.tables import read_numbers

    if ("edges" in typed) == ("matrix" in typed):
        raise InstanceError(f"{algorithm} needs either --edges or --matrix; {_example(algorithm)}")
    given: dict[str, Any] = {"graph": typed.pop("edges")} if "edges" in typed else {}
    if not given:
        given["graph"] = read_numbers(typed.pop("matrix"))
    if "directed" in typed:
        given["directed"] = typed.pop("directed")
    return given


def _parsed(name: str, word: Any, given: Mapping[str, Any]) -> Any:
    from narkit.errors import InstanceError
    from narkit.solve.tables import to_number

    if name in ("probabilities", "gaps"):
        return [to_number(part.strip(), f"--{name}") for part in word.split(",")]
    if name == "target":
        if all(isinstance(key, str) for key in given["keys"]):
            return word
        value = _number_or_word(word)
        if isinstance(value, str):
            raise InstanceError(f"--target: expected a number like the keys, got {word!r}")
        return value
    return word
