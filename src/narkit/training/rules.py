"""Selection rules: they decide which checkpoint of a run counts.

Validation saturates early, so many checkpoints tie, and which of them is taken can decide the test score. Rules are
data: a `Rule` says which validation set it looks at, which weights it takes and what decides between equal scores. They
are fixed before training, all are tracked in one run, and its record carries them. By default a run has

- `id`, `ood` (the names of the validation sets): the best validation score; of equal ones the lowest validation loss,
  and of those the latest.
- `id_first`, `ood_first`: the best validation score; of equal ones the first, as dm-clrs does it.
- `last`: the end of training.
- where weights are averaged, `id_average`, `ood_average` and `last_average`: the same as `id`, `ood` and `last` for the
  averaged weights. No rule chooses between raw and averaged weights.

To change what every run tracks, change `default_rules`: records and checkpoints that were made before keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from narkit.errors import UnknownNameError

if TYPE_CHECKING:
    from narkit.training.config import TrainConfig, Validation

RAW, AVERAGED = "raw", "averaged"
WEIGHTS = (RAW, AVERAGED)
LOWEST_LOSS, FIRST = "lowest_loss", "first"
TIES = (LOWEST_LOSS, FIRST)

LAST = "last"
FIRST_SUFFIX, AVERAGE_SUFFIX = "_first", "_average"


@dataclass(frozen=True)
class Rule:
    """A rule that says which checkpoint of a run is taken.

    - `validation`: the validation set whose score decides; None takes the end of training, whatever it scores.
    - `weights`: `"raw"` are those that the optimiser changes, `"averaged"` their moving average (`average` of
      `TrainConfig`).
    - `ties`: of checkpoints with the same score, `"lowest_loss"` takes that with the lowest validation loss, and of
      those the latest; `"first"` takes the first.
    """

    name: str
    validation: str | None
    weights: str = RAW
    ties: str = LOWEST_LOSS

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"rule {self.name!r}: expected a plain word as its name")
        if self.weights not in WEIGHTS:
            raise UnknownNameError(f"kind of weights (rule {self.name})", self.weights, WEIGHTS)
        if self.ties not in TIES:
            raise UnknownNameError(f"way to decide between equal scores (rule {self.name})", self.ties, TIES)

    def to_json(self) -> dict[str, Any]:
        """Returns all fields but the name, by which a record keeps it."""
        return {name: value for name, value in asdict(self).items() if name != "name"}

    def in_words(self) -> str:
        """Returns what it takes, as a table of rules says it."""
        weights = " of the averaged weights" if self.weights == AVERAGED else ""
        if self.validation is None:
            return f"the end of training{weights}"
        ties = "the lowest validation loss, then the latest" if self.ties == LOWEST_LOSS else "the first"
        return f"the best score{weights} on the validation set {self.validation}; of equal ones {ties}"


def default_rules(validations: Iterable[Validation], averaged: bool) -> list[Rule]:
    """Returns the rules of a run with these validation sets, of which some may choose nothing."""
    names = [validation.name for validation in validations if validation.selects]
    found = [Rule(name, name) for name in names]
    found += [Rule(f"{name}{FIRST_SUFFIX}", name, ties=FIRST) for name in names]
    found += [Rule(LAST, None)]
    if averaged:
        found += [Rule(f"{name}{AVERAGE_SUFFIX}", name, AVERAGED) for name in names]
        found += [Rule(f"{LAST}{AVERAGE_SUFFIX}", None, AVERAGED)]
    return found


def rules(config: TrainConfig) -> dict[str, Rule]:
    """Returns the rules of a run by name: those that its configuration lists, else the default ones."""
    found = config.rules or default_rules(config.validations, config.averages)
    return {rule.name: rule for rule in found}


def check_rules(config: TrainConfig) -> None:
    """Raises if a rule looks at what the run does not have, or two have the same name."""
    names = [rule.name for rule in config.rules]
    if len(set(names)) != len(names):
        raise ValueError(f"rules: expected different names, got {names}")
    selecting = [validation.name for validation in config.validations if validation.selects]
    for rule in config.rules:
        if rule.validation is not None and rule.validation not in selecting:
            raise UnknownNameError(f"validation set that selects (rule {rule.name})", rule.validation, selecting)
        if rule.weights == AVERAGED and not config.averages:
            raise ValueError(f"rule {rule.name}: expected average > 0 with it, such as average=0.999, got 0")


def rules_of_format_2(names: Iterable[str]) -> dict[str, Rule]:
    """Returns what names of rules meant when records and checkpoints had only those. This does not change any more."""
    found = {}
    for name in names:
        validation = None if name == LAST else name.removesuffix(FIRST_SUFFIX)
        ties = FIRST if name.endswith(FIRST_SUFFIX) else LOWEST_LOSS
        found[name] = Rule(name, validation, ties=ties)
    return found


def rules_from_json(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Rule]:
    """Reads the rules that a record or a checkpoint carries, by name. A field that it lacks has its default."""
    return {name: Rule(name, **{"validation": None, **fields}) for name, fields in values.items()}
