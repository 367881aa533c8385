"""`narkit compare`: two systems of a folder of results, or two runs, row by row."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from narkit.errors import UnknownNameError
from narkit.report.grid import Grid, ResultsError, measured, read_grid
from narkit.report.paper import labels
from narkit.report.rendering import text
from narkit.report.statistics import LEVEL, Comparison, compare
from narkit.training.record import RunRecord

SIGNS = {"higher": "▲", "lower": "▼", "unclear": "·", "untested": "?"}


@dataclass(frozen=True)
class Side:
    """What one side of a comparison is called, and its test scores by algorithm, one per seed, in percent."""

    title: str
    scores: Mapping[str, np.ndarray]


def side(name: str, results: Path, rule: str | None, grid: Grid | None = None) -> Side:
    """A run by its folder or record, or else a system by name with its records in `results`."""
    path = Path(name)
    if path.suffix == ".json" or path.is_dir():
        record = RunRecord.load(path)
        chosen = rule or _usual_rule(record)
        if chosen not in record.rules:
            raise UnknownNameError("rule", chosen, record.rules)
        tested, said = record.test_scores, f"rule {chosen}"
        if not record.test and record.scored:  # a development run
            name = next(iter(record.scored))
            tested, said = functools.partial(record.scores_on, name), f"rule {chosen}, set {name}"
        scores = {each: np.asarray(tested(each, chosen)) for each in record.config.algorithms}
        return Side(f"{path.as_posix()} ({said})", scores)
    grid = read_grid(results) if grid is None else grid
    systems = {system.name: system for system in grid.systems}
    if name not in systems:
        raise UnknownNameError("system", name, systems)
    chosen = rule or systems[name].rule
    runs = grid.scores(systems[name], chosen).runs
    if not runs:
        raise ResultsError(f"{results}: expected records of {name}, got none")
    return Side(f"{systems[name].title} (rule {chosen})", dict(runs))


def _usual_rule(record: RunRecord) -> str:
    from narkit.sweeps.systems import main_rule

    return main_rule(record.config)


def print_comparison(console: Console, first: Side, second: Side) -> None:
    """The rows that both have, with the difference and whether it is significant; then the averages in words."""
    rows = compare(first.scores, second.scores)
    if not rows:
        raise ResultsError(
            f"expected an algorithm that both were run on, got {', '.join(first.scores)} and {', '.join(second.scores)}"
        )
    table = Table(title=f"A: {first.title}\nB: {second.title}", title_justify="left", box=None, padding=(0, 1))
    table.add_column("algorithm", style="bold cyan", overflow="fold")
    for heading in ("A", "B", "A − B", "p (Holm)", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        corrected = "–" if row.corrected is None else f"{row.corrected:.3f}"
        scores = (text(measured(row.first)), text(measured(row.second)))
        difference = f"{row.difference:+.2f}".replace("-", "−")
        table.add_row(labels().get(row.algorithm, row.algorithm), *scores, difference, corrected, SIGNS[row.verdict])
    console.print(table)
    for line in in_words(rows):
        console.print(line)


def in_words(rows: list[Comparison]) -> list[str]:
    """How many rows differ, and the averages."""
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in SIGNS}
    means = [float(np.mean([np.mean(getattr(row, name)) for row in rows])) for name in ("first", "second")]
    lines = [
        f"On {len(rows)} algorithm{'s' if len(rows) != 1 else ''} A averages {means[0]:.2f} and B {means[1]:.2f}, "
        f"a difference of {means[0] - means[1]:+.2f} points.".replace("-", "−"),
        f"▲ A is higher on {count['higher']}, ▼ lower on {count['lower']}, · on {count['unclear']} the seeds do not "
        f"tell (Welch's test, Holm's correction, {LEVEL:.0%}).",
    ]
    return [*lines, f"? {count['untested']} cannot be tested: a single seed."] if count["untested"] else lines
