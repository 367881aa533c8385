"""The record that `narkit bench train` stores."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any

SCHEMA = 2
NARKIT, PLAIN = "narkit", "plain JAX"  # the implementations
DEFAULT_PRESET = "paper"  # whose settings of a step are measured if nobody says otherwise


@dataclass
class OfNetwork:
    """Something that is known of one network on one algorithm."""

    implementation: str
    processor: str
    algorithm: str

    @property
    def network(self) -> tuple[str, str, str]:
        return self.implementation, self.processor, self.algorithm


@dataclass
class Measurement(OfNetwork):
    """One algorithm at one size. Times are in milliseconds."""

    size: int
    num_nodes: int
    steps: int
    processor_steps: float  # per training step, mean
    step_ms: float  # the whole run, divided by its training steps
    processor_step_ms: float  # the whole run, divided by its processor steps
    loop_ms: float | None  # what one more processor step costs
    outside_ms: float | None  # what a training step costs beside its processor steps
    waiting_share: float  # of the time, for data
    launches: dict[str, dict[str, int]] | None  # forward, backward, outside -> kind -> number; None: not counted
    compile_seconds: list[float]  # of each program
    program_bytes: int | None  # what the largest program needs
    peak_bytes: int | None  # of the device so far in this process; None: the device does not say
    paths: dict[str, str]
    commit: str
    date: str

    @property
    def place(self) -> tuple[str, str, str, int]:
        return *self.network, self.size

    def launched(self, where: str) -> int | None:
        return None if self.launches is None else sum(self.launches[where].values())


@dataclass
class FailedMeasurement(OfNetwork):
    """A network that could not be built, or a program that could not be compiled or run."""

    size: int | None  # None: the network, so nothing of it was measured; 0: validation and test
    error: str

    @property
    def where(self) -> str:
        return {None: "the network", 0: "validation and test"}.get(self.size, f"n = {self.size}")


@dataclass
class Compilation(OfNetwork):
    """The programs of one algorithm, compiled on several threads."""

    programs: int
    seconds: float  # elapsed, shared out among algorithms that were compiled together
    threads: int
    program_seconds: list[float]  # each program's own, in turn with others on the same threads


@dataclass
class EvaluationTime:
    """The seconds that one validation on all sets takes, and one pass over the official test split."""

    processor: str
    algorithm: str
    validation_seconds: float
    test_seconds: float


@dataclass
class BenchRecord:
    """A whole run with what is needed to judge it."""

    device: str
    backend: str
    cpu: str
    hidden_size: int
    batch_size: int
    num_seeds: int
    sizes: list[int]
    compilation_cache: bool
    versions: dict[str, str]
    commit: str
    date: str
    complete: bool = False
    cells: list[Measurement] = field(default_factory=list)
    compilations: list[Compilation] = field(default_factory=list)
    evaluations: list[EvaluationTime] = field(default_factory=list)
    failures: list[FailedMeasurement] = field(default_factory=list)
    preset: str = DEFAULT_PRESET
    settings: dict[str, Any] = field(default_factory=dict)  # that differ from the preset's
    schema: int = SCHEMA

    def has(self, implementation: str, processor: str, algorithm: str, sizes: Iterable[int]) -> bool:
        places = {cell.place for cell in self.cells}
        return all((implementation, processor, algorithm, size) in places for size in sizes)

    def forget(self, implementation: str, processor: str, algorithm: str) -> None:
        """Drops what is known of an algorithm, before it is measured anew."""
        network = (implementation, processor, algorithm)
        self.cells = [cell for cell in self.cells if cell.network != network]
        self.compilations = [compilation for compilation in self.compilations if compilation.network != network]
        self.failures = [failure for failure in self.failures if failure.network != network]
        if implementation == NARKIT:  # no other is evaluated
            self.evaluations = [e for e in self.evaluations if (e.processor, e.algorithm) != (processor, algorithm)]

    @contextlib.contextmanager
    def recording_failures(
        self, implementation: str, processor: str, algorithm: str, size: int | None
    ) -> Iterator[None]:
        """Records what fails in the block, so that it does not cost the other measurements."""
        try:
            yield
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            said = f"{type(error).__name__}: {lines[0]}"[:500]
            self.failures.append(FailedMeasurement(implementation, processor, algorithm, size, said))

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> BenchRecord:
        content: dict[str, Any] = json.loads(text)
        if content.get("schema") != SCHEMA:
            found = content.get("schema")
            raise ValueError(f"expected a record of `narkit bench train` with schema {SCHEMA}, got {found}")
        values = {each.name: content[each.name] for each in fields(cls) if each.name in content}
        values["cells"] = [Measurement(**entry) for entry in content["cells"]]
        values["compilations"] = [Compilation(**entry) for entry in content["compilations"]]
        values["evaluations"] = [EvaluationTime(**entry) for entry in content["evaluations"]]
        values["failures"] = [FailedMeasurement(**entry) for entry in content["failures"]]
        return cls(**values)
