"""Published weights by name: `team/dijkstra` is the network of the system `team` for `dijkstra`.

A folder of weights has files SYSTEM/ALGORITHM.safetensors, or those of several sweeps in folders of their own,
SWEEP/SYSTEM/ALGORITHM.safetensors, with the record of the run beside each, as `narkit sweep` writes them. Whatever lies
there is found; nothing lists them.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narkit
from narkit.errors import UnknownNameError
from narkit.sweeps.manifest import file_digest

if TYPE_CHECKING:
    from narkit.models.network import Reasoner

VARIABLE = "NARKIT_WEIGHTS"
SUFFIX = ".safetensors"
PACKAGE = Path(narkit.__file__).parent
TEST_SIZE = 64  # of the official test split


class WeightsError(ValueError):
    """Weights that are not there, or not those that their record tells of."""


@dataclass(frozen=True)
class MeasuredScore:
    """A network's score on instances of one size: a share between 0 and 1, on validation or the official test."""

    size: int
    score: float
    split: str


@dataclass(frozen=True)
class PublishedWeights:
    """A file of weights and what its record says of it."""

    path: Path
    sweep: str  # the folder above the system; empty where there is none
    system: str
    algorithm: str

    @property
    def name(self) -> str:
        return f"{self.system}/{self.algorithm}"

    @property
    def full_name(self) -> str:
        return f"{self.sweep}/{self.name}" if self.sweep else self.name

    @property
    def record_path(self) -> Path:
        return self.path.with_suffix(".json")

    @functools.cached_property
    def record(self) -> Mapping[str, Any]:
        """The record of the run; empty where there is none."""
        try:
            found = json.loads(self.record_path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise WeightsError(
                f"{self.record_path}: expected the record of the weights beside it, got: {error}"
            ) from None
        return found if isinstance(found, dict) else {}

    @functools.cached_property
    def measured(self) -> tuple[MeasuredScore, ...]:
        """The scores of this very network by size: of its seed at the step that its rule chose."""
        kept = self.record.get("weights")
        if not kept:
            return ()
        try:
            row = list(self.record["config"]["seeds"]).index(kept["seed"])
            step = self.record["selected"][kept["rule"]]["steps"][row]
            points = [point for point in self.record["curve"] if point["step"] == step]
            rules = self.record.get("rules")  # in the first formats names alone, of raw weights
            averaged = isinstance(rules, Mapping) and rules[kept["rule"]].get("weights") == "averaged"
            scores = points[0]["average_scores" if averaged else "scores"] if points else {}
            found = [
                MeasuredScore(validation["size"], float(scores[validation["name"]][row]), "validation")
                for validation in self.record["config"]["validations"]
                if validation["name"] in scores
            ]
            tested = self.record["test"].get(self.algorithm, {}).get(kept["rule"], [])
            found += [MeasuredScore(TEST_SIZE, float(tested[row]["score"]), "official test")] if tested else []
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise WeightsError(f"{self.record_path}: expected the record of a run; it lacks {error}") from None
        return tuple(found)

    @property
    def score(self) -> float | None:
        """The score on the official test split; None if it was not measured."""
        return next((entry.score for entry in self.measured if entry.size == TEST_SIZE), None)

    def summary(self) -> dict[str, Any]:
        """Summarises these weights as lists show them."""
        expected, digest = (self.record.get("weights") or {}).get("sha256"), file_digest(self.path)
        return {
            "name": self.full_name,
            "algorithm": self.algorithm,
            "score": self.score,
            "bytes": self.path.stat().st_size,
            "sha256": digest,
            "agrees_with_record": None if expected is None else digest == expected,
            "record": str(self.record_path) if self.record else None,
            "file": str(self.path),
        }

    def check(self) -> None:
        """Refuses a file that is not the one that the record tells of."""
        expected = (self.record.get("weights") or {}).get("sha256")
        if expected is not None and (digest := file_digest(self.path)) != expected:
            raise WeightsError(
                f"{self.path}: expected the weights that {self.record_path.name} tells of, SHA-256 {expected[:12]}…, "
                f"got {digest[:12]}…: the file was changed or cut; take it from its source again"
            )


def folders() -> list[Path]:
    """Lists the folders with weights: the one that NARKIT_WEIGHTS names; else a checkout's results, or the package."""
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_dir():
            raise WeightsError(f"{VARIABLE}: expected a folder of weights, but there is none at {named}")
        return [Path(named)]
    checkout = PACKAGE.parents[1]
    is_checkout = PACKAGE.parent.name == "src" and (checkout / "pyproject.toml").is_file()
    return [place for place in (checkout / "results" if is_checkout else None, PACKAGE / "weights") if place]


def published(algorithm: str | None = None) -> list[PublishedWeights]:
    """Returns all weights, or those for one algorithm, the best first."""
    found = []
    pattern = f"{algorithm or '*'}{SUFFIX}"
    for folder in folders():
        for path in sorted((*folder.glob(f"*/{pattern}"), *folder.glob(f"*/*/{pattern}"))):
            *sweep, system = path.relative_to(folder).parts[:-1]
            if not any(part.startswith(".") for part in (*sweep, system)):
                found.append(PublishedWeights(path, "/".join(sweep), system, path.stem))
    return sorted(found, key=lambda entry: (-(entry.score if entry.score is not None else -1.0), entry.full_name))


def best(algorithm: str) -> PublishedWeights:
    """Returns the weights with the best score on the official test for an algorithm."""
    found = published(algorithm)
    if not found:
        places = ", ".join(map(str, folders()))
        raise WeightsError(
            f"{algorithm}: expected published weights, but there are none in {places}; train some "
            f"(narkit train --algorithm {algorithm}) and give their file as weights, or set {VARIABLE} to their folder"
        )
    return found[0]


def find(name: str) -> PublishedWeights:
    """Finds the weights of a name: SYSTEM/ALGORITHM, of several sweeps the best, or SWEEP/SYSTEM/ALGORITHM."""
    algorithm = name.rsplit("/", 1)[-1]
    found = published(algorithm) if "/" in name and "*" not in name else []
    for entry in found:
        if name in (entry.name, entry.full_name):
            return entry
    raise UnknownNameError("network", name, [entry.name for entry in published()])


def load(weights: str | os.PathLike) -> Reasoner:
    """Loads the reasoner in a file that `narkit.save` has written, or a published one: `narkit.load("team/dijkstra")`.

    `narkit weights` lists the names of published ones.
    """
    from narkit.models.serialization import load as load_file

    path = Path(weights)
    if path.suffix == SUFFIX or path.is_file() or not isinstance(weights, str):
        return load_file(path)
    entry = find(weights)
    entry.check()
    return load_file(entry.path)
