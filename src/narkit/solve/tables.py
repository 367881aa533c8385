"""CSV files: edges, points, and other rows of numbers with a name in front. A line of headings is optional."""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from narkit.errors import InstanceError
from narkit.solve.ranges import brief, number

LARGEST_FILE = 50_000_000  # bytes
HEADINGS = {"from", "to", "source", "target", "start", "end", "u", "v", "a", "b", "node", "node1", "node2"}

Line = tuple[int, list[str]]
"""A line's number, and its cells."""


def read_rows(path: str | os.PathLike) -> list[Line]:
    """Reads the lines of a CSV file that are not empty. The separator is a comma, a semicolon or a tab, else spaces.

    Lines that begin with # are comments.
    """
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise InstanceError(f"{path}: expected a file of at most {LARGEST_FILE // 10**6} MB, got a larger one")
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InstanceError(f"{path}: expected a CSV file, but there is none") from None
    except UnicodeDecodeError:
        raise InstanceError(f"{path}: expected a CSV file in UTF-8, got other bytes") from None
    except OSError as error:
        raise InstanceError(f"{path}: expected a CSV file, but it cannot be read: {error.strerror}") from None
    lines = [(place, line) for place, line in enumerate(text.splitlines(), 1) if line.strip()[:1] not in ("", "#")]
    if not lines:
        raise InstanceError(f"{path}: expected rows, got an empty file")
    separator = next((mark for mark in (",", ";", "\t") if mark in lines[0][1]), None)
    rows = []
    for place, line in lines:
        cells = line.split() if separator is None else next(csv.reader([line], delimiter=separator))
        rows.append((place, [cell.strip() for cell in cells]))
    return rows


def read_edges(path: str | os.PathLike) -> list[tuple[str, str] | tuple[str, str, float]]:
    """Reads edges: two labels, and a weight or none."""
    rows = read_rows(path)
    first = rows[0][1]
    names_nodes = len(first) == 2 and {cell.lower() for cell in first} <= HEADINGS
    if names_nodes or (len(first) == 3 and _are_headings(first[2:])):
        rows = rows[1:]
    edges = []
    for place, cells in rows:
        where = f"{path}, line {place}"
        if len(cells) not in (2, 3) or not cells[0] or not cells[1]:
            raise InstanceError(f"{where}: expected two nodes and, if edges have weights, a weight; got {cells}")
        edges.append((*cells[:2], to_number(cells[2], where)) if len(cells) == 3 else tuple(cells))
    if not edges:
        raise InstanceError(f"{path}: expected edges, got headings only")
    return edges


def read_named_rows(path: str | os.PathLike, columns: Sequence[str]) -> dict[Any, tuple[float, ...]]:
    """Reads rows of as many numbers as there are columns, with or without a name in front; else they count from 0."""
    rows = read_rows(path)
    width = len(columns)
    expected = f"{', '.join(columns)}, if need be with a name in front"
    if _are_headings(rows[0][1][-width:]):
        rows = rows[1:]
    found: dict[Any, tuple[float, ...]] = {}
    for count, (place, cells) in enumerate(rows):
        where = f"{path}, line {place}"
        if len(cells) not in (width, width + 1):
            raise InstanceError(f"{where}: expected {expected}; got {cells}")
        if len(cells) != len(rows[0][1]):
            raise InstanceError(f"{where}: expected a name in front of every row or of none; got {cells}")
        name = cells[0] if len(cells) > width else count
        if name in found:
            raise InstanceError(f"{where}: expected a name of its own, got {name!r} again")
        found[name] = tuple(to_number(cell, where) for cell in cells[-width:])
    return found


def named_rows(values: Any, columns: Sequence[str], what: str) -> tuple[tuple[Any, ...], np.ndarray]:
    """Reads names and numbers (rows, columns) of a dictionary {name: numbers}, a sequence of numbers, or a CSV file."""
    if isinstance(values, (str, os.PathLike)):
        values = read_named_rows(values, columns)
    if not hasattr(values, "__len__"):
        raise InstanceError(f"{what}: expected rows of {', '.join(columns)}, got {brief(values)}")
    if not isinstance(values, Mapping):
        values = dict(enumerate(values.tolist() if isinstance(values, np.ndarray) else values))
    names, rows = [], []
    for name, row in values.items():
        where = f"{what}, {name}"
        if isinstance(row, (str, bytes)) or not hasattr(row, "__len__") or len(row) != len(columns):
            raise InstanceError(f"{where}: expected ({', '.join(columns)}), got {brief(row)}")
        rows.append([number(cell, f"{where}, {column}") for cell, column in zip(row, columns, strict=True)])
        names.append(name)
    return tuple(names), np.array(rows, np.float64).reshape(len(rows), len(columns))


def read_numbers(path: str | os.PathLike) -> list[list[float]]:
    """Reads a matrix of numbers."""
    return [[to_number(cell, f"{path}, line {place}") for cell in cells] for place, cells in read_rows(path)]


def to_number(cell: str, where: str) -> float:
    """Returns the number that a word stands for; whole ones stay whole."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(cell)
    raise InstanceError(f"{where}: expected a number, got {cell!r}")


def _are_headings(cells: Sequence[str]) -> bool:
    """Returns whether words stand where numbers are expected. What only looks like a number, such as 1O, is no word."""
    return all(cell[:1].isalpha() and cell.lower() not in ("nan", "inf", "infinity") for cell in cells)
