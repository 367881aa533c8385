"""Runs of any length as evidence that training learns: every seed under every selection rule.

The preset's tables take nothing but the preset's number of steps and seeds. Here both are free, all else is the
preset's; so that nobody mistakes one for the other, every seed's score and chosen step is shown, and the paper's values
stand beside them under a heading that says how many steps they took.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from narkit.report import paper
from narkit.report.documents import NOT_RUN
from narkit.report.grid import Grid, measured
from narkit.report.provenance import remarks
from narkit.report.published import published
from narkit.report.rendering import MISSING, Heading, Table, TableRow, markdown
from narkit.report.reproduction import labelled_runs, rule_averages, rule_remarks, time_rows
from narkit.report.tables import RULES
from narkit.training.presets import PRESETS
from narkit.training.record import RunRecord

FREE = ("steps", "seeds")
"""Options in which runs may differ from the preset."""

SECONDS = ("compiling", "compiling_ahead", "training", "validating", "testing", "saving")


def learning_part(grid: Grid) -> str:
    """Writes the generated part of `docs/learning.md`."""
    if not grid.cells:
        return "\n".join([f"All runs: {NOT_RUN}.", *(f"- {line}" for line in remarks(grid)), ""])
    parts = [*_origins(grid), *(f"- {line}" for line in remarks(grid)), ""]
    parts += [
        "Test scores are micro-F1 on the official test split in percent, one for each seed in order; then their mean ± "
        "standard deviation of a sample (number of seeds). The paper's values are from "
        f"{PRESETS['paper']['steps']:,} steps, not from as many as these runs; they stand at the rules whose "
        "validation has the size of the paper's, and are missing where the paper has none.",
        "",
        RULES,
        "",
    ]
    for name, label in paper.labels().items():
        if any((system.training, name) in grid.cells for system in grid.trained):
            parts += [f"### {label}", "", markdown(score_table(grid, name))]
    parts += ["### What the selection rule changes", "", markdown(rule_averages(grid))]
    parts += [*(f"- {line}" for line in rule_remarks(grid)), ""]
    parts += ["### Validation at the end of training", "", markdown(validation_table(grid))]
    parts += ["### Time", "", markdown(time_table(grid))]
    parts += [
        "Seconds of one process on the device. What was compiled ahead was compiled while the cell before it trained, "
        "and was not waited for. Training includes waiting for data, whose share of it is shown.",
        "",
    ]
    return "\n".join(parts)


def _origins(grid: Grid) -> list[str]:
    """Describes the records: a line for each commit, device and set of versions that some were made with."""
    counts = Counter(_origin(record) for record in grid.cells.values())
    lines = [f"- {count} with {made}" for made, count in sorted(counts.items())]
    return [f"{len(grid.cells)} records, their digest {grid.digest}:", "", *lines]


def _origin(record: RunRecord) -> str:
    seeds = ", ".join(map(str, record.config.seeds))
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    made = f"commit {record.commit or 'unknown'}; {record.device}; {versions}"
    return f"{record.config.steps:,} steps and the seeds {seeds}; {made}"


def score_table(grid: Grid, algorithm: str) -> Table:
    """Tabulates the runs on an algorithm: a row for every system and rule."""
    rows = []
    for system in grid.trained:
        record = grid.cells.get((system.training, algorithm))
        if record is None:
            continue
        for rule in record.rules:
            scores = record.test_scores(algorithm, rule)
            steps = " / ".join(str(step) for step in record.selected[rule].steps)
            cells = [_each(scores), measured(scores), steps, published(system.training, rule, algorithm)]
            rows.append(TableRow(f"{system.training}_{rule}", f"{system.title}, {rule}", cells))
    headings = [
        Heading("seeds", "each seed"),
        Heading("ours", "mean", scores=True),
        Heading("steps", "chosen steps"),
        Heading("paper", f"paper, {PRESETS['paper']['steps']:,} steps", scores=True),
    ]
    return Table(f"learning_{algorithm}", paper.labels()[algorithm], "System, rule", headings, rows)


def validation_table(grid: Grid) -> Table:
    """Tabulates the validation scores of every seed at the last step."""
    sets = {each.name: each.size for record in grid.cells.values() for each in record.config.validations}
    rows = []
    for key, label, record in _runs(grid):
        last = record.curve[-1]
        scores = [_each(100 * np.array(last.scores[name], dtype=float)) for name in sets]
        rows.append(TableRow(key, label, [*scores, str(last.step)]))
    headings = [Heading(name, f"{name} (size {size})") for name, size in sets.items()]
    return Table("learning_validation", "Validation", "Run", [*headings, Heading("step", "at step")], rows)


def time_table(grid: Grid) -> Table:
    """Tabulates the seconds of every run by what they went into, and those of all together."""
    rows = time_rows(_runs(grid), "all", "All", SECONDS)
    headings = [Heading(name, name.replace("compiling_ahead", "compiled ahead")) for name in SECONDS]
    headings += [Heading("waiting", "waiting for data"), Heading("device")]
    return Table("learning_time", "Time", "Run", headings, rows)


def _runs(grid: Grid) -> list[tuple[str, str, RunRecord]]:
    """Returns key, label and record of every run, system by system."""
    return [run for system in grid.trained for run in labelled_runs(grid, system)]


def _each(scores: np.ndarray) -> str:
    """Formats the scores of all seeds; that of one that diverged may be missing."""
    return " / ".join(f"{score:.2f}" if math.isfinite(score) else MISSING for score in scores)
