"""Maps into the range that the networks were trained on. None of them changes an answer.

Networks have seen weights and keys between 0 and 1, and points in a small disk; weights of 10 in place of 0.1 make them
fail. Sums are scaled by powers of two, which floating-point numbers take without rounding, so that every comparison
comes out as before. Where only the order counts, numbers become evenly spaced ones in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from narkit.errors import InstanceError

LOWEST_RANK, HIGHEST_RANK = 0.05, 0.95


def numbers(values: Any, what: str) -> np.ndarray:
    """Reads a vector of finite numbers, or raises an error that names the first value that is none."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise InstanceError(f"{what}: expected a list of numbers, got {brief(values)}")
    items = values.tolist() if isinstance(values, np.ndarray) else list(values)
    for place, item in enumerate(items):
        number(item, f"{what}, number {place + 1} of {len(items)}")
    return np.array([float(item) for item in items], np.float64)


def number(value: Any, what: str) -> float:
    """Reads a finite number."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InstanceError(f"{what}: expected a number, got {brief(value)} of type {type(value).__name__}")
    try:
        as_float = float(value)
    except OverflowError:
        as_float = float("inf")
    if not np.isfinite(as_float):
        raise InstanceError(f"{what}: expected a finite number, got {brief(value)}; remove or replace it")
    return as_float


def power_of_two(largest: float) -> float:
    """Returns the power of two that takes `largest` into [0.5, 1), or 1 if it lies there already or is 0."""
    if largest == 0.0 or 0.5 <= largest <= 1.0:
        return 1.0
    _, exponent = np.frexp(largest)
    if abs(exponent) > 500:
        raise InstanceError(f"expected numbers between 1e-150 and 1e150 in size, got {largest:g}; scale them yourself")
    return float(2.0**-exponent)


def scaled(values: np.ndarray, what: str, notes: list[str]) -> tuple[np.ndarray, float]:
    """Returns the values times a power of two, so that the largest is between 0.5 and 1, and that factor."""
    factor = power_of_two(float(np.abs(values).max(initial=0.0)))
    if factor != 1.0:
        action = f"divided by {1 / factor:.17g}" if factor < 1 else f"multiplied by {factor:.17g}"
        notes.append(f"{what} were {action}, into the range of the training; the answer does not depend on the scale")
    return values * factor, factor


def are_known(values: np.ndarray) -> bool:
    """Returns whether these are numbers as in training: from [0, 1) and different, also as float32."""
    in_range = values.min(initial=0.0) >= 0.0 and values.max(initial=0.0) < 1.0
    return bool(in_range) and len(np.unique(values.astype(np.float32))) == len(values)


def ranked(values: np.ndarray, what: str, notes: list[str]) -> np.ndarray:
    """Replaces numbers by evenly spaced ones between 0 and 1 in the same order; of equal values the earlier is smaller.

    Different values from [0, 1) stay as they are.
    """
    return values if are_known(values) else _spaced(values.tolist(), what, notes)


def ranked_keys(keys: Sequence[Any], notes: list[str]) -> np.ndarray:
    """Does the same as `ranked` for keys of any type that Python can order."""
    if all(isinstance(key, float) or (isinstance(key, int) and abs(key) < 2**53) for key in keys):
        return ranked(np.array(keys, np.float64), "keys", notes)
    return _spaced(keys, "keys", notes)


def _spaced(values: Sequence[Any], what: str, notes: list[str]) -> np.ndarray:
    ties = "" if len(set(values)) == len(values) else "; equal ones are told apart by their place in the input"
    notes.append(f"{what} were replaced by evenly spaced numbers between 0 and 1 in the same order{ties}")
    return evenly_spaced(values)


def evenly_spaced(values: Sequence[Any]) -> np.ndarray:
    """Returns evenly spaced numbers in the order of the values; of equal ones the earlier has the smaller."""
    numbers = np.empty(len(values))
    numbers[sorted(range(len(values)), key=values.__getitem__)] = np.linspace(LOWEST_RANK, HIGHEST_RANK, len(values))
    return numbers


def brief(value: Any, most: int = 60) -> str:
    """Formats a value as error messages quote it."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python refuses to write whole numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= most else f"{text[:most]}…"


def listed(labels: Sequence[Any], most: int = 6) -> str:
    """Formats some labels with commas between, and says how many are left out."""
    texts = [label if isinstance(label, str) and len(label) < 60 else brief(label) for label in labels[:most]]
    left = len(labels) - len(texts)
    return ", ".join(texts) + (f" and {left} more" if left > 0 else "")
