"""Algorithms as data: their probes, their instances, their arguments, and the registry of all of them.

CLRS-30 describes the run of an algorithm by *probes*. A probe has a name, a stage (input, output, or hint: one
value per step), a location (node, edge, graph) and a kind (how its values are to be read). The spec of an
algorithm is the ordered dictionary of its probes.

A new algorithm is one function under the decorator `algorithm`; nothing else has to be touched.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from narkit.errors import UnknownNameError

if TYPE_CHECKING:
    from narkit.algorithms.arguments import Argument

Spec = Mapping[str, "Probe"]


class Stage(enum.StrEnum):
    INPUT = "input"
    OUTPUT = "output"
    HINT = "hint"


class Location(enum.StrEnum):
    NODE = "node"
    EDGE = "edge"
    GRAPH = "graph"


class Kind(enum.StrEnum):
    """The way in which the values of a probe are to be read. A closed set: code dispatches on it with `match`."""

    SCALAR = "scalar"
    MASK = "mask"  # 0 or 1; -1 where the value does not count
    MASK_ONE = "mask_one"  # one-hot over the nodes
    CATEGORICAL = "categorical"  # one-hot over `num_classes`; all -1 or 0 where the value does not count
    POINTER = "pointer"  # the index of a node
    SHOULD_BE_PERMUTATION = "should_be_permutation"  # predecessor pointers of a linear order; raw data only
    PERMUTATION_POINTER = "permutation_pointer"  # the same, closed to a cycle; a mask names the first node


@dataclass(frozen=True)
class Probe:
    """One named quantity of an algorithm's run.

    `constant` marks a hint that holds the same value at every step; the protocol turns it into an input.
    """

    stage: Stage
    location: Location
    kind: Kind
    meaning: str = field(default="", compare=False)
    num_classes: int = 0
    constant: bool = field(default=False, compare=False)

    def shape(self, num_nodes: int) -> tuple[int, ...]:
        """Returns the shape of one value (one sample, one step)."""
        classes = (self.num_classes,) if self.kind is Kind.CATEGORICAL else ()
        match self.location:
            case Location.NODE:
                return (num_nodes, *classes)
            case Location.EDGE:
                return (num_nodes, num_nodes, *classes)
            case Location.GRAPH:
                return classes

    @property
    def dtype(self) -> str:
        """The compact type that batches store this probe in."""
        match self.kind:
            case Kind.SCALAR:
                return "float32"
            case Kind.MASK | Kind.MASK_ONE | Kind.CATEGORICAL:
                return "int8"
            case Kind.POINTER | Kind.SHOULD_BE_PERMUTATION | Kind.PERMUTATION_POINTER:
                return "int16"


Quantity = functools.partial[Probe]
"""A probe that waits for its stage: what the decorator's `inputs`, `hints` and `outputs` are written in."""


def _quantity(location: Location, kind: Kind | str, meaning: str, classes: int) -> Quantity:
    return functools.partial(Probe, location=location, kind=Kind(kind), meaning=meaning, num_classes=classes)


def node(kind: Kind | str, meaning: str, classes: int = 0) -> Quantity:
    """Describes a value per node, for the decorator's `inputs`, `hints` and `outputs`."""
    return _quantity(Location.NODE, kind, meaning, classes)


def edge(kind: Kind | str, meaning: str, classes: int = 0) -> Quantity:
    """Describes a value per ordered pair of nodes."""
    return _quantity(Location.EDGE, kind, meaning, classes)


def graph(kind: Kind | str, meaning: str, classes: int = 0) -> Quantity:
    """Describes a value for the whole instance."""
    return _quantity(Location.GRAPH, kind, meaning, classes)


def constant(quantity: Quantity) -> Quantity:
    """Marks a quantity as a hint that never changes during a run: the function fills it once, without a step index."""
    return functools.partial(quantity, constant=True)


@dataclass(frozen=True)
class Densities:
    """Edge probabilities of random graphs: drawn per sample in training, fixed in the official splits."""

    training: tuple[float, ...] = tuple(0.1 + 0.1 * i for i in range(9))
    official: float = 0.5

    def halved(self, official: float) -> Densities:
        return Densities(tuple(p / 2 for p in self.training), official)


