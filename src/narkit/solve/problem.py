"""The interface of a problem to `narkit.solve`: how it reads an instance, and how it puts an answer in plain Python."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, assert_never

import numpy as np

from narkit.errors import InstanceError
from narkit.spec import Kind, Probe

MAX_NODES = 512
"""Larger instances are refused: time and memory of the networks grow with the cube of the number of nodes."""

SCALAR_TOLERANCE = 0.25
"""A predicted number within this of the true one counts as right: networks never hit one exactly."""

Label = Any
"""A caller's name of a node: a string, a number, anything that can be a key of a dictionary."""

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
    was mapped, `warnings` where the instance leaves what the networks know. `own` has inputs of the algorithm in the
    caller's units, kilometres say, as far as these are numbers: the viewer draws them.
    """

    arguments: dict[str, Any]
    labels: tuple[Label, ...]
    given: Any = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    own: Mapping[str, np.ndarray] = field(default_factory=dict)


class Problem(abc.ABC):
    """A kind of problem that one or more algorithms solve."""

    parameters: ClassVar[tuple[str, ...]]  # what an instance consists of, in the order in which `solve` takes it
    options: ClassVar[tuple[str, ...]] = ()  # what may be said besides
    judged_by: ClassVar[str] = ""  # the part of an answer that makes it right: its lengths, its cost; empty: all of it

    @abc.abstractmethod
    def read(self, given: Mapping[str, Any]) -> Instance:
        """Reads the instance in the training range from the caller's parameters and options by name.

        Raises an `InstanceError` where that cannot be.
        """

    @abc.abstractmethod
    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        """Converts outputs, true or predicted, to plain Python. Parts of predicted ones that make no sense are None."""

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        """Returns whether an answer is right even if it differs from the algorithm's, such as another shortest path."""
        return alike(plain[self.judged_by], truth[self.judged_by]) if self.judged_by else plain == truth

    @abc.abstractmethod
    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        """Formats a plain answer as text."""


def alike(a: Any, b: Any) -> bool:
    """Returns whether numbers are equal but for rounding, one by one if there are several; None equals only None."""
    if isinstance(a, dict):
        return alike([*a.values()], [*b.values()])
    if isinstance(a, list):
        return len(a) == len(b) and all(map(alike, a, b))
    return a is b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-9))


def bind(problem: Problem, algorithm: str, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Binds a call's arguments to the parameters of an instance by name."""
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
    return {name: _without_array(value) for name, value in bound.items()}


def _without_array(value: Any) -> Any:
    """Returns the value of an array without axes, which looks like a list and has no length; anything else as it is."""
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


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
    """Formats a value as answers print it."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (tuple, list)):
        brackets = "()" if isinstance(value, tuple) else "[]"
        return brackets[0] + ", ".join(map(shown, value)) + brackets[1]
    return str(value)


def wrong(probe: Probe, predicted: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Marks the values that differ and are not masked: one truth value per node, edge or graph (and step)."""
    predicted, truth = as_numbers(probe, predicted), as_numbers(probe, truth)
    if probe.kind is Kind.SCALAR:
        return np.abs(predicted - truth) > SCALAR_TOLERANCE
    return (truth != -1) & (predicted != truth)


def as_numbers(probe: Probe, values: np.ndarray) -> np.ndarray:
    """Converts values to one number each: the node of a one-hot mask, the class of a category, -1 if none is set."""
    match probe.kind:
        case Kind.MASK_ONE | Kind.CATEGORICAL:
            return np.where((values == 1).any(-1), values.argmax(-1), -1)
        case Kind.SCALAR | Kind.MASK | Kind.POINTER | Kind.SHOULD_BE_PERMUTATION | Kind.PERMUTATION_POINTER:
            return values
        case _:
            assert_never(probe.kind)


def labelled(probe: Probe, value: np.ndarray, labels: Sequence[Label]) -> Any:
    """Converts one value to plain Python, a node to the caller's name of it."""
    match probe.kind:
        case Kind.POINTER | Kind.SHOULD_BE_PERMUTATION | Kind.PERMUTATION_POINTER:
            return labels[int(value)]
        case Kind.MASK_ONE:
            return labels[int(value.argmax())]
        case Kind.CATEGORICAL:
            return int(value.argmax())
        case Kind.MASK:
            return bool(value > 0)
        case Kind.SCALAR:
            return float(value)
        case _:
            assert_never(probe.kind)
