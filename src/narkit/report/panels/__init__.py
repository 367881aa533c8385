"""Panels: one step of a run, drawn in the way that fits the algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from narkit.algorithms.meanings import value_names
from narkit.data.batch import Batch
from narkit.report.drawings import Sign, drawing, signs
from narkit.spec import ALGORITHMS, Kind, Probe, Stage

INK, SOFT, LINE, FAINT = "#1b2330", "#525c6b", "#b9c1cc", "#eef0f3"
FILL, CHANGED = "#bcd7fb", "#e8a200"
CENTRE: dict[str, Any] = {"ha": "center", "va": "center"}  # where a text stands around its place
PASSING = "#fff3cf"  # the row and the column of the node that paths may newly pass through
TONES = ("#1d5fc4", "#0b7a57", "#7a3db8", "#8a5300", "#a3246f", "#35607a")
COLOURS = {"white": "#ffffff", "gray": "#9aa3ae", "black": "#16191e"}

Place = tuple[float, float]  # x and y in a panel


@dataclass(frozen=True)
class Moment:
    """The first run of a raw batch at one step."""

    batch: Batch
    step: int

    @property
    def num_nodes(self) -> int:
        return self.batch.num_nodes

    def input(self, name: str) -> np.ndarray:
        return self.batch.inputs[name][0]

    @property
    def drawing(self) -> dict[str, Any]:
        """The parts of the drawing apart from hints, and their places."""
        inputs = {name: values[0] for name, values in self.batch.inputs.items()}
        return drawing(ALGORITHMS[self.batch.algorithm], inputs)

    def probe(self, name: str) -> Probe:
        return self.batch.spec[name]

    def signs(self, *shapes: str) -> dict[str, Sign]:
        """Returns the hints that are drawn by one of these signs; those that are switched off at first are left out."""
        found = signs(ALGORITHMS[self.batch.algorithm])
        return {
            name: sign
            for name, sign in found.items()
            if sign.shape in shapes and sign.on and self.probe(name).stage is Stage.HINT
        }

    def values(self, name: str, back: int = 0) -> np.ndarray:
        """Returns the values of a hint, classes as their numbers."""
        values = self.batch.hints[name][max(0, self.step - back), 0]
        if self.probe(name).kind is Kind.CATEGORICAL:
            return np.where((values == 1).any(-1), values.argmax(-1), -1)
        return values

    def node(self, name: str) -> int:
        """Returns the node that a one-hot mask names."""
        return int(self.values(name).argmax())

    def changed(self, name: str) -> np.ndarray:
        """Marks the values that have changed since the step before."""
        return self.values(name) != self.values(name, back=1)

    def tags(self) -> dict[int, list[tuple[str, Sign]]]:
        """Groups one-hot masks by the node that they name."""
        found: dict[int, list[tuple[str, Sign]]] = {}
        for name, sign in self.signs("tag").items():
            if (self.values(name) == 1).any():
                found.setdefault(self.node(name), []).append((name, sign))
        return found

    def deepest_tags(self) -> int:
        """Returns the largest number of one-hot masks that name one node at any step."""
        moments = [Moment(self.batch, step) for step in range(int(self.batch.lengths[0]))]
        return max((len(tags) for moment in moments for tags in moment.tags().values()), default=0)

    def facts(self) -> list[str]:
        """Returns the hints of the whole instance in words: a line for each phase, one for all numbers and flags."""
        phases, others = [], []
        for name in self.signs("caption"):
            value = self.values(name)
            if names := value_names(self.batch.algorithm, name):
                phases.append(f"{name}: {names[int(value)]}")
            elif self.probe(name).kind is Kind.MASK:
                others.append(f"{name}: {'yes' if value == 1 else 'no'}")
            else:
                others.append(f"{name}: {number(float(value))}")
        return [*phases, ", ".join(others)] if others else phases


def number(value: float) -> str:
    """Formats a number as panels write it: short, without zeros that say nothing."""
    if float(value).is_integer() and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) >= 0.01 else f"{value:.1g}"


def tone(sign: Sign) -> str:
    return TONES[sign.tone % len(TONES)]
