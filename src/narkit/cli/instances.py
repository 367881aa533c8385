"""Instances on the command line: the options that `solve` and other commands take one by, and what they make of it."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from narkit.errors import InstanceError
from narkit.solve.examples import EXAMPLES

Algorithm = Annotated[str, typer.Argument(metavar="ALGORITHM", is_eager=True, help="A name from `narkit list`.")]

OPTIONS: dict[str, Any] = {
    "values": Annotated[
        list[str] | None, typer.Argument(metavar="VALUES", help="Keys, numbers or dimensions, where these are given.")
    ],
    "edges": Annotated[Path | None, typer.Option(help="A graph: CSV with from, to and, if edges have them, weights.")],
    "matrix": Annotated[Path | None, typer.Option(help="A graph: CSV with its adjacency matrix, 0 where no edge is.")],
    "source": Annotated[str | None, typer.Option(metavar="NODE", help="Where to start, for graphs.")],
    "directed": Annotated[
        bool | None,
        typer.Option("--directed/--undirected", help="How to read edges.", show_default="as in the training"),
    ],
    "target": Annotated[str | None, typer.Option(metavar="KEY", help="What to look for, for binary_search.")],
    "text": Annotated[str | None, typer.Option(help="The text to search.")],
    "pattern": Annotated[str | None, typer.Option(help="What to look for in the text.")],
    "first": Annotated[str | None, typer.Option(help="A string, for lcs_length.")],
    "second": Annotated[str | None, typer.Option(help="Another string, for lcs_length.")],
    "points": Annotated[Path | None, typer.Option(help="CSV with x, y, if need be with names in front.")],
    "activities": Annotated[Path | None, typer.Option(help="CSV with start, finish, if need be with names in front.")],
    "tasks": Annotated[Path | None, typer.Option(help="CSV with deadline, penalty, if need be with names in front.")],
    "probabilities": Annotated[
        str | None, typer.Option(metavar="P,P,..", help="Probabilities of the keys, for optimal_bst.")
    ],
    "gaps": Annotated[
        str | None, typer.Option(metavar="P,P,..", help="Probabilities of searches between the keys, for optimal_bst.")
    ],
}
VALUES = ("keys", "numbers", "dimensions")  # the parameters of problems that come as values


def takes_instance(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of an instance, behind ALGORITHM; `given_parameters` finds them in its context."""
    signature = inspect.signature(command, eval_str=True)
    context, algorithm, *others = signature.parameters.values()
    own = [algorithm.replace(name=name, annotation=kind, default=None) for name, kind in OPTIONS.items()]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(**{name: value for name, value in given.items() if name not in OPTIONS})

    run.__signature__ = signature.replace(parameters=[context, algorithm, *own, *others])  # type: ignore[attr-defined]
    return run


def given_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a command that describe an instance and were typed."""
    return {name: parameters[name] for name in OPTIONS if parameters.get(name) not in (None, [], ())}


def given_instance(algorithm: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `narkit.solve` from a command's parameters. Nothing that was typed is left unused."""
    from narkit.solve.problems import problem_of

    left, given = given_parameters(parameters), {}
    for name in problem_of(algorithm).parameters:
        if name in VALUES:
            given[name] = _values(left.pop("values", None), name, algorithm)
        elif name == "graph":
            given |= _graph(left, algorithm)
        elif name in left:
            given[name] = _parsed(name, left.pop(name), given)
        elif name in OPTIONS:
            raise InstanceError(f"{algorithm} needs --{name}; {_example(algorithm)}")
        else:
            raise InstanceError(f'{algorithm} needs {name}; give it in a file, --instances FILE with {{"{name}": ...}}')
    if left:
        unused = ", ".join("values" if name == "values" else f"--{name}" for name in left)
        raise InstanceError(f"{algorithm} takes no {unused}; {_example(algorithm)}")
    return given


def read_instances(path: Path) -> list[dict[str, Any]]:
    """Reads the instances in a file with one JSON object a line.

    For example {"keys": [3, 1, 2]}, or {"edges": [["a", "b", 1], ["b", "c", 2]], "source": "a"}.
    """
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
    return f"for example: {EXAMPLES[algorithm].command(algorithm)}" if algorithm in EXAMPLES else "see --help"


def _values(words: list[str] | None, what: str, algorithm: str) -> list[Any]:
    """Reads words as numbers where they are numbers."""
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


def _graph(left: dict[str, Any], algorithm: str) -> dict[str, Any]:
    from narkit.solve.tables import read_numbers

    if ("edges" in left) == ("matrix" in left):
        raise InstanceError(f"{algorithm} needs either --edges or --matrix; {_example(algorithm)}")
    given = {"graph": left.pop("edges") if "edges" in left else read_numbers(left.pop("matrix"))}
    return given | ({"directed": left.pop("directed")} if "directed" in left else {})


def _parsed(name: str, word: Any, given: Mapping[str, Any]) -> Any:
    from narkit.solve.tables import to_number

    if name in ("probabilities", "gaps"):
        return [to_number(part.strip(), f"--{name}") for part in word.split(",")]
    if name == "target" and not all(isinstance(key, str) for key in given["keys"]):
        word = _number_or_word(word)
        if isinstance(word, str):
            raise InstanceError(f"--target: expected a number like the keys, got {word!r}")
    return word
