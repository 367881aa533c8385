"""Problems whose answer is a binary tree read off a table: matrix chains and search trees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from narkit.errors import InstanceError
from narkit.solve import ranges
from narkit.solve.key_problems import read_items
from narkit.solve.problem import Instance, Outputs, Plain, Problem, check_size, shown

SUM_TOLERANCE = 1e-6


class MatrixChain(Problem):
    """The best order in which to multiply matrices: matrix_chain_order.

    Matrix i has dimensions[i - 1] rows and dimensions[i] columns.
    """

    parameters: ClassVar[tuple[str, ...]] = ("dimensions",)
    judged_by: ClassVar[str] = "cost"

    def read(self, given: Mapping[str, Any]) -> Instance:
        dimensions = read_items(given["dimensions"], "dimensions")
        values = ranges.numbers(dimensions, "dimensions")
        if (values <= 0).any():
            raise InstanceError(f"dimensions: expected positive numbers, got {shown(float(values.min()))}")
        notes: list[str] = []
        mapped, _ = ranges.scaled(values, "dimensions", notes)
        return Instance({"p": mapped}, tuple(dimensions), dimensions, notes, own={"p": values})

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        last = len(instance.given) - 1
        splits = outputs["s"]
        product = _product(splits, 1, last, instance.given)
        text, cost = (None, None) if product is None else product
        table = [[int(splits[i, j]) if i < j else None for j in range(1, last + 1)] for i in range(1, last + 1)]
        return {"product": text, "cost": cost, "splits": table}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return [
            f"product: {plain['product'] or 'none: some split lies outside of its chain'}",
            f"multiplications of numbers: {shown(plain['cost'])}",
        ]


def _product(splits: np.ndarray, i: int, j: int, dimensions: list[Any]) -> tuple[str, Any] | None:
    """Returns the product of the matrices i to j as text, and its cost."""
    if i == j:
        return f"A{i}", 0
    split = int(splits[i, j])
    if not i <= split < j:
        return None
    left, right = _product(splits, i, split, dimensions), _product(splits, split + 1, j, dimensions)
    if left is None or right is None:
        return None
    cost = left[1] + right[1] + dimensions[i - 1] * dimensions[split] * dimensions[j]
    return f"({left[0]} {right[0]})", cost


class SearchTree(Problem):
    """The best binary search tree: optimal_bst. Gaps are the probabilities of searches that end between the keys."""

    parameters: ClassVar[tuple[str, ...]] = ("probabilities", "gaps")
    judged_by: ClassVar[str] = "expected_cost"

    def read(self, given: Mapping[str, Any]) -> Instance:
        keys = given["probabilities"]
        names = tuple(keys) if isinstance(keys, Mapping) else None
        p = ranges.numbers(list(keys.values()) if isinstance(keys, Mapping) else keys, "probabilities")
        q = ranges.numbers(given["gaps"], "gaps")
        check_size(len(p), "keys", fewest=1)
        if len(q) != len(p) + 1:
            raise InstanceError(
                f"gaps: expected {len(p) + 1}, one before each of the {len(p)} keys and one after, got {len(q)}"
            )
        if min(p.min(), q.min()) < 0:
            raise InstanceError(f"probabilities: expected none below 0, got {shown(float(min(p.min(), q.min())))}")
        with np.errstate(over="ignore"):  # a sum that is too large is refused below
            total = float(p.sum() + q.sum())
        if total <= 0:
            raise InstanceError("probabilities: expected some above 0, got zeros only")
        if math.isinf(total):
            raise InstanceError("probabilities: expected numbers with a finite sum, got larger ones; divide them all")
        names = names or tuple(range(len(p)))
        shares, notes = (p / total, q / total), []
        if abs(total - 1.0) > SUM_TOLERANCE:
            notes.append(f"probabilities were divided by their sum, {total:g}; the tree does not depend on it")
            p, q = shares
        return Instance({"p": p, "q": q}, (*names, "end"), shares, notes)

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        p, q = instance.given
        roots = outputs["root"]
        tree = _tree(roots, 0, len(p), instance)
        nodes = len(q)
        table = [[instance.labels[roots[i, j]] if i < j else None for j in range(nodes)] for i in range(nodes)]
        whole, cost = (None, None) if tree is None else tree
        return {"tree": whole, "expected_cost": cost, "roots": table}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        if plain["tree"] is None:
            return ["tree: none: some root lies outside of its keys"]
        return [f"tree: {_written(plain['tree'])}", f"expected cost of a search: {shown(plain['expected_cost'])}"]


def _tree(roots: np.ndarray, i: int, j: int, instance: Instance) -> tuple[Any, float] | None:
    """Returns the tree of the keys i to j - 1 as nested dictionaries (None without keys), and its expected cost."""
    p, q = instance.given
    if i == j:
        return None, float(q[i])
    root = int(roots[i, j])
    if not i <= root < j:
        return None
    left, right = _tree(roots, i, root, instance), _tree(roots, root + 1, j, instance)
    if left is None or right is None:
        return None
    cost = left[1] + right[1] + float(p[i:j].sum() + q[i : j + 1].sum())
    return {"key": instance.labels[root], "left": left[0], "right": right[0]}, cost


def _written(tree: Any) -> str:
    if tree is None:
        return "·"
    if tree["left"] is None and tree["right"] is None:
        return str(tree["key"])
    return f"({_written(tree['left'])} {tree['key']} {_written(tree['right'])})"


TREE_PROBLEMS: dict[str, Problem] = {"matrix_chain_order": MatrixChain(), "optimal_bst": SearchTree()}
