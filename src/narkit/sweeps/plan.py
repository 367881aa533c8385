"""Predicted costs of a sweep's cells, from processor steps; the more cells have been run, the better they get.

The numbers are measured ones: of this device, where the measurements that ship with narkit are of it, else of the cells
that have been finished on it. Before the first of them nothing is predicted; how costs grow with nodes and steps is
taken from the measurements of another device, how large they are is not.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import jax

from narkit import machine
from narkit.algorithms import ALGORITHMS
from narkit.data.lengths import processor_steps
from narkit.data.splits import SPLITS
from narkit.sweeps.cells import Cell, SweepDirectory
from narkit.sweeps.costs import BENCHMARK_FILE, Cost, MeasuredCosts, measured_costs
from narkit.sweeps.lengths import training_sizes
from narkit.sweeps.memory import predicted_memory
from narkit.training.config import BENCHMARK, TrainConfig, Validation
from narkit.training.evaluation import TEST_PART, validation_part
from narkit.training.record import RunRecord
from narkit.training.rules import rules
from narkit.training.run_directory import RunDirectoryError

PHASES = ("training", "validating", "testing")
STAND_IN = "team"  # whose costs stand in for those of processors that were not measured
FORWARD = 1 / 3  # the share of a training step that a prediction costs: a backward pass is about two forward passes


@dataclass(frozen=True)
class Prediction:
    """The predicted needs of a cell, in seconds and bytes."""

    compiling: float
    training: float
    validating: float
    testing: float
    programs: int
    memory: int
    measured: frozenset[str] = frozenset()  # which of the phases and memory were measured, not guessed
    is_known: bool = True  # whether seconds mean something: this device was measured, or a cell was finished on it

    @property
    def seconds(self) -> float:
        return self.compiling + self.training + self.validating + self.testing


@dataclass
class Predictor:
    """Predicts cells on a device; `backend` is "gpu" or "cpu"."""

    costs: Mapping[str, Cost]
    backend: str
    seconds_per_program: float
    device: str
    measured: MeasuredCosts = field(default_factory=MeasuredCosts)  # of this device
    learned: list[tuple[str, dict[str, float]]] = field(default_factory=list)  # system, measured over guessed

    @classmethod
    def of_device(cls, device: str, backend: str) -> Predictor:
        """Takes the measurements that ship with narkit; of those of another device, only how costs grow."""
        measured = measured_costs(device)
        growth = measured if measured.costs else measured_costs(None)
        costs = growth.costs or {STAND_IN: Cost(1.0, 0.0)}
        return cls(costs, backend, growth.seconds_per_program or 1.0, device, measured)

    @classmethod
    def from_records(cls, directory: SweepDirectory, cells: Sequence[Cell]) -> Predictor:
        """Predicts for this machine, corrected by the finished cells of a folder that this very code ran.

        Others say how long older kernels took.
        """
        predictor = cls.of_device(machine.device_name(), "cpu" if jax.default_backend() == "cpu" else "gpu")
        commit = machine.commit()
        for path in filter(Path.exists, map(directory.record, cells)):
            try:
                record = RunRecord.load(path)
            except RunDirectoryError:  # `narkit records check` names it
                continue
            if record.commit == commit:
                predictor.learn(record)
        return predictor

    def source(self, system: str) -> str:
        """Says where a processor's cost of a step comes from."""
        if not self.measured.costs:
            return "finished cells" if self.is_known else "not measured on this device"
        return str(BENCHMARK_FILE) if system in self.measured.costs else f"those of {STAND_IN}: {BENCHMARK_FILE}"

    @property
    def is_known(self) -> bool:
        """True if seconds can be predicted on this device."""
        return bool(self.measured.costs) or any("training" in ratios for _, ratios in self.learned)

    def learn(self, record: RunRecord) -> None:
        """Takes into account how long a finished cell took, if it ran on a machine like this.

        Only what was guessed is corrected: what was measured needs no correction.
        """
        if record.device != self.device or record.steps < record.config.steps:
            return
        timings, plain = record.timings, self._plain(record.config)
        guessed = [phase for phase in PHASES if phase not in plain.measured and getattr(plain, phase)]
        ratios = {phase: getattr(timings, phase) / getattr(plain, phase) for phase in guessed}
        compiling = timings.compiling + timings.compiling_ahead
        if timings.compiled_programs:
            ratios["compiling"] = compiling / timings.compiled_programs / self.seconds_per_program
        if record.peak_memory is not None and record.measured.get("peak_memory") and "memory" not in plain.measured:
            ratios["memory"] = record.peak_memory / plain.memory
        if ratios:
            self.learned.append((record.config.processor, ratios))

    def predict(self, cell: Cell, step: int = 0) -> Prediction:
        """Predicts the rest of a cell that goes on from a step."""
        plain = self._plain(cell.config)
        share = 1 - step / cell.config.steps
        factor = {
            phase: 1.0 if phase in plain.measured else self._factor(cell.config.processor, phase)
            for phase in (*PHASES, "compiling", "memory")
        }
        return replace(
            plain,
            compiling=plain.compiling * factor["compiling"] if step < cell.config.steps else 0.0,
            training=plain.training * factor["training"] * share,
            validating=plain.validating * factor["validating"] * share,
            testing=plain.testing * factor["testing"],
            memory=round(plain.memory * factor["memory"]),
            is_known=self.is_known,
        )

    def _factor(self, system: str, phase: str) -> float:
        """Returns how much longer things take than predicted: the median of the system's last cells, else of all."""
        known = [(name, ratios[phase]) for name, ratios in self.learned if phase in ratios]
        found = [ratio for name, ratio in known if name == system] or [ratio for _, ratio in known]
        return statistics.median(found[-7:]) if found else 1.0

    def _plain(self, config: TrainConfig) -> Prediction:
        """Predicts without the corrections that were learned."""
        name, sizes = config.algorithms[0], training_sizes(config)
        known = self.measured.by_phase(config, sizes)
        step = known.get("training") or statistics.mean(self._seconds(config, s, config.batch_size) for s in sizes)
        validation = known.get("validating") or sum(self._validation(config, each) for each in config.validations)
        parts = SPLITS["test"].num_samples * ALGORITHMS[name].multiplier / TEST_PART
        test = known.get("testing") or parts * self._seconds(config, SPLITS["test"].size, TEST_PART, FORWARD)
        programs = len(sizes) + len(config.validations) + len(config.scored) + config.test
        at_end = config.test * test + sum(self._validation(config, each) for each in config.scored)
        return Prediction(
            compiling=programs * self.seconds_per_program,
            training=config.steps * step,
            validating=-(-config.steps // config.validate_every) * validation,
            testing=len(rules(config)) * at_end,  # rules that agree are scored once
            programs=programs,
            memory=round(known.get("memory") or predicted_memory(config, self.backend)),
            measured=frozenset(known),
        )

    def _validation(self, config: TrainConfig, validation: Validation) -> float:
        multiplier = ALGORITHMS[config.algorithms[0]].multiplier if validation.distribution == BENCHMARK else 1
        count = validation.num_samples * multiplier
        part = min(count, validation_part(validation.size))
        return -(-count // part) * self._seconds(config, validation.size, part, FORWARD)

    def _seconds(self, config: TrainConfig, size: int, samples: int, share: float = 1.0) -> float:
        """Predicts the seconds that one batch with so many samples per seed takes."""
        name = config.algorithms[0]
        cost = self.costs.get(config.processor) or self.costs[STAND_IN]
        nodes = ALGORITHMS[name].nodes_of_size(size)
        steps = processor_steps(name, size)
        return 1e-3 * share * cost.milliseconds(steps, nodes, len(config.seeds) * samples, config.hidden_size)