@dataclass(frozen=True, eq=False)
class Algorithm:
    """One algorithm of the benchmark, complete: what it computes, on what, and how it is trained and scored."""

    name: str
    category: str
    spec: Spec  # as the benchmark publishes it
    function: Callable[..., None]  # the textbook code
    sampler: Callable[..., tuple]  # (rng, size, distribution) -> the function's arguments
    arguments: Mapping[str, Argument]
    multiplier: int = 1  # the official val and test splits hold 32 x this many samples
    densities: Densities = Densities()
    min_size: int = 2  # of random instances
    min_nodes: int | None = None  # of given instances; None: as many as the smallest random ones have
    training_size_is_fixed: bool = False  # train on the largest size only
    nodes_of_size: Callable[[int], int] = field(default=lambda size: size)
    nodes_of_instance: Callable[..., int] | None = None

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    def training_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Returns the sizes among some nominal ones that training takes: all in turn, or the largest only."""
        return (max(sizes),) if self.training_size_is_fixed else tuple(sizes)

    @functools.cached_property
    def transformed_spec(self) -> Spec:
        """The spec that networks read: constant hints are inputs, should-be permutations are permutations."""
        spec: dict[str, Probe] = {}
        for name, probe in self.spec.items():
            if probe.constant:
                spec[input_name(name)] = replace(probe, stage=Stage.INPUT, constant=False)
            elif probe.kind is Kind.SHOULD_BE_PERMUTATION:
                spec[name] = replace(probe, kind=Kind.PERMUTATION_POINTER)
                spec[first_mask_name(name)] = Probe(
                    probe.stage, Location.NODE, Kind.MASK_ONE, "the first node of the order"
                )
            else:
                spec[name] = probe
        return spec


def input_name(constant_hint: str) -> str:
    """Returns the name under which a constant hint becomes an input: `pred_h` -> `pred`."""
    return constant_hint.removesuffix("_h")


def first_mask_name(permutation: str) -> str:
    """Returns the name of the mask that marks the first node of a permutation pointer: `pred` -> `pred_mask`."""
    return f"{permutation}_mask"


def stage_of(spec: Spec, stage: Stage) -> dict[str, Probe]:
    """Returns the probes of one stage, in the spec's order."""
    return {name: probe for name, probe in spec.items() if probe.stage is stage}


class Registry(dict[str, Algorithm]):
    """The algorithms by name. An unknown name raises and proposes the nearest."""

    def add(self, entry: Algorithm) -> None:
        known = self.get(entry.name)
        if known is not None and known.function.__module__ != entry.function.__module__:
            raise ValueError(
                f"an algorithm named {entry.name!r} exists already, in {known.function.__module__}; "
                f"give the function in {entry.function.__module__} another name"
            )
        self[entry.name] = entry

    def __getitem__(self, name: str) -> Algorithm:
        try:
            return super().__getitem__(name)
        except (KeyError, TypeError):
            raise UnknownNameError("algorithm", name, self) from None

    def __repr__(self) -> str:
        return f"<{len(self)} algorithms: {', '.join(self)}>"


ALGORITHMS = Registry()


def algorithm(
    *,
    category: str,
    inputs: Mapping[str, Quantity],
    hints: Mapping[str, Quantity],
    outputs: Mapping[str, Quantity],
    arguments: Mapping[str, Argument],
    sampler: Callable[..., tuple],
    multiplier: int = 1,
    densities: Densities = Densities(),
    min_size: int = 2,
    min_nodes: int | None = None,
    training_size_is_fixed: bool = False,
    nodes_of_size: Callable[[int], int] = lambda size: size,
    nodes_of_instance: Callable[..., int] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers the decorated function as an algorithm under its own name.

    The function takes its arguments and, last, `probes`: a named tuple of arrays to fill. Inputs and outputs are
    filled once (`probes.pi[:] = pi`; values of the graph live in `[0]`), hints once per step at the row that
    `next_step(probes)` returns. It is compiled by Numba, so it must stay within Numba's Python.

    **Arguments**

    - `category`: the group that tables average over.
    - `inputs`, `hints`, `outputs`: probe name -> `node(...)`, `edge(...)` or `graph(...)`.
    - `arguments`: argument name -> its type and checks (`narkit.algorithms.arguments`).
    - `sampler`: `(rng, size, distribution)` -> a tuple of the function's arguments.
    - `min_size`, `min_nodes`: the smallest size to sample, and the fewest nodes to run on, where the sampler needs more
      than the function does.
    - `nodes_of_size`, `nodes_of_instance`: the number of nodes for a nominal size, and for given arguments; by
      default the size itself, and the length of the first array argument.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        spec = {
            name: quantity(stage)
            for stage, quantities in ((Stage.INPUT, inputs), (Stage.OUTPUT, outputs), (Stage.HINT, hints))
            for name, quantity in quantities.items()
        }
        _check_declaration(function, spec, len(inputs) + len(hints) + len(outputs), arguments)
        ALGORITHMS.add(
            Algorithm(
                name=function.__name__,
                category=category,
                spec=spec,
                function=function,
                sampler=sampler,
                arguments=dict(arguments),
                multiplier=multiplier,
                densities=densities,
                min_size=min_size,
                min_nodes=min_nodes,
                training_size_is_fixed=training_size_is_fixed,
                nodes_of_size=nodes_of_size,
                nodes_of_instance=nodes_of_instance,
            )
        )
        return function

    return register


def _check_declaration(
    function: Callable[..., None], spec: Spec, declared: int, arguments: Mapping[str, Argument]
) -> None:
    where = f"algorithm {function.__name__!r}"
    if len(spec) != declared:
        raise ValueError(f"{where}: a probe name stands in two stages; every probe needs its own name")
    parameters = list(inspect.signature(function).parameters)
    expected = [*arguments, "probes"]
    if parameters != expected:
        raise TypeError(f"{where}: expected the parameters {expected}, got {parameters}")
    if "pos" not in spec:
        raise ValueError(f"{where}: every algorithm needs the input 'pos', a scalar per node that tells nodes apart")
    for name, probe in spec.items():
        if (probe.kind is Kind.CATEGORICAL) != (probe.num_classes > 0):
            raise ValueError(f"{where}: probe {name!r} needs `classes` exactly if it is categorical")
        if probe.constant and probe.stage is not Stage.HINT:
            raise ValueError(f"{where}: probe {name!r} is constant but no hint; only hints can be constant")
