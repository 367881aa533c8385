"""The choices of every selection rule of a run so far. `narkit.training.rules` says what rules there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from narkit.training.rules import LOWEST_LOSS, Rule

HostParameters = Float[np.ndarray, "seed parameter"]


@dataclass(frozen=True)
class Validated:
    """The measurements of one kind of weights at one step: scores and losses by validation set, per seed."""

    parameters: HostParameters
    scores: Mapping[str, np.ndarray]
    losses: Mapping[str, np.ndarray]


@dataclass
class Selection:
    """The choice of every rule so far: for each seed the step, score and loss, and the parameters.

    A rule that takes the end of training keeps the score and the loss of the first validation set.
    Parameters are kept in the host's memory: what is put on the device between steps and stays there splits the room
    that the next step needs in one piece.
    """

    rules: Mapping[str, Rule]
    parameters: dict[str, HostParameters]
    steps: dict[str, list[int]] = field(default_factory=dict)
    scores: dict[str, list[float]] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def start(cls, rules: Mapping[str, Rule], parameters: HostParameters) -> Selection:
        num_seeds = len(parameters)
        return cls(
            rules,
            {name: np.array(parameters) for name in rules},
            {name: [0] * num_seeds for name in rules},
            {name: [-1.0] * num_seeds for name in rules},
            {name: [float("inf")] * num_seeds for name in rules},
        )

    def update(self, step: int, validated: Mapping[str, Validated], alive: np.ndarray) -> None:
        """Takes the validation after `step` into account, which has been made of each kind of weights."""
        for rule in self.rules.values():
            found = validated[rule.weights]
            name = next(iter(found.scores)) if rule.validation is None else rule.validation
            score, loss = found.scores[name], found.losses[name]
            self._take(rule.name, self._is_better(rule, score, loss) & alive, step, found.parameters, score, loss)

    def _is_better(self, rule: Rule, score: np.ndarray, loss: np.ndarray) -> np.ndarray:
        if rule.validation is None:
            return np.ones(len(score), bool)
        best_score, best_loss = np.array(self.scores[rule.name]), np.array(self.losses[rule.name])
        wins_tie = loss <= best_loss if rule.ties == LOWEST_LOSS else False
        return (score > best_score) | ((score == best_score) & wins_tie)

    def _take(self, rule, chosen, step, parameters, score, loss) -> None:
        self.parameters[rule][chosen] = parameters[chosen]
        for seed in np.flatnonzero(chosen):
            self.steps[rule][seed] = step
            self.scores[rule][seed] = float(score[seed])
            self.losses[rule][seed] = float(loss[seed])
