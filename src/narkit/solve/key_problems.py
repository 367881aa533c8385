"""Problems on lists of keys or numbers: sorting, searching, the maximum subarray."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from narkit.errors import InstanceError
from narkit.solve import ranges
from narkit.solve.problem import Instance, Outputs, Plain, Problem, check_size, shown
from narkit.solve.ranges import brief, listed


def read_keys(values: Any) -> list[Any]:
    """Reads keys that can be ordered: all numbers or all strings."""
    items = read_items(values, "keys", "a list of numbers, or of strings")
    kinds = {isinstance(item, str) for item in items}
    if len(kinds) > 1:
        number = next(item for item in items if not isinstance(item, str))
        string = next(item for item in items if isinstance(item, str))
        raise InstanceError(
            f"keys: expected numbers only or strings only, got both: {brief(number)} and {brief(string)}"
        )
    if kinds == {False}:
        ranges.numbers(items, "keys")
    return items


def read_items(values: Any, what: str, expected: str = "a list of numbers") -> list[Any]:
    """Reads the values one by one, as they were given."""
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise InstanceError(f"{what}: expected {expected}, got {brief(values)}")
    items = values.tolist() if hasattr(values, "tolist") else list(values)
    check_size(len(items), what)
    return items


class KeyProblem(Problem):
    """A problem on keys of which only the order counts."""

    parameters: ClassVar[tuple[str, ...]] = ("keys",)

    def read(self, given: Mapping[str, Any]) -> Instance:
        keys = read_keys(given["keys"])
        notes: list[str] = []
        own = {} if isinstance(keys[0], str) else {"key": np.array(keys, float)}
        return Instance({"A": ranges.ranked_keys(keys, notes)}, tuple(keys), keys, notes, own=own)


class Sorting(KeyProblem):
    """insertion_sort, bubble_sort, heapsort, quicksort."""

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        """Returns the keys in the order of the pointers. Two nodes with the same predecessor cannot both follow it."""
        pointers = list(enumerate(outputs["pred"].tolist()))
        following = {before: node for node, before in reversed(pointers) if before != node}  # the first of several
        order: list[int] = []
        node = next((node for node, before in pointers if before == node), None)
        while node is not None and node not in order:
            order.append(node)
            node = following.get(node)
        left_out = [key for node, key in enumerate(instance.given) if node not in order]
        plain: Plain = {"sorted": [instance.given[node] for node in order], "order": order}
        return plain | ({"left_out": left_out} if left_out else {})

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        return plain["sorted"] == truth["sorted"]  # equal keys may have changed places

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        left_out = plain.get("left_out", [])
        return [
            "sorted: " + " ".join(map(shown, plain["sorted"])),
            *([f"left out by its pointers: {listed(left_out)}"] if left_out else []),
        ]


class Selecting(KeyProblem):
    """One key of a list: minimum, quickselect."""

    def __init__(self, output: str, name: str):
        self.output, self.name = output, name

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        index = int(outputs[self.output].argmax())
        return {self.name: instance.given[index], "index": index}

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        return plain[self.name] == truth[self.name]

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return [f"{self.name}: {shown(plain[self.name])}, at index {plain['index']}"]


class Searching(Problem):
    """A number in sorted numbers: binary_search."""

    parameters: ClassVar[tuple[str, ...]] = ("keys", "target")

    def read(self, given: Mapping[str, Any]) -> Instance:
        keys, target = read_keys(given["keys"]), given["target"]
        if isinstance(target, str) != isinstance(keys[0], str):
            raise InstanceError(f"target: expected one like the keys, {brief(keys[0])}, got {brief(target)}")
        if not isinstance(target, str):
            ranges.number(target, "target")
        for place, (key, after) in enumerate(itertools.pairwise(keys)):
            if after < key:
                raise InstanceError(
                    f"keys: expected sorted keys, got {shown(key)} before {shown(after)} at index {place}; sort them"
                )
        instance = Instance({}, tuple(keys), (keys, target))
        if not isinstance(target, str):
            instance.own = {"key": np.array(keys, float), "target": np.array(target, float)}
        is_known = not isinstance(target, str) and 0 <= target < 1 and all(0 <= key < 1 for key in keys)
        if is_known and len(set(keys)) == len(keys):
            instance.arguments |= {"x": target, "A": np.array(keys, np.float64)}
            return instance
        # Evenly spaced keys; the target comes just before the first that is not below it.
        below = sum(key < target for key in keys)
        count = len(keys)
        instance.arguments |= {"x": below / count, "A": (np.arange(count) + 0.5) / count}
        instance.notes.append("keys and target were replaced by evenly spaced numbers from 0 to 1 in the same order")
        return instance

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        keys, target = instance.given
        index = int(outputs["return"].argmax())
        return {"index": index, "key": keys[index], "found": bool(keys[index] == target)}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        found = "the target" if plain["found"] else "not the target itself"
        return [f"place of {shown(instance.given[1])}: index {plain['index']}, key {shown(plain['key'])} ({found})"]


class Subarray(Problem):
    """The run of neighbours with the largest sum: find_maximum_subarray_kadane."""

    parameters: ClassVar[tuple[str, ...]] = ("numbers",)
    judged_by: ClassVar[str] = "sum"

    def read(self, given: Mapping[str, Any]) -> Instance:
        numbers = read_items(given["numbers"], "numbers")
        values = ranges.numbers(numbers, "numbers")
        notes: list[str] = []
        mapped, _ = ranges.scaled(values, "numbers", notes)
        return Instance({"A": mapped}, tuple(numbers), numbers, notes, own={"key": values})

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        start, end = int(outputs["start"].argmax()), int(outputs["end"].argmax())
        run = instance.given[start : end + 1]
        return {"start": start, "end": end, "run": run, "sum": sum(run) if run else None}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        run = " ".join(map(shown, plain["run"])) or "nothing: it would end before it starts"
        return [f"from index {plain['start']} to {plain['end']}: {run}", f"sum: {shown(plain['sum'])}"]


KEY_PROBLEMS: dict[str, Problem] = {
    **dict.fromkeys(("insertion_sort", "bubble_sort", "heapsort", "quicksort"), Sorting()),
    "minimum": Selecting("min", "minimum"),
    "quickselect": Selecting("median", "median"),
    "binary_search": Searching(),
    "find_maximum_subarray_kadane": Subarray(),
}
