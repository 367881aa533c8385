"""The records of a grid, systems times algorithms, as tables and figures read them."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from narkit.errors import UnknownNameError
from narkit.report import paper
from narkit.report.paper import Score
from narkit.sweeps.checks import check_file
from narkit.sweeps.systems import SYSTEMS, System, trainings
from narkit.training.presets import PRESETS
from narkit.training.record import RunRecord


class ResultsError(ValueError):
    """A folder of results that no report can be made from."""


@dataclass(frozen=True)
class LeftOut:
    """A record that enters no table, and why."""

    path: str  # below the folder of the preset
    reason: str


@dataclass(frozen=True)
class Grid:
    """The records of systems by training and algorithm, and those that were left out."""

    folder: Path  # as it was asked for
    systems: tuple[System, ...]  # that were asked for, in the order of columns
    places: Mapping[str, Path]  # within the folder, by preset: where the folders of its systems lie
    cells: Mapping[tuple[str, str], RunRecord]
    left_out: tuple[LeftOut, ...]
    digest: str  # of all files that were read; two grids with the same digest give the same report

    def column(self, system: System) -> ColumnScores:
        """Returns the scores of a system under the rule that was fixed for it."""
        return self.scores(system, system.rule)

    def scores(self, system: System, rule: str) -> ColumnScores:
        """Returns the scores of a system under a selection rule."""
        return ColumnScores({name: record.test_scores(name, rule) for name, record in self.records(system).items()})

    def records(self, system: System) -> dict[str, RunRecord]:
        """Returns the records of a system's training by algorithm, in the paper's order."""
        cells = ((name, self.cells.get((system.training, name))) for name in paper.labels())
        return {name: record for name, record in cells if record is not None}

    @property
    def columns(self) -> list[System]:
        """The systems that tables show: those that were published, and those that have records."""
        return [system for system in self.systems if system.published or self.records(system)]

    @property
    def trained(self) -> list[System]:
        """The systems that have records, in the order of columns; of those that share a training the first."""
        return [system for system in trainings(self.systems) if self.records(system)]

    @property
    def preset(self) -> str:
        """The presets that the records were made by, in words."""
        found = dict.fromkeys(system.preset for system in self.trained)
        return " and ".join(found) if found else main_preset(self.systems)

    def weights(self, system: System, algorithm: str) -> Path:
        """Returns the place of a cell's weights, if they were kept."""
        return self.places[system.preset] / system.training / f"{algorithm}.safetensors"


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
        """Averages the algorithms of a category, if all were run, with the spread of all their runs together."""
        members = category_members()[name]
        if not set(members) <= set(self.runs):
            return None
        runs = [self.runs[member] for member in members]
        return Score(_mean_of_means(runs), measured(np.concatenate(runs)).std, _common_length(runs))

    def average(self) -> Score | None:
        """Averages the thirty algorithms, if all were run. The spread is that of the seeds' own averages."""
        return self.average_of_those_run() if self.complete else None

    def average_of_those_run(self) -> Score | None:
        """Returns the average over the algorithms that were run, however many."""
        return average([self.runs[name] for name in paper.labels() if name in self.runs]) if self.runs else None

    def average_of_categories(self) -> Score | None:
        """Returns the average over the means of the eight categories, if all algorithms were run."""
        if not self.complete:
            return None
        runs = [[self.runs[name] for name in members] for members in category_members().values()]
        seeds = _common_length([run for category in runs for run in category])
        if seeds is None:
            return Score(float(np.mean([_mean_of_means(category) for category in runs])))
        return average([np.mean(category, axis=0) for category in runs])

    def above(self, threshold: float) -> int:
        """Counts the algorithms for which the mean over seeds exceeds a threshold."""
        return sum(float(np.mean(run)) > threshold for run in self.runs.values())


def measured(scores: np.ndarray) -> Score:
    """Computes the mean, the standard deviation of a sample, and the number of scores."""
    return Score(float(np.mean(scores)), float(np.std(scores, ddof=1)) if len(scores) > 1 else None, len(scores))


def in_spreads(difference: float, *scores: Score) -> float:
    """Expresses a difference in units of the joint standard deviation: the root of the sum of the scores' squared ones.

    Where there is no spread it is 0 for no difference and otherwise infinite.
    """
    spread = math.hypot(*(score.std or 0.0 for score in scores))
    if spread > 0:
        return difference / spread
    return 0.0 if abs(difference) < 1e-9 else math.copysign(math.inf, difference)


def average(runs: list[np.ndarray]) -> Score:
    """Averages several means over seeds, with the spread of the average that each seed has on its own."""
    seeds = _common_length(runs)
    return Score(_mean_of_means(runs)) if seeds is None else measured(np.mean(runs, axis=0))


def _mean_of_means(runs: list[np.ndarray]) -> float:
    return float(np.mean([np.mean(run) for run in runs]))


