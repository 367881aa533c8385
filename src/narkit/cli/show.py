"""`narkit data show`: the run of an algorithm step by step, in words and tables."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import numpy as np
from rich import box
from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import narkit.algorithms  # noqa: F401  registers the algorithms
from narkit.data.batch import Batch
from narkit.errors import InstanceError
from narkit.spec import ALGORITHMS, Algorithm, Kind, Location, Probe, Spec, Stage, stage_of

CHANGED = "bold black on yellow"
UNSET = "-"
MOST_VALUES = 500_000  # what a terminal shows in about a minute


def print_run(console: Console, batch: Batch, max_steps: int | None = None) -> None:
    """Prints a batch of one: what the probes mean, the instance, every step, the result."""
    entry = ALGORITHMS[batch.algorithm]
    num_steps = int(batch.lengths[0])
    shown = num_steps if max_steps is None else min(max_steps, num_steps)
    console.print(Rule(f"[bold cyan]{entry.name}[/] ({entry.category}), {batch.num_nodes} nodes, {num_steps} steps"))
    for paragraph in (inspect.getdoc(entry.function) or "").split("\n\n"):
        console.print(paragraph.replace("\n", " "), markup=False, highlight=False)
    console.print(_legend(entry))
    marks = f"●/· a mask's one and zero, {UNSET} a value that does not count, →3 a pointer to node 3, ↺ to itself; "
    changed = "a star" if console.color_system is None else "a coloured cell"
    console.print(Text(f"{marks}{changed} has changed since the step before."), style="dim")

    console.print(Rule("the instance", align="left", style="green"))
    given = {name: values[0] for name, values in batch.inputs.items()}
    constant = {name: batch.hints[name][0, 0] for name, probe in batch.spec.items() if probe.constant}
    _print_values(console, batch.spec, given | constant, {})
    previous: dict[str, Any] = {}
    for step in range(shown):
        console.print(Rule(f"step {step + 1} of {num_steps}", align="left", style="blue"))
        now = {name: values[step, 0] for name, values in batch.hints.items() if name not in constant}
        _print_values(console, batch.spec, now, previous)
        previous = now
    if shown < num_steps:
        console.print(f"... {num_steps - shown} more steps; leave out --max-steps to see them", style="dim")
    console.print(Rule("the result", align="left", style="green"))
    _print_values(console, batch.spec, {name: values[0] for name, values in batch.outputs.items()}, {})


def check_readable(batch: Batch, max_steps: int | None = None) -> None:
    """Raises if printing would take minutes, and nobody would read it."""
    steps = batch.num_steps if max_steps is None else min(max_steps, batch.num_steps)
    count = sum(values.size for values in (*batch.inputs.values(), *batch.outputs.values()))
    count += sum(values[:steps].size for values in batch.hints.values())
    if count > MOST_VALUES:
        raise InstanceError(
            f"{batch.algorithm}: expected at most {MOST_VALUES:,} values to print, got {count:,}; choose a smaller "
            "size or --max-steps, or write them with `narkit data export`"
        )


def _legend(entry: Algorithm) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("probe", style="bold", no_wrap=True)
    table.add_column("stage")
    table.add_column("per", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("what it means")
    for stage in (Stage.INPUT, Stage.HINT, Stage.OUTPUT):
        for name, probe in stage_of(entry.spec, stage).items():
            is_categorical = probe.kind is Kind.CATEGORICAL
            kind = f"{probe.num_classes} classes" if is_categorical else probe.kind.replace("_", " ")
            meaning = f"{probe.meaning} (the same at every step)" if probe.constant else probe.meaning
            table.add_row(name, stage, probe.location, kind, Text(meaning))
    return table


def _read(probe: Probe, value: Any, previous: Any) -> tuple[np.ndarray, np.ndarray]:
    """Reads a probe at one moment, without classes: its cells as text, and which have changed since the step before."""
    shape = value.shape[:-1] if probe.kind is Kind.CATEGORICAL else value.shape
    cells, changed = np.empty(shape, object), np.zeros(shape, bool)
    for place in np.ndindex(shape):
        cells[place] = value_text(probe, value[place], place)
        changed[place] = previous is not None and bool(np.any(value[place] != previous[place]))
    if probe.kind is Kind.MASK_ONE:  # where the mark went says it all; where it was is one step above
        changed &= value == 1
    return cells, changed


def value_text(probe: Probe, value: Any, place: tuple[int, ...]) -> str:
    """Formats one value of a probe as text; `place` is its node, its pair of nodes, or empty."""
    match probe.kind:
        case Kind.SCALAR:
            return f"{value:.3g}"
        case Kind.MASK:
            return {1: "●", 0: "·"}.get(int(value), UNSET)
        case Kind.MASK_ONE:
            return {1: str(place[-1]) if place else "●", 0: "·"}.get(int(value), UNSET)
        case Kind.CATEGORICAL:
            return str(int(np.argmax(value))) if (value == 1).any() else UNSET
        case Kind.POINTER | Kind.SHOULD_BE_PERMUTATION | Kind.PERMUTATION_POINTER:
            return "↺" if place == (int(value),) else f"→{int(value)}"
        case _:
            assert_never(probe.kind)


def _print_values(console: Console, spec: Spec, values: Mapping[str, Any], previous: Mapping[str, Any]) -> None:
    """Prints the values of some probes at one moment, marking what has changed since the one before."""
    read = {name: _read(spec[name], value, previous.get(name)) for name, value in values.items()}
    nodes, edges, whole = ([name for name in read if spec[name].location is location] for location in Location)
    if nodes:
        cells, changed = map(np.stack, zip(*(read[name] for name in nodes), strict=True))
        _print_tables(console, _grids(console, "node", nodes, cells, changed))
    if whole:
        line = Text("  ")
        for name in whole:
            cells, changed = read[name]
            line.append(f"{name} = ", "bold")
            line.append_text(_text(console, cells.item(), changed.item()))
            line.append("   ")
        console.print(line)
    matrices: list[Table] = []
    for name in edges:
        cells, changed = read[name]
        matrices += _grids(console, name, [str(i) for i in range(len(cells))], cells, changed)
    _print_tables(console, matrices)


def _print_tables(console: Console, tables: Sequence[Table]) -> None:
    if tables:
        together = Columns(tables, padding=(0, 3)) if len(tables) > 1 else tables[0]
        console.print(Padding(together, (0, 2), expand=False))


def _grids(console: Console, corner: str, rows: list[str], cells: np.ndarray, changed: np.ndarray) -> list[Table]:
    """Makes a table with one column per node, cut into as many as the console's width asks for."""
    widest = max(len(text) for text in cells.flat) + 1
    room = console.width - max(len(corner), *(len(row) for row in rows)) - 8
    per_table = max(1, room // (widest + 2))
    tables = []
    for start in range(0, cells.shape[1], per_table):
        columns = range(start, min(start + per_table, cells.shape[1]))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
        table.add_column(corner, style="bold", no_wrap=True)
        for j in columns:
            table.add_column(str(j), justify="right", no_wrap=True, min_width=widest)
        for i, row in enumerate(rows):
            table.add_row(row, *(_text(console, cells[i, j], changed[i, j]) for j in columns))
        tables.append(table)
    return tables


def _text(console: Console, value: str, changed: bool) -> Text:
    star = "*" if changed and console.color_system is None else ""
    return Text(value + star, CHANGED if changed else "dim" if value in ("·", UNSET) else "")
