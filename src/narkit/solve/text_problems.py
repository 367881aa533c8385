"""Problems on two strings. The networks know four letters; which ones they are plays no part.

A letter that the other string does not have can never match, so all such letters of a string can be made one without
changing any comparison. Texts of many letters pass in this way if few of them matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from narkit.algorithms.instances import ALPHABET_SIZE
from narkit.errors import InstanceError
from narkit.solve.problem import Instance, Outputs, Plain, Problem, check_size
from narkit.solve.ranges import brief

ARROWS = ("↖", "↑", "←")


def _letters(value: Any, what: str) -> list[Any]:
    if isinstance(value, (bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise InstanceError(f"{what}: expected a string, or a list of letters, got {brief(value)}")
    letters = list(value)
    for letter in letters:
        if not isinstance(letter, (str, int, float)):
            raise InstanceError(f"{what}: expected strings or numbers as letters, got {brief(letter)}")
    if not letters:
        raise InstanceError(f"{what}: expected at least one letter, got none")
    return letters


def _numbered(
    first: list[Any], second: list[Any], mergeable: tuple[set[Any], ...], notes: list[str]
) -> list[np.ndarray]:
    """Converts both strings to numbers of letters. Each set of `mergeable` letters may become a single one."""
    letters = list(dict.fromkeys([*second, *first]))
    numbers: dict[Any, int] = {}
    if len(letters) > ALPHABET_SIZE:
        merged = [group for group in mergeable if len(group) > 1]
        for letter in letters:
            group = next((group for group in merged if letter in group), {letter})
            known = [numbers[other] for other in group if other in numbers]
            numbers[letter] = known[0] if known else len(set(numbers.values()))
        matter = [letter for letter in letters if not any(letter in group for group in mergeable)]
        count = len(set(numbers.values()))
        if count > ALPHABET_SIZE:
            raise InstanceError(
                f"expected at most {ALPHABET_SIZE} letters, which is what the networks know, got {len(letters)}, of "
                f"which {count} have to be told apart ({', '.join(map(repr, matter))} occur in both); shorten the "
                "strings or map their letters to fewer"
            )
        names = ["".join(map(str, sorted(map(str, group)))) for group in merged]
        notes.append(f"letters that cannot match were made one: {', '.join(names)}; no comparison changes by this")
    else:
        numbers = {letter: place for place, letter in enumerate(letters)}
    return [np.array([numbers[letter] for letter in string]) for string in (first, second)]


def _is_within(letters: Sequence[Any], string: list[Any]) -> bool:
    """Returns whether letters occur in a string in this order."""
    rest = iter(string)
    return all(any(letter == other for other in rest) for letter in letters)


class Matching(Problem):
    """The search for the first place of a pattern in a text: naive_string_matcher, kmp_matcher."""

    parameters: ClassVar[tuple[str, ...]] = ("text", "pattern")

    def read(self, given: Mapping[str, Any]) -> Instance:
        text, pattern = _letters(given["text"], "text"), _letters(given["pattern"], "pattern")
        if len(pattern) > len(text):
            raise InstanceError(
                f"pattern: expected one no longer than the text ({len(text)} letters), got {len(pattern)} letters; "
                "shorten it, or exchange the two"
            )
        check_size(len(text) + len(pattern), "letters")
        notes: list[str] = []
        haystack, needle = _numbered(text, pattern, (set(text) - set(pattern),), notes)
        return Instance({"T": haystack, "P": needle}, (*text, *pattern), len(text), notes)

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        position = int(outputs["match"].argmax())
        return {"position": position if position < instance.given else None}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        position, length = plain["position"], len(instance.labels) - instance.given
        if position is None:
            return ["the pattern does not occur"]
        text = "".join(map(str, instance.labels[: instance.given]))
        marks = " " * position + "^" * length
        return [f"the pattern occurs at position {position}", text, marks]


class CommonSubsequence(Problem):
    """The longest common subsequence of two strings: lcs_length."""

    parameters: ClassVar[tuple[str, ...]] = ("first", "second")

    def read(self, given: Mapping[str, Any]) -> Instance:
        first, second = _letters(given["first"], "first"), _letters(given["second"], "second")
        check_size(len(first) + len(second), "letters")
        as_text = isinstance(given["first"], str) and isinstance(given["second"], str)
        only = (set(first) - set(second), set(second) - set(first))
        notes: list[str] = []
        x, y = _numbered(first, second, only, notes)
        return Instance({"x": x, "y": y}, (*first, *second), (first, second, as_text), notes)

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        first, second, as_text = instance.given
        arrows = outputs["b"][: len(first), len(first) :, :3].argmax(-1)
        chosen = []
        i, j = len(first) - 1, len(second) - 1
        while i >= 0 and j >= 0:
            match arrows[i, j]:
                case 0:
                    chosen.append(first[i])
                    i, j = i - 1, j - 1
                case 1:
                    i -= 1
                case _:
                    j -= 1
        subsequence = chosen[::-1]
        return {
            "length": len(subsequence),
            "subsequence": "".join(subsequence) if as_text else subsequence,
            "arrows": [[ARROWS[arrow] for arrow in row] for row in arrows],
        }

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        strings = instance.given[:2]
        found = plain["length"] == truth["length"]
        return found and all(_is_within(plain["subsequence"], string) for string in strings)

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        first, second, _ = instance.given
        rows = [f"{letter} {' '.join(row)}" for letter, row in zip(first, plain["arrows"], strict=True)]
        return [
            f"longest common subsequence: {plain['subsequence']!r}, of length {plain['length']}",
            "  " + " ".join(map(str, second)),
            *rows,
        ]


TEXT_PROBLEMS: dict[str, Problem] = {
    "naive_string_matcher": Matching(),
    "kmp_matcher": Matching(),
    "lcs_length": CommonSubsequence(),
}
