"""The records of a preset's grid, systems times algorithms, as tables and figures read them."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from narkit.errors import UnknownNameError
from narkit.report import paper
from narkit.report.paper import Score
from narkit.sweeps.checks import check_file
from narkit.sweeps.systems import COLUMNS, Column
from narkit.training.presets import PRESETS
from narkit.training.record import RunRecord, follows_preset


class ResultsError(ValueError):
    """A folder of results that no report can be made from."""


@dataclass(frozen=True)
class LeftOut:
    """A record that enters no table, and why."""

    path: str  # below the folder of the preset
    reason: str


@dataclass(frozen=True)
class Grid:
    """The records of a preset by system and algorithm, and those that were left out."""

    folder: Path  # as it was asked for
    place: Path  # within it, the folder of the preset's systems
    preset: str
    cells: Mapping[tuple[str, str], RunRecord]
    left_out: tuple[LeftOut, ...]
    digest: str  # of all files that were read; two grids with the same digest give the same report

    def column(self, column: Column) -> ColumnScores:
        """The scores of a column of the paper's tables, under the rule that was fixed for it."""
        return self.scores(column.system, column.rule)

    def scores(self, system: str, rule: str) -> ColumnScores:
        """The scores of a system under a selection rule."""
        return ColumnScores({name: record.test_scores(name, rule) for name, record in self.records(system).items()})

    def records(self, system: str) -> dict[str, RunRecord]:
        """The records of a system by algorithm, in the paper's order."""
        return {name: self.cells[system, name] for name in paper.labels() if (system, name) in self.cells}

    @property
    def systems(self) -> list[str]:
        """The systems that have records, in the order of the paper's columns."""
        return [system for system in dict.fromkeys(c.system for c in COLUMNS) if self.records(system)]

    def weights(self, system: str, algorithm: str) -> Path:
        """Where the weights of a cell are, if they were kept."""
        return self.place / system / f"{algorithm}.safetensors"


@dataclass(frozen=True)
class ColumnScores:
    """The test scores of one system under one rule: for every algorithm that was run, one score per seed.

    Standard deviations are those of a sample (n - 1): with these, and only with these, the spreads of TEAM's eight
    categories in the paper's Table 1 follow from its Table 2.
    """

    runs: Mapping[str, np.ndarray]

    @property
    def complete(self) -> bool:
        return set(self.runs) == set(paper.labels())

    def algorithm(self, name: str) -> Score | None:
        return measured(self.runs[name]) if name in self.runs else None

    def category(self, name: str) -> Score | None:
        """The mean over the algorithms of a category, if all were run, with the spread of all their runs together."""
        members = category_members()[name]
        if not set(members) <= set(self.runs):
            return None
        runs = [self.runs[member] for member in members]
        return Score(_mean_of_means(runs), measured(np.concatenate(runs)).std, _common_length(runs))

    def average(self) -> Score | None:
        """The average over the thirty algorithms, if all were run. Its spread is that of the seeds' own averages."""
        return self.average_of_those_run() if self.complete else None

    def average_of_those_run(self) -> Score | None:
        """The average over the algorithms that were run, however many."""
        return average([self.runs[name] for name in paper.labels() if name in self.runs]) if self.runs else None

    def average_of_categories(self) -> Score | None:
        """The average over the means of the eight categories, if all algorithms were run."""
        if not self.complete:
            return None
        runs = [[self.runs[name] for name in members] for members in category_members().values()]
        seeds = _common_length([run for category in runs for run in category])
        if seeds is None:
            return Score(float(np.mean([_mean_of_means(category) for category in runs])))
        return average([np.mean(category, axis=0) for category in runs])

    def above(self, threshold: float) -> int:
        """For how many algorithms the mean over seeds exceeds a threshold."""
        return sum(float(np.mean(run)) > threshold for run in self.runs.values())


def measured(scores: np.ndarray) -> Score:
    """Mean, standard deviation of a sample, and number of scores."""
    return Score(float(np.mean(scores)), float(np.std(scores, ddof=1)) if len(scores) > 1 else None, len(scores))


