"""The record of a run: everything that a table needs, and all that says how it came about.

Records are written in format 3, which carries the rules that the run was made with and a digest over its own content.
A field that a record lacks is off or empty, so that fields can be added without a new format. Records of format 2,
which name their rules only and have no digest, are read as they are; nothing rewrites them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from narkit.errors import UnknownNameError
from narkit.files import DIGEST, digest, sealed, write_whole
from narkit.training.config import TrainConfig
from narkit.training.progress import Divergence, Point, SkippedSteps, Timings
from narkit.training.rules import Rule, rules_from_json, rules_of_format_2
from narkit.training.run_directory import RECORD, RunDirectory, RunDirectoryError, plain_numbers

if TYPE_CHECKING:
    from narkit.models.network import Reasoner

FORMAT = 3
READABLE = (2, 3)

SeedScores = dict[str, float]
"""Scores of one seed: of every output, and under "score" their mean; or of every hint."""

# Fields that may differ between two runs of the same configuration on the same machine.
INCIDENTAL = {"timings", "waiting_share", "compiling_share", "peak_memory", "measured", "finished_at", "commit", DIGEST}


@dataclass(frozen=True)
class Chosen:
    """The choice of a selection rule: for each seed the step and its validation score."""

    steps: list[int]
    scores: list[float]


@dataclass(frozen=True)
class Weights:
    """The file beside a record with the network of one seed: the best by validation, never by test."""

    file: str
    rule: str
    seed: int
    dtype: str
    sha256: str


@dataclass(frozen=True)
class RunRecord:
    """A finished run. Lists over seeds are in the order of `config.seeds`.

    `test` is algorithm -> selection rule -> scores per seed on the official test split; `rules` has the rules that the
    run was made with, by name. `test_hints` has the same of every hint, where scalars have their mean squared error.
    `preset` is the name of the preset that a sweep started from and `system` that of the system that it trained, by
    default `config.processor`. `fast_path` says what ran fast, and of the rest why it did not. `scored` is the same as
    `test`, by the name of each set in `config.scored`.
    """

    config: TrainConfig
    rules: Mapping[str, Rule]
    selected: dict[str, Chosen]
    test: dict[str, dict[str, list[SeedScores]]]
    test_hints: dict[str, dict[str, list[SeedScores]]]
    curve: list[Point]
    diverged: list[Divergence]
    steps: int  # that were trained; fewer than configured if all seeds diverged
    parameters: int  # how many a network has
    timings: Timings
    waiting_share: float  # of the time spent training, how much went into waiting for data
    compiling_share: float  # of all time, how much went into compiling
    versions: dict[str, str]
    commit: str | None
    device: str
    peak_memory: int | None  # most bytes in use on the device since the process began; None where it does not tell
    measured: dict[str, bool]  # whether test, hints, and a peak of memory that is this run's own were measured
    finished_at: str
    preset: str | None = None
    weights: Weights | None = None
    skipped: list[SkippedSteps] = field(default_factory=list)
    fast_path: dict[str, Any] = field(default_factory=dict)
    system: str | None = None
    scored: dict[str, dict[str, dict[str, list[SeedScores]]]] = field(default_factory=dict)
    format: int = FORMAT  # that it was read in; it is written in the newest
    _directory: Path | None = field(default=None, repr=False, compare=False)
    _choices: Mapping[str, np.ndarray] | None = field(default=None, repr=False, compare=False)

    def reasoner(self, rule: str = "ood", seed: int = 0) -> Reasoner:
        """Returns the trained network that a rule chose for a seed."""
        from narkit.training.programs import Programs

        if rule not in self.rules:
            raise UnknownNameError("selection rule", rule, self.rules)
        if seed not in self.config.seeds:
            raise ValueError(f"seed: expected one that was trained, {list(self.config.seeds)}, got {seed}")
        row = self.config.seeds.index(seed)
        kept, folder = self.weights, self._directory
        if self._choices is None and kept and folder and (folder / kept.file).exists():
            if (rule, seed) != (kept.rule, kept.seed):
                raise ValueError(
                    f"only the weights of seed {kept.seed} under rule {kept.rule!r} were kept in {kept.file}; got seed "
                    f"{seed} and rule {rule!r}"
                )
            from narkit.models.serialization import load

            return load(folder / kept.file)
        import jax.numpy as jnp

        return Programs(self.config).reasoner(jnp.asarray(self.choices()[rule][row]))

    def choices(self) -> Mapping[str, np.ndarray]:
        """Returns the parameters that each rule chose, (seed, parameter)."""
        if self._choices is not None:
            return self._choices
        if self._directory is None:
            raise RunDirectoryError("this record has no folder with checkpoints; load it with RunRecord.load(folder)")
        return selected_parameters(RunDirectory(self._directory))

    def test_scores(self, algorithm: str, rule: str) -> np.ndarray:
        """Returns the test score of every seed, in percent."""
        return self._scores(self.test, algorithm, rule)

    def scores_on(self, name: str, algorithm: str, rule: str) -> np.ndarray:
        """Returns the score of every seed on one of the sets that are scored at the end, in percent."""
        if name not in self.scored:
            raise UnknownNameError("set that was scored", name, self.scored)
        return self._scores(self.scored[name], algorithm, rule)

    def _scores(self, found: Mapping[str, Any], algorithm: str, rule: str) -> np.ndarray:
        if algorithm not in found:
            raise UnknownNameError("tested algorithm", algorithm, found)
        if rule not in self.rules:
            raise UnknownNameError("selection rule", rule, self.rules)
        return 100 * np.array([scores["score"] for scores in found[algorithm][rule]])

    def to_json(self) -> dict[str, Any]:
        """Returns the record as JSON has it, in the newest format, with the digest over all of it."""
        values = dataclasses.asdict(dataclasses.replace(self, _directory=None, _choices=None))
        values["rules"] = {name: rule.to_json() for name, rule in self.rules.items()}
        values["curve"] = [point.to_json() for point in self.curve]
        # Records without sets that are scored at the end are as they always were.
        for name in ("format", "_directory", "_choices", *(() if self.scored else ("scored",))):
            del values[name]
        return sealed(plain_numbers({"format": FORMAT, **values}))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunRecord:
        found = values.get("format") if isinstance(values, Mapping) else type(values).__name__
        if not isinstance(values, Mapping) or found not in READABLE:
            raise RunDirectoryError(f"expected a run record of format {' or '.join(map(str, READABLE))}, got {found!r}")
        if found > 2 and values.get(DIGEST) != digest(values):
            raise RunDirectoryError("its content is not what was written: the digest in it is of something else")
        content = {name: value for name, value in values.items() if name != DIGEST}
        fields = [f for f in dataclasses.fields(cls) if not f.name.startswith("_")]
        optional = (dataclasses.MISSING, dataclasses.MISSING)
        needed = {f.name for f in fields if (f.default, f.default_factory) == optional}
        unknown = set(content) - {f.name for f in fields}
        if unknown or not needed <= set(content):
            raise RunDirectoryError(
                f"a run record misses {sorted(needed - set(content))} and has the unknown {sorted(unknown)}"
            )
        read_rules = rules_of_format_2 if found == 2 else rules_from_json
        weights = content.get("weights")
        return cls(
            **{
                **content,
                "config": TrainConfig.from_json(content["config"]),
                "rules": read_rules(content["rules"]),
                "selected": {rule: Chosen(**chosen) for rule, chosen in content["selected"].items()},
                "curve": [Point(**point) for point in content["curve"]],
                "diverged": [Divergence(**divergence) for divergence in content["diverged"]],
                "skipped": [SkippedSteps(**skipped) for skipped in content.get("skipped", ())],
                "timings": Timings(**content["timings"]),
                "weights": Weights(**weights) if weights else None,
            }
        )

    def result(self) -> dict[str, Any]:
        """Returns what the same configuration gives again on this machine: not times, memory, commit."""
        return {name: value for name, value in self.to_json().items() if name not in INCIDENTAL}

    def save(self, path: str | os.PathLike) -> None:
        """Writes the record as JSON, whole or not at all."""
        write_whole(Path(path), readable_json(self.to_json()))

    @classmethod
    def load(cls, path: str | os.PathLike) -> RunRecord:
        """Reads a record: the file, or the folder of a run."""
        path = Path(path)
        file = path / RECORD if path.is_dir() else path
        if not file.is_file():
            raise RunDirectoryError(
                f"{path}: expected a record or the folder of a finished run; there is no {file.name}"
            )
        try:
            record = cls.from_json(json.loads(file.read_text()))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RunDirectoryError(f"{file}: expected a whole JSON file: {error}") from None
        except KeyError as error:
            raise RunDirectoryError(f"{file}: a part of the record misses {error}") from None
        except RunDirectoryError as error:
            raise RunDirectoryError(f"{file}: {error}") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise RunDirectoryError(f"{file}: expected a record as narkit writes it: {error}") from None
        return dataclasses.replace(record, _directory=file.parent)


def readable_json(values: Any) -> str:
    """Returns JSON with a line for every list of plain values: a curve can be read, and its file stays small."""
    text = json.dumps(values, indent=2, allow_nan=False)
    # A string in JSON holds no line break, so what matches is a list.
    lists = re.compile(r"\[\n([^\[\]{}]*)\n *\]")
    return lists.sub(lambda found: "[" + re.sub(r" *\n *", " ", found[1]).strip() + "]", text) + "\n"


def why_not_made_by(record: RunRecord, wanted: TrainConfig, whose: str, free: Collection[str] = ()) -> str | None:
    """Returns why a record is not that of a finished run with this configuration, which is `whose`; None if it is.

    Only the number of seeds matters, not which they are. Options in `free` need not be the same.
    """
    config = record.config
    differing = [
        f"{option} is {here!r}, not {there!r}"
        for option, (here, there) in config.differences(wanted).items()
        if option not in free and option != "seeds"
    ]
    if differing:
        return f"expected the options of {whose}: {'; '.join(differing)}"
    if "seeds" not in free and len(config.seeds) != len(wanted.seeds):
        return f"expected {len(wanted.seeds)} seeds, got {len(config.seeds)}"
    if record.steps != config.steps and len(record.diverged) < len(config.seeds):
        return f"expected {config.steps} steps, got {record.steps}"
    if config.algorithms[0] not in record.test:
        return "expected scores on the official test split, got none"
    return None


def selected_parameters(directory: RunDirectory) -> dict[str, np.ndarray]:
    """Returns the parameters that each rule has chosen so far, (seed, parameter), from the latest checkpoint."""
    from narkit.training.checkpoint import Checkpoints
    from narkit.training.trainer import Trainer

    config = directory.config()
    with contextlib.closing(Checkpoints(directory.checkpoints)) as checkpoints:
        snapshot = checkpoints.load(Trainer(config).arrays_of) if checkpoints.steps() else None
    if snapshot is None:
        raise RunDirectoryError(f"{directory.folder}: expected checkpoints, but none was written yet")
    return snapshot.arrays["selection"]
