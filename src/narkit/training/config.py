"""The configuration of a training run. Every field is recorded with the result."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax

from narkit import settings
from narkit.algorithms import ALGORITHMS
from narkit.data.execution import check_size
from narkit.data.memory import check_memory
from narkit.data.splits import SPLITS
from narkit.errors import UnknownNameError
from narkit.models.interfaces import EdgePointers, Interfaces, NodePointers
from narkit.models.network import Hints
from narkit.models.processors import PROCESSORS, make_processor
from narkit.models.unrolling import Reprediction, Unrolling
from narkit.training.rules import AVERAGE_SUFFIX, FIRST_SUFFIX, LAST, Rule, check_rules

TRAINING, BENCHMARK = "training", "benchmark"
DISTRIBUTIONS = (TRAINING, BENCHMARK)


@dataclass(frozen=True)
class Validation:
    """A fixed set of instances that every checkpoint is scored on, and that checkpoints are selected by; or, among the
    `scored` of a configuration, one that is used at the end only.

    Instances are from the training distribution, with random positions and random densities; or from the benchmark's,
    as its own validation split is drawn, `num_samples` times the algorithm's multiplier of them. A set that does not
    select is scored, and no rule looks at it.
    """

    name: str  # rules that look at it bear its name
    size: int
    num_samples: int = 128
    distribution: str = TRAINING
    seed: int | None = None  # by default 0, or that of the benchmark's validation split
    selects: bool = True

    def __post_init__(self) -> None:
        for name, value in vars(self).copy().items():
            kind = {"size": int, "num_samples": int, "selects": bool, "seed": int | None}.get(name, str)
            object.__setattr__(self, name, settings.read(kind, f"validation {self.name!r}: {name}", value))
        if self.distribution not in DISTRIBUTIONS:
            raise UnknownNameError("distribution", self.distribution, DISTRIBUTIONS)
        if not self.name.isidentifier() or self.name == LAST or self.name.endswith((FIRST_SUFFIX, AVERAGE_SUFFIX)):
            raise ValueError(
                f"validation {self.name!r}: expected a plain word that is not {LAST!r} and ends neither in "
                f"{FIRST_SUFFIX!r} nor in {AVERAGE_SUFFIX!r}, since it names a selection rule"
            )
        if self.seed is not None and not 0 <= self.seed < 2**32:
            raise ValueError(f"validation {self.name!r}: expected a seed from 0 to 2^32 - 1, got {self.seed!r}")
        if self.distribution == BENCHMARK and self.seed == SPLITS["test"].seed:
            raise ValueError(
                f"validation {self.name!r}: expected another seed than {self.seed}, which draws the official test "
                "split; nothing is chosen by that"
            )
        for name in ("size", "num_samples"):
            settings.whole_number(f"validation {self.name!r}: {name}", getattr(self, name), at_least=1)


@dataclass(frozen=True)
class TrainConfig:
    """A training run: which network on which algorithms, for how long, with which data, selected how.

    The defaults are the protocol of the paper. Several seeds are trained as one program, each with its own
    parameters and data. With several algorithms, steps take turns.
    """

    algorithms: tuple[str, ...]
    processor: str = "team"
    processor_options: Mapping[str, Any] = field(default_factory=dict)
    hidden_size: int = 128
    hints: str = Hints.ENCODED.value
    seeds: tuple[int, ...] = (0,)
    steps: int = 10_000
    batch_size: int = 32
    sizes: tuple[int, ...] = (4, 7, 11, 13, 16)
    fixed_training_set: bool = False  # train on the 1000 official samples of size 16, drawn with replacement
    random_positions: bool = True
    learning_rate: float = 1e-3
    gradient_clip: float = 1.0  # of the global norm; 0 switches it off
    teacher_forcing: float = 0.0
    reprediction: str = Reprediction.SOFT.value
    validate_every: int = 200
    validations: tuple[Validation, ...] = (Validation("id", 16), Validation("ood", 32))
    test: bool = True  # score the selected checkpoints on the official test split at the end
    rules: tuple[Rule, ...] = ()  # that choose checkpoints; without any those of `rules.default_rules`
    average: float = 0.0  # the largest decay of a moving average of the weights; 0 keeps none
    average_horizon: float = 9.0  # after t steps the average reaches back over about the last t / 9, as long as the
    # decay is below its largest: it is min(average, (1 + t) / (1 + average_horizon + t))
    skipped_steps: int = 0  # so many steps in a row with a gradient that is not finite end a seed, fewer are skipped
    # and change nothing; with 0 the first one ends it
    hint_gradient: float = 1.0  # factor of the gradient that flows back through predicted hints, at every step
    # Interfaces of the network, see `narkit.models.interfaces`; by default as in the reference.
    edge_pointers: str = EdgePointers.MEANS.value
    node_pointers: str = NodePointers.REVERSE.value
    keep_pointers: bool = False
    comparisons: bool = False
    growing_hints: bool = False
    scored: tuple[Validation, ...] = ()  # sets that what the rules chose is scored on at the end; they choose nothing

    def __post_init__(self) -> None:
        if isinstance(self.algorithms, str):
            object.__setattr__(self, "algorithms", (self.algorithms,))
        for name, value in settings.read_fields(TrainConfig, vars(self)).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "algorithms", tuple(ALGORITHMS[name].name for name in self.algorithms))
        _check_processor_options(self.processor, self.processor_options)
        settings.choice("hint mode", self.hints, Hints)
        Unrolling(self.teacher_forcing, self.reprediction, self.hint_gradient)
        Interfaces.of(self)
        self._check_numbers()
        self._check_sizes()
        check_rules(self)

    def _check_numbers(self) -> None:
        for name in ("steps", "batch_size", "hidden_size", "validate_every"):
            settings.whole_number(name, getattr(self, name), at_least=1)
        for name in ("algorithms", "seeds", "sizes", "validations"):
            values = getattr(self, name)
            different = {v.name for v in self.validations} if name == "validations" else set(values)
            if not values or len(different) != len(values):
                raise ValueError(f"{name}: expected one or more different ones, got {values}")
        names = [each.name for each in (*self.validations, *self.scored)]
        if len(set(names)) != len(names):
            raise ValueError(f"scored: expected other names than those of the validation sets, got {names}")
        if self.learning_rate <= 0 or self.gradient_clip < 0:
            raise ValueError(
                f"expected a positive learning rate and a gradient clip of at least 0, got {self.learning_rate} and "
                f"{self.gradient_clip}"
            )
        if not 0 <= self.average < 1 or not 0 < self.average_horizon < math.inf:
            raise ValueError(
                "expected an average of at least 0 and below 1 and a positive average_horizon, got "
                f"{self.average} and {self.average_horizon}"
            )
        if self.skipped_steps < 0:
            raise ValueError(f"skipped_steps: expected a whole number of at least 0, got {self.skipped_steps!r}")
        if not all(0 <= seed < 2**32 for seed in self.seeds):
            raise ValueError(f"seeds: expected whole numbers from 0 to 2^32 - 1, got {self.seeds}")

    def _check_sizes(self) -> None:
        # Parameters of every seed, in float32, with their gradient and their two moments.
        try:
            size = _processor_size(PROCESSORS[self.processor], json.dumps(self.processor_options), self.hidden_size)
        except Exception:
            if self.processor_options:  # which it refuses
                raise
            size = 0  # it fails where it is made
        needed = 16.0 * size * len(self.seeds)
        check_memory(f"networks of width {self.hidden_size}", needed, "choose a smaller hidden_size or fewer seeds")
        for name in self.algorithms:
            for size in self.sizes:
                check_size(ALGORITHMS[name], size, self.batch_size)
            for validation in (*self.validations, *self.scored):
                check_size(ALGORITHMS[name], validation.size, validation.num_samples)
        if not self.random_positions and not self.fixed_training_set:
            raise ValueError(
                "random_positions=False: expected fixed_training_set=True with it; training streams always draw random "
                "positions"
            )

    @property
    def unrolling(self) -> Unrolling:
        return Unrolling(self.teacher_forcing, Reprediction(self.reprediction), self.hint_gradient)

    @property
    def interfaces(self) -> Interfaces:
        return Interfaces.of(self)

    @property
    def averages(self) -> bool:
        """True if a moving average of the weights is kept."""
        return self.average > 0

    def differences(self, other: TrainConfig) -> dict[str, tuple[Any, Any]]:
        """Returns the options in which another configuration differs: what each is here and there, as JSON has them."""
        here, there = self.to_json(), other.to_json()
        return {name: (here[name], there[name]) for name in here if here[name] != there[name]}

    def to_json(self) -> dict[str, Any]:
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainConfig:
        """Makes a configuration from a mapping of options; one that does not exist raises and names the nearest."""
        if not isinstance(values, Mapping):
            raise settings.SettingError("a configuration", "a mapping of settings", values)
        check_options(values)
        if "algorithms" not in values:
            raise ValueError("a configuration: expected algorithms, such as bfs, got none")
        return cls(**values)

    def replace(self, **options: Any) -> TrainConfig:
        """Returns the same configuration with other options."""
        check_options(options)
        return dataclasses.replace(self, **options)


def check_options(options: Iterable[str]) -> None:
    """Raises if a name is not that of a training option."""
    known = [field.name for field in dataclasses.fields(TrainConfig)]
    for name in options:
        if name not in known:
            raise UnknownNameError("training option", name, known)


def parse_settings(words: Iterable[str]) -> dict[str, Any]:
    """Reads training options from words such as `steps=500` and `sizes=4,7`, each by the type of its field.

    The same option twice is a contradiction, even with the same value.
    """
    parsed: dict[str, Any] = {}
    for each in words:
        name, equals, text = each.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ValueError(f"expected name=value, such as gradient_clip=0, got {each!r}")
        check_options([name])
        if name in parsed:
            raise ValueError(f"{name}: expected it once, got it twice")
        parsed[name] = settings.parse(TrainConfig, name, text)
    return parsed


def _check_processor_options(processor: str, options: Mapping[str, Any]) -> None:
    """Raises if a processor has no such option, or where its signature says the type, if a value is not of it."""
    parameters = inspect.signature(PROCESSORS[processor]).parameters
    known = set(parameters) - {"hidden_size", "key"}
    kinds = {"int": int, "float": float, "bool": bool, "str": str}
    for name, value in options.items():
        if name not in known:
            raise UnknownNameError(f"option of the processor {processor}", name, known)
        kind = parameters[name].annotation
        settings.read(kinds.get(kind, kind), f"processor_options.{name}", value)


@functools.cache
def _processor_size(processor: Callable[..., Any], options: str, hidden_size: int) -> int:
    """Returns the number of parameters of a processor. It is made in shapes only, and raises where none can be made."""
    factory = functools.partial(processor, **json.loads(options))
    skeleton = eqx.filter_eval_shape(
        lambda key: make_processor(factory, hidden_size, key=key), jax.eval_shape(jax.random.key, 0)
    )
    return sum(leaf.size for leaf in jax.tree.leaves(skeleton))