def _common_length(runs: list[np.ndarray]) -> int | None:
    lengths = {len(run) for run in runs}
    return lengths.pop() if len(lengths) == 1 else None


def category_members() -> dict[str, list[str]]:
    """Returns the algorithms of each category, both in the paper's order."""
    from narkit.algorithms import ALGORITHMS

    return {
        category: [name for name in paper.labels() if ALGORITHMS[name].category == category]
        for category in paper.CATEGORIES.values()
    }


def main_preset(systems: Iterable[System]) -> str:
    """Returns the preset that most of the tables are about: the paper's, or the first."""
    presets = [system.preset for system in systems]
    return "paper" if "paper" in presets or not presets else presets[0]


def read_grid(
    folder: str | os.PathLike,
    preset: str | None = None,
    *,
    systems: Iterable[System] | None = None,
    empty: bool = False,
    free: Collection[str] = (),
) -> Grid:
    """Reads the records at `folder/PRESET/SYSTEM/ALGORITHM.json`, or at `folder/SYSTEM/ALGORITHM.json`.

    Every system is read by its own preset, or all by the one that is given. By default the systems are those that are
    registered, and processors without a system of their own that have a folder. Records that `narkit records check`
    refuses, in the wrong place or not made by the preset are left out, with the reason. A folder without any record is
    an error unless `empty` says that it may be so. `free` names options in which records may differ from the preset;
    such a grid is for `narkit.report.learning`, never for the preset's tables.
    """
    folder = Path(folder)
    if preset is not None and preset not in PRESETS:
        raise UnknownNameError("preset", preset, PRESETS)
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no such folder"
        raise ResultsError(f"{folder}: expected a folder of results, as `narkit sweep` writes them, got {found}")
    wanted = [system.under(preset) for system in (SYSTEMS.values() if systems is None else systems)]
    places = _places(folder, wanted)
    if systems is None:
        wanted += _processors_with_records(places, wanted)
    cells, left_out, digest = {}, [], hashlib.sha256()
    for place in dict.fromkeys(places.values()):
        own = [system for system in wanted if places[system.preset] == place]
        for path in _record_files(place):
            name = path.relative_to(place).as_posix()
            checked = check_file(path)
            digest.update(f"{name}\n".encode() + (b"" if checked.unreadable else path.read_bytes()))
            if checked.record is None:
                left_out.append(LeftOut(name, f"cannot be read: {'; '.join(checked.problems)}"))
            elif checked.problems:
                left_out.append(LeftOut(name, f"`narkit records check` refuses it: {'; '.join(checked.problems)}"))
            elif reason := _misfit(checked.record, path, own, free):
                left_out.append(LeftOut(name, reason))
            else:
                cells[path.parent.name, path.stem] = checked.record
    if not (cells or left_out or empty):
        main = main_preset(wanted)
        raise ResultsError(
            f"{folder}: expected records at {folder / main}/SYSTEM/ALGORITHM.json, found none. Run `narkit sweep "
            f"--preset {main} --out {folder / main}` first, or say --empty to show everything as not run"
        )
    return Grid(folder, tuple(wanted), places, cells, tuple(left_out), digest.hexdigest()[:12])


def _places(folder: Path, systems: Iterable[System]) -> dict[str, Path]:
    """Finds the folder of systems for every preset: `folder/PRESET`, or the folder itself if it has none of these."""
    presets = sorted({system.preset for system in systems}, key=lambda name: (name != "paper", name))
    within = any((folder / name).is_dir() for name in presets)
    return {name: folder / name if within else folder for name in presets}


def _processors_with_records(places: Mapping[str, Path], systems: Sequence[System]) -> list[System]:
    """Makes systems for folders that bear the name of a processor and of no system."""
    from narkit.models.processors import PROCESSORS

    known = {system.training for system in systems}
    found = []
    for preset, place in places.items():
        folders = sorted({path.parent.name for path in _record_files(place)} - known)
        found += [System(name, name, name, preset=preset) for name in folders if name in PROCESSORS]
        known |= set(folders)
    return found


def _record_files(folder: Path) -> Iterator[Path]:
    """Yields the records of finished cells; folders of unfinished ones begin with a dot."""
    for path in sorted(folder.glob("*/*.json")):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _misfit(record: RunRecord, path: Path, systems: Sequence[System], free: Collection[str]) -> str | None:
    """Says why a record is none of these systems', at this place; None if it is."""
    training, algorithm = path.parent.name, path.stem
    system = next((system for system in systems if system.training == training), None)
    if system is None:
        if training in SYSTEMS:
            return f"the tables show {training} by the preset {SYSTEMS[training].preset}; say --preset for another"
        return f"the tables have no column for the system {training}: expected one in narkit.SYSTEMS"
    if algorithm not in paper.labels():
        return f"the tables have no row for the algorithm {algorithm}"
    if record.config.processor != system.processor:
        return f"expected the processor {system.processor} of the system {training}, got {record.config.processor}"
    return system.why_not(record, free)