def in_spreads(difference: float, *scores: Score) -> float:
    """A difference in units of the scores' standard deviations together, the root of the sum of their squares.

    Where there is no spread it is 0 for no difference and otherwise infinite.
    """
    spread = math.hypot(*(score.std or 0.0 for score in scores))
    if spread > 0:
        return difference / spread
    return 0.0 if abs(difference) < 1e-9 else math.copysign(math.inf, difference)


def average(runs: list[np.ndarray]) -> Score:
    """The average of several means over seeds, with the spread of the average that each seed has on its own."""
    seeds = _common_length(runs)
    return Score(_mean_of_means(runs)) if seeds is None else measured(np.mean(runs, axis=0))


def _mean_of_means(runs: list[np.ndarray]) -> float:
    return float(np.mean([np.mean(run) for run in runs]))


def _common_length(runs: list[np.ndarray]) -> int | None:
    lengths = {len(run) for run in runs}
    return lengths.pop() if len(lengths) == 1 else None


def category_members() -> dict[str, list[str]]:
    """The algorithms of each category, both in the paper's order."""
    from narkit.algorithms import ALGORITHMS

    return {
        category: [name for name in paper.labels() if ALGORITHMS[name].category == category]
        for category in paper.CATEGORIES.values()
    }


def read_grid(
    folder: str | os.PathLike, preset: str = "paper", *, empty: bool = False, free: Collection[str] = ()
) -> Grid:
    """Reads the records at `folder/preset/system/algorithm.json`, or at `folder/system/algorithm.json`.

    Those that `narkit records check` refuses, in the wrong place or not made by the preset are left out, with the
    reason. A folder without any record is an error unless `empty` says that it may be so. `free` names options in which
    records may differ from the preset; such a grid is for `narkit.report.learning`, never for the preset's tables.
    """
    folder = Path(folder)
    if preset not in PRESETS:
        raise UnknownNameError("preset", preset, PRESETS)
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no such folder"
        raise ResultsError(f"{folder}: expected a folder of results, as `narkit sweep` writes them, got {found}")
    place = folder / preset if (folder / preset).is_dir() else folder
    cells, left_out, digest = {}, [], hashlib.sha256()
    for path in _record_files(place):
        name = path.relative_to(place).as_posix()
        checked = check_file(path)
        digest.update(f"{name}\n".encode() + (b"" if checked.unreadable else path.read_bytes()))
        system, algorithm, record = path.parent.name, path.stem, checked.record
        if record is None:
            reason = f"cannot be read: {'; '.join(checked.problems)}"
        elif checked.problems:
            reason = f"`narkit records check` refuses it: {'; '.join(checked.problems)}"
        else:
            reason = _misfit(record, preset, system, algorithm, free)
        if reason is None and record is not None:
            cells[system, algorithm] = record
        else:
            left_out.append(LeftOut(name, reason or ""))
    if not (cells or left_out or empty):
        raise ResultsError(
            f"{folder}: expected records at {folder / preset}/SYSTEM/ALGORITHM.json, found none. Run `narkit sweep "
            f"--preset {preset} --out {folder / preset}` first, or say --empty to show everything as not run"
        )
    return Grid(folder, place, preset, cells, tuple(left_out), digest.hexdigest()[:12])


def _record_files(folder: Path) -> Iterator[Path]:
    """The records of finished cells; folders of unfinished ones begin with a dot."""
    for path in sorted(folder.glob("*/*.json")):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _misfit(record: RunRecord, preset: str, system: str, algorithm: str, free: Collection[str]) -> str | None:
    """Why a record, which is of this system and algorithm, is not the preset's, or None."""
    if system not in {column.system for column in COLUMNS}:
        return f"the tables have no column for the system {system}"
    if algorithm not in paper.labels():
        return f"the tables have no row for the algorithm {algorithm}"
    return follows_preset(record, preset, free)
