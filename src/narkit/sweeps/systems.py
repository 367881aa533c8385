"""Systems: configurations of training, and their names in tables.

A system is data. The paper's are registered here; a configured variant, or a processor from a package of one's own, is
one more value, and everything that takes systems (sweeps, records, tables, figures, the page) takes it like the
paper's:

    narkit.PROCESSORS["mine"] = Mine
    narkit.SYSTEMS.add(narkit.System("mine_wide", "Mine, wide", "mine", {"heads": 4}, preset="paper", rule="ood"))

In a module `my_systems`, it is used as `narkit --import my_systems sweep --systems mine_wide,team`. The order of
registration is the order of columns; titles, colours and rules are said here and nowhere else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from narkit.errors import UnknownNameError

if TYPE_CHECKING:
    from narkit.training.config import TrainConfig
    from narkit.training.record import RunRecord


@dataclass(frozen=True)
class System:
    """A configuration of training and its name in tables.

    - `name`: a plain word; its records lie in a folder of this name.
    - `title`: its name in print.
    - `processor` and `options`: a name in `narkit.PROCESSORS`, and options of that processor.
    - `preset`: the settings of its training.
    - `rule`: the one selection rule that its columns go by, fixed beforehand.
    - `seeds`: how many its tables stand on; by default as many as the preset says.
    - `published`: its column in the published tables (`narkit.report.paper`), if it has one.
    - `trained_as`: where two systems are one training under two rules, the one that the records are of.
    - `colour`: in figures; by default the next one that is free.
    - `settings`: other options of `narkit.TrainConfig` that belong to the system, such as its interfaces.
    """

    name: str
    title: str
    processor: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    preset: str = "paper"
    rule: str = "ood"
    seeds: int | None = None
    published: str | None = None
    trained_as: str | None = None
    colour: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for what, word in (("name", self.name), ("trained_as", self.training)):
            if not isinstance(word, str) or not word.isidentifier():
                raise ValueError(f"{what} of a system: expected a plain word, since it names a folder, got {word!r}")
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"system {self.name}: expected at least one seed, got {self.seeds}")

    @property
    def training(self) -> str:
        """The name under which its records lie: its own, or that of the system that shares its training."""
        return self.trained_as or self.name

    @property
    def num_seeds(self) -> int:
        """The number of seeds that its tables stand on."""
        from narkit.training.presets import number_of_seeds

        return number_of_seeds(self.preset) if self.seeds is None else self.seeds

    def config(self, algorithm: str, **options: Any) -> TrainConfig:
        """Returns the configuration that trains it on an algorithm; options may differ from the preset's."""
        from narkit.training.presets import preset, seeds_of

        own: dict[str, Any] = {
            "algorithms": (algorithm,),
            "processor": self.processor,
            "processor_options": dict(self.options),
            "seeds": seeds_of(self.preset, self.num_seeds),
        }
        return preset(self.preset, **{**self.settings, **options, **own})

    def under(self, preset: str | None) -> System:
        """Returns the same system trained by another preset, with that preset's number of seeds.

        Where the other preset averages no weights, a rule for averaged ones becomes the same rule for raw ones.
        """
        from narkit.training.presets import PRESETS
        from narkit.training.rules import AVERAGE_SUFFIX

        if preset is None or preset == self.preset:
            return self
        averages = PRESETS.get(preset, {}).get("average", 0) > 0
        rule = self.rule if averages else self.rule.removesuffix(AVERAGE_SUFFIX)
        return dataclasses.replace(self, preset=preset, rule=rule, seeds=None)

    def why_not(self, record: RunRecord, free: Collection[str] = ()) -> str | None:
        """Says why a record may not stand for this system in tables; None if it may.

        It must be of one algorithm and have the system's configuration to the last option, but for those in `free`.
        """
        from narkit.training.record import why_not_made_by

        config = record.config
        if len(config.algorithms) != 1:
            return f"expected one algorithm, got {', '.join(config.algorithms)}"
        return why_not_made_by(record, self.config(config.algorithms[0]), f"the preset {self.preset}", free)


