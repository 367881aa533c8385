"""The provenance of a report's tables.

It says where the records come from, which were left out, which seeds diverged, and what a part of a column has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from narkit.report import paper
from narkit.report.grid import Grid, average
from narkit.report.published import algorithm_scores
from narkit.report.rendering import text
from narkit.sweeps.systems import System, trainings


def origin(grid: Grid) -> str:
    """Says how many records there are, and the commits, devices and versions that they were made with."""
    if not grid.cells:
        if left := len(grid.left_out):
            return f"No record of the preset {grid.preset}: {left} left out, for the reasons below, and no other found."
        return f"No record of the preset {grid.preset} yet: nothing was run."
    records = grid.cells.values()
    commits = _listed(record.commit or "unknown" for record in records)
    devices = _listed(record.device for record in records)
    versions = [_listed(f"{name} {record.versions.get(name, '?')}" for record in records) for name in ("narkit", "jax")]
    counts = ", ".join(f"{len(grid.records(system))} of {system.training}" for system in grid.trained)
    plural = "s" if " and " in grid.preset else ""
    return (
        f"From {len(grid.cells)} records of the preset{plural} {grid.preset} ({counts}); commit {commits}; {devices}; "
        f"{', '.join(versions)}; digest of the records {grid.digest}."
    )


def remarks(grid: Grid) -> list[str]:
    """Returns one line for every record that was left out and every seed that diverged."""
    lines = [f"Left out: {left.path}: {left.reason}" for left in grid.left_out]
    for (system, algorithm), record in grid.cells.items():
        for seed in record.diverged:
            lines.append(
                f"Diverged: seed {seed.seed} of {system} on {algorithm}, at step {seed.step} on a batch of size "
                f"{seed.size}; its scores are those of what its rules had chosen before."
            )
    return lines


def cells_left(grid: Grid) -> int:
    """Counts the cells of the columns that the paper has by algorithm that were not run yet."""
    return cells_wanted(grid) - sum(len(grid.records(system)) for system in _published(grid))


def cells_wanted(grid: Grid) -> int:
    """Counts the cells of those columns."""
    return len(paper.labels()) * len(_published(grid))


def _published(grid: Grid) -> list[System]:
    return list(trainings(system for system in grid.systems if algorithm_scores(system)))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))


def so_far(grid: Grid, partial: System, complete: Sequence[System]) -> str:
    """Says what a system that was run in part has, beside the complete one that is best on the same algorithms."""
    names = list(grid.column(partial).runs)
    score = text(grid.column(partial).average_of_those_run())
    ours = f"{partial.title} has {score} on average over the {len(names)} algorithms that it was run on"
    means = {other.title: average([grid.column(other).runs[name] for name in names]).mean for other in complete}
    if not means:
        return f"{ours}."
    best = max(means, key=means.__getitem__)
    return f"{ours}, where {best}, the best of the others there, has {means[best]:.2f}."
