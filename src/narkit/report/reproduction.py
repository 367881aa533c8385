"""Comparison of a grid of records with the paper: row by row, rule by rule, and how long it took on what.

Two measures of agreement stand side by side. A row *agrees* if its mean lies within two of the paper's own standard
deviations of the paper's mean. That is strict where the paper's seeds hardly differ (topological sort: 0.01), so the
distance in units of both spreads together, sqrt(s_paper^2 + s_ours^2), is there as well.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from narkit.report import paper
from narkit.report.documents import NOT_RUN
from narkit.report.grid import Grid, in_spreads
from narkit.report.paper import Score
from narkit.report.precision import precision_part
from narkit.report.provenance import origin, remarks
from narkit.report.published import algorithm_scores
from narkit.report.rendering import Entry, Heading, Number, Table, TableRow, bullets, markdown, text
from narkit.report.tables import RULES, rules
from narkit.sweeps.systems import System
from narkit.training.record import RunRecord

NEAR = 2.0  # standard deviations
MINUTES = ("total", "training", "compiling", "validating", "testing")
LARGE = 5.0  # percentage points: what is worth naming when a rule changes a score

TIME = (
    "Minutes of one process on the device. Training includes waiting for data. Cells may share a device, and the sums "
    "count each of them in full. How long at least one of them ran, pauses left out, if each ran in one piece until it "
    "finished:"
)


@dataclass(frozen=True)
class Agreement:
    """The comparison of one row with the paper's."""

    published: Score
    ours: Score

    @property
    def difference(self) -> float:
        return self.ours.mean - self.published.mean

    @property
    def in_paper_spreads(self) -> float:
        return in_spreads(self.difference, self.published)

    @property
    def in_both_spreads(self) -> float:
        return in_spreads(self.difference, self.published, self.ours)

    @property
    def agrees(self) -> bool:
        return abs(self.in_paper_spreads) <= NEAR


def agreements(grid: Grid, column: System) -> dict[str, Agreement]:
    """Compares the rows of a column that were run, by algorithm."""
    scores = grid.column(column)
    return {
        name: Agreement(published, ours)
        for name, published in algorithm_scores(column).items()
        if (ours := scores.algorithm(name)) is not None
    }


def reproduction_part(grid: Grid) -> str:
    """Writes the generated part of `docs/reproduction.md`."""
    grid = _by_published_protocols(grid)
    parts = [origin(grid), "", *bullets(remarks(grid))]
    for column in grid.columns:
        if algorithm_scores(column):
            parts += [f"### {column.title}", "", _verdict(grid, column), "", markdown(agreement_table(grid, column))]
    parts += ["### What the selection rule changes", "", RULES, ""]
    if grid.trained:
        parts += [markdown(rule_averages(grid)), *bullets(rule_remarks(grid))]
    else:
        parts += [f"All rules: {NOT_RUN}.", ""]
    if precision := precision_part(grid):
        parts += ["### Precision", "", *precision, ""]
    parts += ["### Time", ""]
    if grid.trained:
        parts += [markdown(time_table(grid)), TIME, "", *bullets(running_lines(grid))]
    else:
        parts += [f"All cells: {NOT_RUN}.", ""]
    return "\n".join(parts)


def _by_published_protocols(grid: Grid) -> Grid:
    """Selects the systems that are trained by presets of published ones; all, if none of those has a record."""
    presets = {system.preset for system in grid.systems if system.published}
    systems = tuple(system for system in grid.systems if system.preset in presets)
    trained = {system.training for system in systems}
    cells = {place: record for place, record in grid.cells.items() if place[0] in trained}
    return dataclasses.replace(grid, systems=systems, cells=cells) if cells else grid


def _signed(points: float) -> str:
    return text(Number(points, "{:+.1f}"))


def _verdict(grid: Grid, column: System) -> str:
    rows = agreements(grid, column)
    if not rows:
        return f"All thirty rows: {NOT_RUN}."
    labels = paper.labels()
    beyond = [f"{labels[name]} ({_signed(row.difference)})" for name, row in rows.items() if not row.agrees]
    near_both = sum(abs(row.in_both_spreads) <= NEAR for row in rows.values())
    names = f" The others, with their differences: {', '.join(beyond)}." if beyond else ""
    return (
        f"Rule {column.rule}. {len(rows) - len(beyond)} of the {len(rows)} rows{_that_were_run(len(rows))} agree with "
        f"the paper within two of its standard deviations, {near_both} within two of both spreads together.{names}"
    )


def _that_were_run(count: int) -> str:
    return "" if count == len(paper.labels()) else " that were run"


def agreement_table(grid: Grid, column: System) -> Table:
    """Tabulates the thirty rows of a column: both scores, their difference, and in how many standard deviations."""
    rows, found = [], agreements(grid, column)
    for name, label in paper.labels().items():
        published, row = algorithm_scores(column)[name], found.get(name)
        cells: list[Entry] = [published, None, None, None, None, NOT_RUN]
        if row is not None:
            distances = [Number(row.in_paper_spreads, "{:+.1f}"), Number(row.in_both_spreads, "{:+.1f}")]
            verdict = "agrees" if row.agrees else "differs"
            cells = [published, row.ours, Number(row.difference, "{:+.2f}"), *distances, verdict]
        rows.append(TableRow(name, label, cells))
    headings = [
        Heading("paper", scores=True),
        Heading("ours", scores=True),
        Heading("difference"),
        Heading("in_paper_spreads", "in the paper's spreads"),
        Heading("in_both_spreads", "in both spreads"),
        Heading("verdict", "within two of the paper's"),
    ]
    return Table(f"agreement_{column.name}", f"Agreement: {column.title}", "Algorithm", headings, rows)


