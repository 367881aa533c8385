"""`narkit compare`: two systems of a folder of results, or two runs, row by row and by their average ranks."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from narkit.errors import UnknownNameError
from narkit.report.grid import ResultsError, measured, read_grid
from narkit.report.paper import labels
from narkit.report.rendering import text
from narkit.report.statistics import LEVEL, Comparison, Ranking, compare, rank
from narkit.sweeps.systems import main_rule
from narkit.training.record import RunRecord

SIGNS = {"higher": "▲", "lower": "▼", "unclear": "·", "untested": "?"}


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its name, and its test scores by algorithm, one per seed, in percent."""

    title: str
    scores: Mapping[str, np.ndarray]


def side(name: str, results: Path, rule: str | None) -> Side:
    """Reads a run from its folder or record, or else a system by name from its records in `results`."""
    path = Path(name)
    if path.suffix == ".json" or path.is_dir():
        record = RunRecord.load(path)
        chosen = rule or main_rule(record.config)
        if chosen not in record.rules:
            raise UnknownNameError("rule", chosen, record.rules)
        tested, said = record.test_scores, f"rule {chosen}"
        if not record.test and record.scored:  # a development run
            name = next(iter(record.scored))
            tested, said = functools.partial(record.scores_on, name), f"rule {chosen}, set {name}"
        scores = {each: np.asarray(tested(each, chosen)) for each in record.config.algorithms}
        return Side(f"{path.as_posix()} ({said})", scores)
    grid = read_grid(results)
    systems = {system.name: system for system in grid.systems}
    if name not in systems:
        raise UnknownNameError("system", name, systems)
    chosen = rule or systems[name].rule
    runs = grid.scores(systems[name], chosen).runs
    if not runs:
        raise ResultsError(f"{results}: expected records of {name}, got none")
    return Side(f"{systems[name].title} (rule {chosen})", dict(runs))


def print_comparison(console: Console, first: Side, second: Side) -> None:
    """Prints the common rows, with the difference and whether it is significant; then averages and ranks in words."""
    rows = compare(first.scores, second.scores)
    if not rows:
        raise ResultsError(
            f"expected an algorithm that both were run on, got {', '.join(first.scores)} and {', '.join(second.scores)}"
        )
    table = Table(title=f"A: {first.title}\nB: {second.title}", title_justify="left", box=None, pad_edge=False)
    table.add_column("algorithm", style="bold cyan", overflow="fold")
    for heading in ("A", "B", "A − B", "p (Holm)", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        corrected = "–" if row.corrected is None else "<0.001" if row.corrected < 0.001 else f"{row.corrected:.3f}"
        scores = (text(measured(row.first)), text(measured(row.second)))
        difference = f"{row.difference:+.2f}".replace("-", "−")
        table.add_row(labels().get(row.algorithm, row.algorithm), *scores, difference, corrected, SIGNS[row.verdict])
    console.print(table)
    for line in in_words(rows):
        console.print(line)
    ranking = rank({"A": first.scores, "B": second.scores})
    for line in ranks_in_words(ranking) if ranking else ["Average ranks need two algorithms that both were run on."]:
        console.print(line)


def in_words(rows: list[Comparison]) -> list[str]:
    """Says how many rows differ, and the averages."""
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in SIGNS}
    means = [float(np.mean([np.mean(getattr(row, name)) for row in rows])) for name in ("first", "second")]
    lines = [
        f"On {len(rows)} algorithm{'s' if len(rows) != 1 else ''} A averages {means[0]:.2f} and B {means[1]:.2f}, "
        f"a difference of {means[0] - means[1]:+.2f} points.".replace("-", "−"),
        f"▲ A is higher on {count['higher']}, ▼ lower on {count['lower']}, · on {count['unclear']} the seeds do not "
        f"tell (Welch's test, Holm's correction, {LEVEL:.0%}).",
    ]
    return [*lines, f"? {count['untested']} cannot be tested: a single seed."] if count["untested"] else lines


WIDTH = 41  # of the axis of ranks, in letters


def ranks_in_words(ranking: Ranking) -> list[str]:
    """Says the average ranks of A and B and whether they differ by more than the critical difference; draws both."""
    ranks, critical = ranking.ranks, ranking.critical_difference
    better, worse = sorted(ranks, key=lambda name: ranks[name])
    apart = ranks[worse] - ranks[better] > critical
    verdict = f"{better} ranks significantly higher" if apart else "ranks do not tell them apart"
    values = ", ".join(f"{name} {ranks[name]:.2f}" for name in ("A", "B"))
    sentence = (
        f"Average ranks over {ranking.algorithms} algorithms, 1 is best: {values}; critical difference {critical:.2f} "
        f"(Nemenyi, {LEVEL:.0%}), so {verdict}."
    )
    return [sentence, f"rank 1 {_axis(ranks, joined=not apart)} 2"]


def _axis(ranks: Mapping[str, float], joined: bool) -> str:
    """Draws ranks from 1 to 2 as a line with a letter at each, joined by a heavy line if they are not told apart."""
    places = {name: round((value - 1) * (WIDTH - 1)) for name, value in ranks.items()}
    if len(set(places.values())) < len(places):
        places["B"] += 1 if places["B"] < WIDTH - 1 else -1  # the same rank: side by side
    line = ["─"] * WIDTH
    if joined:
        start, end = min(places.values()), max(places.values())
        line[start:end] = "━" * (end - start)
    for name, place in places.items():
        line[place] = name
    return "".join(line)
