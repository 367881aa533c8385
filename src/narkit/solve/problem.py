"""What `narkit.solve` has to know of a kind of problem: how to read an instance, and how to say an answer plainly."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from narkit.errors import InstanceError

MAX_NODES = 512
"""Larger instances are refused: time and memory of the networks grow with the cube of the number of nodes."""

SCALAR_TOLERANCE = 0.25
"""A predicted number within this of the true one counts as right: networks never hit one exactly."""

Label = Any
"""What a caller calls a node: a string, a number, anything that can be a key of a dictionary."""

Outputs = Mapping[str, np.ndarray]
"""Raw outputs of one instance, by the name of the probe, without a batch axis."""

Plain = dict[str, Any]
"""An answer in plain Python under the caller's labels."""


class TrainingRangeWarning(UserWarning):
    """An instance unlike those that the networks were trained or measured on."""


@dataclass
class Instance:
    """An instance as it is run, with what is needed to speak of it as its owner does.

    `arguments` are those of `narkit.run`, in the range that the networks were trained on; `labels` has the caller's
    name of every node; `given` is what the problem keeps of the caller's values to express answers in. `notes` say what
    was mapped, `warnings` where the instance leaves what the networks know.
    """

    arguments: dict[str, Any]
    labels: tuple[Label, ...]
    given: Any = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Problem(abc.ABC):
    """A kind of problem that one or more algorithms solve."""

    parameters: ClassVar[tuple[str, ...]]  # what an instance consists of, in the order in which `solve` takes it
    options: ClassVar[tuple[str, ...]] = ()  # what may be said besides

    @abc.abstractmethod
    def read(self, given: Mapping[str, Any]) -> Instance:
        """The instance in the training range, from the caller's parameters and options by name.

        Raises an `InstanceError` where that cannot be.
        """

    @abc.abstractmethod
    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        """Outputs, true or predicted, in plain Python. Predicted ones may make no sense; then parts are None."""

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        """Whether an answer that may differ from the algorithm's is right, too, such as another shortest path."""
        return plain == truth

    @abc.abstractmethod
    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        """A plain answer as text."""


def bind(problem: Problem, algorithm: str, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an instance by name, from a call's arguments."""
    expected = ", ".join(problem.parameters)
    if len(positional) > len(problem.parameters):
        raise TypeError(f"{algorithm}: expected {expected}; got {len(positional)} values without a name")
    bound = dict(zip(problem.parameters, positional, strict=False))
    for name, value in named.items():
        if name in bound:
            raise TypeError(f"{algorithm}: {name} was given twice")
        if name not in (*problem.parameters, *problem.options):
            raise TypeError(
                f"{algorithm}: expected {expected}"
                + (f" (and {', '.join(problem.options)} if need be)" if problem.options else "")
                + f"; got the unknown {name!r}"
            )
        bound[name] = value
    missing = [name for name in problem.parameters if name not in bound]
    if missing:
        raise TypeError(f"{algorithm}: expected {expected}; missing: {', '.join(missing)}")
    return bound


def check_size(num_nodes: int, what: str = "nodes", fewest: int = 2) -> None:
    """Refuses sizes that no network can take, before anything is allocated for them."""
    if num_nodes < fewest:
        raise InstanceError(f"expected at least {fewest} {what}, got {num_nodes or 'none'}")
    if num_nodes > MAX_NODES:
        raise InstanceError(
            f"expected at most {MAX_NODES} {what}, got {num_nodes}: time and memory grow with the cube of the size, "
            "and no network was measured there; take a part of the instance"
        )


def shown(value: Any) -> str:
    """A value as answers print it."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (tuple, list)):
        brackets = "()" if isinstance(value, tuple) else "[]"
        return brackets[0] + ", ".join(map(shown, value)) + brackets[1]
    return str(value)
