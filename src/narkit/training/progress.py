"""The state of a run on the host while it trains: curves, times, seeds that were lost and steps that were skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from narkit.training.rules import AVERAGED, RAW


@dataclass
class Point:
    """One validation: the training loss since the last one, and the scores and losses of each set, per seed.

    Those of the averaged weights are empty where none are kept.
    """

    step: int
    train_loss: list[float]
    scores: dict[str, list[float]]
    losses: dict[str, list[float]]
    average_scores: dict[str, list[float]] = field(default_factory=dict)
    average_losses: dict[str, list[float]] = field(default_factory=dict)

    def of(self, weights: str) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
        """Returns the scores and the losses of raw or of averaged weights."""
        return (self.average_scores, self.average_losses) if weights == AVERAGED else (self.scores, self.losses)

    def per_seed(self, seeds: Sequence[int]) -> dict[str, float]:
        """Returns every number under a name of its own, as dashboards have them: `score/ood/seed_0`."""
        curves = {"loss/train": self.train_loss}
        for kind, prefix in ((RAW, ""), (AVERAGED, "average_")):
            scores, losses = self.of(kind)
            curves |= {f"{prefix}score/{name}": values for name, values in scores.items()}
            curves |= {f"{prefix}loss/{name}": values for name, values in losses.items()}
        return {
            f"{name}/seed_{seed}": value
            for name, values in curves.items()
            for seed, value in zip(seeds, values, strict=True)
        }

    def to_json(self) -> dict[str, Any]:
        """Returns its fields; those of averaged weights only where there are any."""
        return {name: value for name, value in asdict(self).items() if value or not name.startswith("average_")}


@dataclass
class Timings:
    """The seconds by part of a run. Training includes waiting for data: the host waited while the device was idle."""

    compiling: float = 0.0
    waiting_for_data: float = 0.0
    training: float = 0.0
    validating: float = 0.0
    saving: float = 0.0
    testing: float = 0.0
    compiled_programs: int = 0
    compiling_ahead: float = 0.0  # while another run trained; not part of `compiling`, which this run waited for

    @property
    def total(self) -> float:
        """The seconds of the run, each once: neither waiting (part of training) nor compiling ahead is added."""
        return self.compiling + self.training + self.validating + self.saving + self.testing


@dataclass
class Progress:
    """The part of a run's state that is not on the device."""

    step: int = 0
    curve: list[Point] = field(default_factory=list)
    timings: Timings = field(default_factory=Timings)
    skipped: list[list[int]] = field(default_factory=list)  # for each seed the steps that changed nothing

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"curve": [point.to_json() for point in self.curve]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Progress:
        """Reads the progress that a checkpoint tells. What an older one lacks becomes empty."""
        curve = [Point(**point) for point in values["curve"]]
        return cls(values["step"], curve, Timings(**values["timings"]), values.get("skipped", []))


@dataclass(frozen=True)
class Divergence:
    """A seed whose loss or gradient was no longer finite: when, and on which batch. It stays as it was before."""

    seed: int
    step: int
    algorithm: str
    size: int


@dataclass(frozen=True)
class SkippedSteps:
    """Steps of one seed on batches of one kind that changed nothing, since their gradient was not finite."""

    seed: int
    algorithm: str
    size: int
    steps: list[int]


@dataclass(frozen=True)
class Snapshot:
    """The state that a run needs to go on from where it is: arrays, and what JSON can hold."""

    arrays: dict[str, Any]
    progress: dict[str, Any]