def rule_averages(grid: Grid) -> Table:
    """Tabulates for every system and rule the average over the algorithms that were run."""
    names = list(dict.fromkeys(rule for system in grid.trained for rule in rules(grid, system)))
    rows = []
    for system in grid.trained:
        of_system = rules(grid, system)
        cells = [grid.scores(system, rule).average_of_those_run() if rule in of_system else None for rule in names]
        rows.append(TableRow(system.training, system.title, [*cells, Number(len(grid.records(system)), "{:.0f}")]))
    headings = [*(Heading(rule, scores=True) for rule in names), Heading("algorithms")]
    return Table("rules", "Averages under every rule", "System", headings, rows)


def rule_remarks(grid: Grid) -> list[str]:
    """Says where the tie rule, the validation size and stopping early change a score by much."""
    pairs = [("id", "id_first"), ("ood", "ood_first"), ("ood", "id"), ("ood", "last")]
    lines = []
    for system in grid.trained:
        known = rules(grid, system)
        for rule, other in pairs:
            if rule not in known or other not in known:
                continue
            changes = {
                paper.labels()[name]: float(np.mean(scores) - np.mean(grid.scores(system, other).runs[name]))
                for name, scores in grid.scores(system, rule).runs.items()
            }
            large = [f"{label} {_signed(change)}" for label, change in changes.items() if abs(change) >= LARGE]
            mean = float(np.mean(list(changes.values())))
            points = f"{LARGE:.0f} points or more"
            named = f"; {points}: {', '.join(large)}" if large else f"; no row by {points}"
            lines.append(f"{system.title}, {rule} rather than {other}: {_signed(mean)} on average{named}.")
    return lines


def time_table(grid: Grid) -> Table:
    """Tabulates the time of every cell, and of all cells of a system together."""
    rows = []
    for system in grid.trained:
        runs = labelled_runs(grid, system)
        label = f"{system.title}, all {len(runs)}{_that_were_run(len(runs))}"
        rows += time_rows(runs, f"{system.training}_all", label, MINUTES, 60)
    headings = map(Heading, ("minutes", *MINUTES[1:]))
    return Table("time", "Time", "Cell", [*headings, Heading("waiting", "waiting for data"), Heading("device")], rows)


def labelled_runs(grid: Grid, system: System) -> list[tuple[str, str, RunRecord]]:
    """Returns key, label and record of every run of a system."""
    return [
        (f"{system.training}_{name}", f"{system.title}, {paper.labels()[name]}", record)
        for name, record in grid.records(system).items()
    ]


def time_rows(
    runs: Sequence[tuple[str, str, RunRecord]], key: str, label: str, timings: Sequence[str], unit: float = 1.0
) -> list[TableRow]:
    """Tabulates the time of every run by what it went into, and of all runs together under the key and label given.

    Times are in units of so many seconds. The share of training spent waiting for data and the device are there, too.
    """

    def row(key: str, label: str, *records: RunRecord, summary: bool = False) -> TableRow:
        def total(name: str) -> float:
            return sum(getattr(record.timings, name) for record in records)

        times = [Number(total(name) / unit, "{:.1f}") for name in timings]
        waiting = Number(100 * total("waiting_for_data") / max(total("training"), 1e-9), "{:.1f} %")
        devices = ", ".join(sorted({record.device for record in records}))
        return TableRow(key, label, [*times, waiting, devices], summary)

    return [*(row(*run) for run in runs), row(key, label, *(record for *_, record in runs), summary=True)]


def running_lines(grid: Grid) -> list[str]:
    """Says for how long at least one cell ran: a line for each system, and one for several systems together.

    Where the cells ran on several kinds of devices, each kind has its own line: their minutes are not comparable.
    """
    groups = {system.title: list(grid.records(system).values()) for system in grid.trained}
    if len(groups) > 1:
        groups["All systems"] = list(grid.cells.values())
    lines = []
    for title, records in groups.items():
        devices = sorted({record.device for record in records})
        for device in devices:
            label = f"{title} on {device}" if len(devices) > 1 else title
            there = [_interval(record) for record in records if record.device == device]
            minutes = union_length(there) / 60
            lines.append(f"{label}: for {minutes:.1f} minutes at least one cell ran ({len(there)} in all).")
    return lines


def _interval(record: RunRecord) -> tuple[float, float]:
    """Returns the begin and the end of a cell, in seconds.

    Only the end is recorded. A cell that was interrupted began earlier than this says.
    """
    finished = datetime.datetime.fromisoformat(record.finished_at)
    if finished.tzinfo is None:  # else it would depend on where the report is made
        finished = finished.replace(tzinfo=datetime.UTC)
    return finished.timestamp() - record.timings.total, finished.timestamp()


def union_length(intervals: Iterable[tuple[float, float]]) -> float:
    """Returns the length that the intervals (begin, end) cover together; what several of them cover counts once."""
    length, covered_until = 0.0, -math.inf
    for begin, end in sorted(intervals):
        length += max(0.0, end - max(begin, covered_until))
        covered_until = max(covered_until, end)
    return length
