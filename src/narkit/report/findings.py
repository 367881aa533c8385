"""The findings of a grid of records, in sentences, and the tests behind them: a report begins with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from narkit.report import paper
from narkit.report.grid import Grid
from narkit.report.provenance import so_far
from narkit.report.published import algorithm_scores
from narkit.report.rendering import text
from narkit.report.reproduction import agreements
from narkit.report.statistics import LEVEL, Comparison, Ranking, compare, rank
from narkit.report.tables import published_average
from narkit.sweeps.systems import System


@dataclass(frozen=True)
class Findings:
    """The best system, and every other one compared with it; `comparisons` by system, then by algorithm."""

    sentences: list[str]
    best: System | None
    comparisons: dict[str, dict[str, Comparison]]
    ranking: Ranking | None


def with_records(grid: Grid) -> list[System]:
    """Returns the systems that have any record, in the order of columns."""
    return [system for system in grid.columns if grid.records(system)]


def find(grid: Grid) -> Findings:
    """Reads off what a report should say first."""
    systems = with_records(grid)
    if not systems:
        empty = "Every cell is empty." if grid.left_out else "Nothing was run yet: every cell is empty."
        return Findings([empty, *_troubles(grid)], None, {}, None)
    best = _best(grid, systems)
    comparisons = {
        system.name: {row.algorithm: row for row in compare(grid.column(system).runs, grid.column(best).runs)}
        for system in systems
        if system != best
    }
    ranking = rank({system.name: grid.column(system).runs for system in systems})
    sentences = [*_averages(grid, best), *_agreement(grid, systems), *_differences(best, comparisons, grid)]
    return Findings([*sentences, *_troubles(grid)], best, comparisons, ranking)


def _best(grid: Grid, systems: list[System]) -> System:
    """Returns the system with the highest average over common algorithms; over each one's own if there are none."""
    common = set.intersection(*(set(grid.column(system).runs) for system in systems))

    def average(system: System) -> float:
        runs = grid.column(system).runs
        chosen = [runs[name].mean() for name in runs if name in common or not common]
        return float(sum(chosen) / len(chosen))

    return max(systems, key=average)


def _averages(grid: Grid, best: System) -> list[str]:
    scores = grid.column(best)
    found = scores.average()
    if found is None:
        complete = [system for system in grid.columns if grid.column(system).average() is not None]
        return [f"Highest so far: {so_far(grid, best, complete)}"]
    published = published_average(best, paper.labels())
    beside = f"; published: {published.mean:.2f}" if published else ""
    return [f"{best.title} is highest: {text(found)} on average over the thirty algorithms{beside}."]


def _agreement(grid: Grid, systems: list[System]) -> list[str]:
    sentences = []
    for system in systems:
        if algorithm_scores(system):
            rows = agreements(grid, system).values()
            count = sum(row.agrees for row in rows)
            higher = sum(not row.agrees and row.difference > 0 for row in rows)
            sentences.append(
                f"{system.title}: {count} of {len(rows)} rows agree with the published ones (within two of their "
                f"standard deviations), {higher} are higher, {len(rows) - count - higher} lower."
            )
    return sentences


def _differences(best: System, comparisons: dict[str, dict[str, Comparison]], grid: Grid) -> list[str]:
    titles = {system.name: system.title for system in grid.systems}
    sentences = []
    for name, rows in comparisons.items():
        count = Counter(row.verdict for row in rows.values())
        tested = len(rows) - count["untested"]
        if tested:
            sentences.append(
                f"{titles[name]} is significantly lower than {best.title} on {count['lower']} of {tested} rows and "
                f"higher on {count['higher']} (Welch's test over seeds, Holm's correction over rows, {LEVEL:.0%})."
            )
    return sentences


def _troubles(grid: Grid) -> list[str]:
    diverged = [(system, name) for (system, name), record in grid.cells.items() for _ in record.diverged]
    sentences = []
    if diverged:
        cells = ", ".join(f"{system} on {name}" for system, name in dict.fromkeys(diverged))
        sentences.append(f"{len(diverged)} seed{'s' if len(diverged) > 1 else ''} diverged: {cells}.")
    if grid.left_out:
        sentences.append(
            f"{len(grid.left_out)} record{'s were' if len(grid.left_out) > 1 else ' was'} left out; see the end."
        )
    return sentences