class Systems(dict[str, System]):
    """Systems by name, in the order of columns. An unknown name raises and proposes the nearest."""

    def __init__(self, systems: Iterable[System] = ()):
        super().__init__()
        for system in systems:
            self.add(system)

    def add(self, system: System) -> System:
        """Registers a system; one that is registered already may be given again only if it is the same."""
        known = self.get(system.name)
        if known is not None and known != system:
            raise ValueError(f"expected another name than {system.name!r}, which is that of {known}")
        self[system.name] = system
        return system

    def __missing__(self, name: str) -> System:
        raise UnknownNameError("system", name, self)


_PLUS: dict[str, Any] = {"preset": "plus", "rule": "ood_average", "seeds": 5}
_INTERFACES = {"edge_pointers": "lossless", "growing_hints": True}  # of TEAM+

# The paper replaces the validation set of size 16 by one of size 32 for TEAM and for the second column of its
# baseline. One training of the baseline gives both of its columns. Colours are Okabe and Ito's.
SYSTEMS = Systems(
    [
        System("memnet", "Memnet", "memnet", preset="clrs2022", rule="id", published="memnet"),
        System("mpnn", "MPNN", "mpnn", preset="clrs2022", rule="id", published="mpnn"),
        System("pgn", "PGN", "pgn", preset="clrs2022", rule="id", published="pgn"),
        System(
            "triplet_gmpnn", "Triplet-GMPNN", "triplet_gmpnn", rule="id", published="triplet_gmpnn", colour="#009E73"
        ),
        System(
            "triplet_gmpnn_ood_val",
            "Triplet-GMPNN + OOD val",
            "triplet_gmpnn",
            published="triplet_gmpnn_ood_val",
            trained_as="triplet_gmpnn",
            colour="#D55E00",
        ),
        System("team", "TEAM", "team", published="team", colour="#0072B2"),
        # Beyond the paper; tables show these once they have records. Another reading of the paper's text with the same
        # number of parameters; the baseline by the recipe of TEAM+, with its usual interfaces; TEAM+; and TEAM+ with
        # hand-made features, apart from it.
        System(
            "team_second_reading",
            "TEAM, second reading",
            "team",
            options={"reads": "both", "residual": True, "norm": True, "gated": False, "third_edges": "from"},
            colour="#56B4E9",
        ),
        System("triplet_gmpnn_plus", "Triplet-GMPNN, recipe of TEAM+", "triplet_gmpnn", **_PLUS, colour="#E69F00"),
        System("team_plus", "TEAM+", "team_plus", settings=_INTERFACES, **_PLUS, colour="#CC79A7"),
        System(
            "team_plus_comparisons",
            "TEAM+ with comparisons",
            "team_plus",
            settings={**_INTERFACES, "comparisons": True},
            **_PLUS,
            colour="#999999",
        ),
    ]
)


def find_system(name: str, preset: str | None = None) -> System:
    """Finds a registered system, or takes a processor's name as a system of its own; `preset` replaces the system's."""
    from narkit.models.processors import PROCESSORS

    if name in SYSTEMS:
        return SYSTEMS[name].under(preset)
    if name not in PROCESSORS:
        raise UnknownNameError("system", name, [*SYSTEMS, *PROCESSORS])
    return System(name, name, name, preset=preset or "paper")


def sharing(training: str, systems: Iterable[System] | None = None) -> list[System]:
    """Returns the systems whose records are those of one training, in the order of columns."""
    return [system for system in (SYSTEMS.values() if systems is None else systems) if system.training == training]


def trainings(systems: Iterable[System]) -> Iterator[System]:
    """Returns one system for every training, in the order of columns."""
    first: dict[str, System] = {}
    for system in systems:
        first.setdefault(system.training, system)
    return iter(first.values())


def main_rule(config: TrainConfig, system: System | None = None) -> str:
    """Returns the rule that stands for a run where only one can: that of the last system of its training.

    Without a system it is that of the averaged weights on the last validation set that selects, where weights are
    averaged; else that of the system with the processor's name; else the first.
    """
    from narkit.training.rules import AVERAGE_SUFFIX, LAST, rules

    known = rules(config)
    columns = sharing(system.training if system else config.processor) or ([system] if system else [])
    columns = [system if system and column.name == system.name else column for column in columns]
    names = [validation.name for validation in config.validations if validation.selects] or [LAST]
    fixed = [column.rule for column in columns if column.rule in known]
    average = f"{names[-1]}{AVERAGE_SUFFIX}"
    wanted = [*(reversed(fixed) if system else ()), average, *reversed(fixed), *names, *known]
    return next(name for name in wanted if name in known)
