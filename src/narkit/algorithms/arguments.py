"""The arguments of algorithms: their types, and the checks that an instance must pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from narkit.errors import InstanceError

Check = Callable[[str, np.ndarray, Mapping[str, np.ndarray]], None]


@dataclass(frozen=True)
class Argument:
    """One argument: what it is in words, its number of axes, its type, and checks `(name, value, all values)`."""

    what: str
    ndim: int
    dtype: type
    checks: tuple[Check, ...] = ()

    def read(self, name: str, value: Any) -> np.ndarray:
        """Returns the value as an array of the right type and rank; raises an error that says what was expected."""
        try:
            array = np.asarray(value)
            exact = array.astype(self.dtype)
        except (TypeError, ValueError) as error:
            raise InstanceError(f"argument {name!r}: expected {self.what}, got {value!r}") from error
        if array.ndim != self.ndim:
            raise InstanceError(
                f"argument {name!r}: expected {self.what} ({self.ndim} axes), got an array of shape {array.shape}"
            )
        if array.dtype.kind not in "biuf":
            raise InstanceError(f"argument {name!r}: expected {self.what}, got values of type {array.dtype}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InstanceError(
                f"argument {name!r}: expected finite numbers, got NaN or infinity; remove or replace them"
            )
        if np.issubdtype(self.dtype, np.integer) and not np.array_equal(exact, array):
            raise InstanceError(f"argument {name!r}: expected {self.what} (whole numbers), got {array!r}")
        return np.ascontiguousarray(exact).reshape(array.shape)


def keys(*checks: Check, what: str = "a vector of numbers") -> Argument:
    return Argument(what, 1, np.float64, checks)


def number(*checks: Check, what: str = "a number") -> Argument:
    return Argument(what, 0, np.float64, checks)


def whole_numbers(*checks: Check, what: str = "a vector of whole numbers") -> Argument:
    return Argument(what, 1, np.int64, checks)


def string(alphabet_size: int, *checks: Check) -> Argument:
    what = f"a string: a vector of characters 0..{alphabet_size - 1}"
    return Argument(what, 1, np.int64, (within(0, alphabet_size - 1), not_empty, *checks))


def matrix(*checks: Check, what: str = "a square matrix of edge weights, 0 where no edge is") -> Argument:
    return Argument(what, 2, np.float64, (square, *checks))


def source(*checks: Check, graph: str = "A") -> Argument:
    """Returns an argument that is a node of the graph in argument `graph`."""

    def is_node(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
        num_nodes = len(values[graph])
        if not 0 <= value < num_nodes:
            raise InstanceError(f"argument {name!r}: expected a node in 0..{num_nodes - 1}, got {value}")

    return Argument("the index of a node", 0, np.int64, (is_node, *checks))


def square(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    if value.shape[0] != value.shape[1]:
        raise InstanceError(f"argument {name!r}: expected a square matrix, got shape {value.shape}")


def symmetric(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    unequal = np.argwhere(value != value.T)
    if len(unequal):
        i, j = unequal[0]
        raise InstanceError(
            f"argument {name!r}: expected a symmetric matrix (an undirected graph), got {name}[{i}, {j}] = "
            f"{value[i, j]} but {name}[{j}, {i}] = {value[j, i]}; "
            f"symmetrise it, for example with np.maximum({name}, {name}.T)"
        )


def nonnegative(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    if (value < 0).any():
        raise InstanceError(f"argument {name!r}: expected no negative values, got the minimum {value.min()}")


def ascending(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    falls = np.flatnonzero(np.diff(value) < 0)
    if len(falls):
        i = falls[0]
        raise InstanceError(
            f"argument {name!r}: expected sorted numbers, got {value[i]} before {value[i + 1]} at {i}; sort them first"
        )


def not_empty(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    if value.size == 0:
        raise InstanceError(f"argument {name!r}: expected at least one element, got none")


def within(low: float, high: float) -> Check:
    def check(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
        if value.size and not (low <= value.min() and value.max() <= high):
            raise InstanceError(
                f"argument {name!r}: expected values in {low}..{high}, got values in {value.min()}..{value.max()}"
            )

    return check


def same_length_as(other: str, difference: int = 0) -> Check:
    """Returns a check that the length is that of `other` plus `difference`."""

    def check(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
        expected = len(values[other]) + difference
        if len(value) != expected:
            raise InstanceError(
                f"argument {name!r}: expected {expected} elements to go with {len(values[other])} of {other!r}, "
                f"got {len(value)}"
            )

    return check


def acyclic(name: str, value: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    left = nodes_behind_cycles(value != 0)
    if left.any():
        raise InstanceError(
            f"argument {name!r}: expected a graph without cycles, got a cycle among the nodes "
            f"{np.flatnonzero(left).tolist()}"
        )


def nodes_behind_cycles(has_edge: np.ndarray) -> np.ndarray:
    """Returns which nodes lie on or behind a cycle: those that remain when nodes without incoming edges are removed."""
    left = np.ones(len(has_edge), bool)
    while (removable := left & ~has_edge[left].any(axis=0)).any():
        left &= ~removable
    return left
