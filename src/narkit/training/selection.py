"""Which checkpoint of a run counts: the rules, and the parameters that each would choose.

Validation saturates early, so many checkpoints tie, and which of them is taken can decide the test score. Each rule
here is fixed before training, all are tracked in one run, and the record names the one that a table uses:

- `id`, `ood` (the names of the validation sets): the best validation score; of equal ones the lowest validation
  loss, and of those the latest.
- `id_first`, `ood_first`: the best validation score; of equal ones the first, as dm-clrs does it.
- `last`: the end of training.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from narkit.training.config import TrainConfig

LAST = "last"

HostParameters = Float[np.ndarray, "seed parameter"]


def rules(config: TrainConfig) -> list[str]:
    """The names of all rules of a run."""
    names = [validation.name for validation in config.validations]
    return [*names, *(f"{name}_first" for name in names), LAST]


@dataclass
class Selection:
    """The choice of every rule so far: for each seed the step, score and loss, and the parameters.

    Parameters are kept in the host's memory: what is put on the device between steps and stays there splits the room
    that the next step needs in one piece.
    """

    parameters: dict[str, HostParameters]
    steps: dict[str, list[int]] = field(default_factory=dict)
    scores: dict[str, list[float]] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def start(cls, config: TrainConfig, parameters: HostParameters) -> Selection:
        num_seeds, names = len(config.seeds), rules(config)
        return cls(
            {name: np.array(parameters) for name in names},
            {name: [0] * num_seeds for name in names},
            {name: [-1.0] * num_seeds for name in names},
            {name: [float("inf")] * num_seeds for name in names},
        )

    def update(
        self,
        step: int,
        parameters: HostParameters,
        scores: dict[str, np.ndarray],
        losses: dict[str, np.ndarray],
        alive: np.ndarray,
    ) -> None:
        """Takes the validation after `step` into account; `scores` and `losses` are by validation set, per seed."""
        for name, score in scores.items():
            self._take(name, self._is_better(name, score, losses[name]) & alive, step, parameters, score, losses[name])
            first = f"{name}_first"
            self._take(first, (score > self.scores[first]) & alive, step, parameters, score, losses[name])
        name, score = next(iter(scores.items()))
        self._take(LAST, alive, step, parameters, score, losses[name])

    def _is_better(self, rule: str, score: np.ndarray, loss: np.ndarray) -> np.ndarray:
        best_score, best_loss = np.array(self.scores[rule]), np.array(self.losses[rule])
        return (score > best_score) | ((score == best_score) & (loss <= best_loss))

    def _take(self, rule, chosen, step, parameters, score, loss) -> None:
        self.parameters[rule][chosen] = parameters[chosen]
        for seed in np.flatnonzero(chosen):
            self.steps[rule][seed] = step
            self.scores[rule][seed] = float(score[seed])
            self.losses[rule][seed] = float(loss[seed])
