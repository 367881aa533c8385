"""What a cell of a sweep will cost, predicted from processor steps, and the better the more cells have been run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from narkit import machine
from narkit.algorithms import ALGORITHMS
from narkit.data.splits import SPLITS
from narkit.experiments.cells import Cell, SweepDirectory
from narkit.experiments.costs import BENCHMARK_FILE, Cost, Measured, measured_costs
from narkit.experiments.lengths import processor_steps, training_sizes
from narkit.experiments.records import RunRecord
from narkit.training import selection
from narkit.training.config import BENCHMARK, TrainConfig, Validation
from narkit.training.run_directory import RunDirectoryError
from narkit.training.trainer import TEST_PART, VALIDATION_PART

PHASES = ("training", "validating", "testing")
FORWARD = 0.3  # the share of a training step that a prediction costs


# Without measurements: an H200 as benchmarks/LOG.md has it before kernels were fused, and two cores of a CPU.
DEFAULTS: Mapping[str, Mapping[str, Cost]] = {
    "gpu": {"team": Cost(0.86, 2.6e-4), "triplet_gmpnn": Cost(0.86, 6.3e-5)},
    "cpu": {"team": Cost(20.0, 0.35), "triplet_gmpnn": Cost(20.0, 0.13)},
}
SECONDS_PER_PROGRAM = {"gpu": 7.0, "cpu": 5.0}  # several are compiled at a time


@dataclass(frozen=True)
class Prediction:
    """What a cell needs, in seconds and bytes."""

    compiling: float
    training: float
    validating: float
    testing: float
    programs: int
    memory: int

    @property
    def seconds(self) -> float:
        return self.compiling + self.training + self.validating + self.testing


@dataclass
class Predictor:
    """Predicts cells on this machine. `source` says where the cost of a processor step comes from."""

    costs: Mapping[str, Cost]
    source: str
    seconds_per_program: float
    device: str
    measured: Measured = field(default_factory=Measured)
    learned: list[tuple[str, dict[str, float]]] = field(default_factory=list)  # system, measured over predicted

    @classmethod
    def from_records(cls, directory: SweepDirectory, cells: Sequence[Cell]) -> Predictor:
        """From `benchmarks/train.json` or defaults, corrected by the cells that are finished in a folder."""
        backend = "cpu" if jax.default_backend() == "cpu" else "gpu"
        device = this_device()
        measured = measured_costs(device)
        costs = {**DEFAULTS[backend], **measured.costs}
        defaults = f"defaults for a {backend.upper()}, not measured on this machine"
        per_program = measured.seconds_per_program or SECONDS_PER_PROGRAM[backend]
        predictor = cls(costs, f"{BENCHMARK_FILE}" if measured.costs else defaults, per_program, device, measured)
        for cell in cells:
            path = directory.record(cell)
            if path.exists():
                try:
                    predictor.learn(RunRecord.load(path))
                except RunDirectoryError:  # `narkit records check` names it
                    continue
        return predictor

    def learn(self, record: RunRecord) -> None:
        """Takes into account how long a finished cell took, if it ran on a machine like this."""
        if record.device != self.device or record.steps < record.config.steps:
            return
        timings, plain = record.timings, self._plain(record.config)
        ratios = {phase: getattr(timings, phase) / getattr(plain, phase) for phase in PHASES if getattr(plain, phase)}
        compiling = timings.compiling + timings.compiling_ahead
        if timings.compiled_programs:
            ratios["compiling"] = compiling / timings.compiled_programs / self.seconds_per_program
        if record.peak_memory is not None and record.measured.get("peak_memory"):
            ratios["memory"] = record.peak_memory / plain.memory
        self.learned.append((record.config.processor, ratios))

    def predict(self, cell: Cell, step: int = 0) -> Prediction:
        """What is left of a cell that goes on from a step."""
        plain = self._plain(cell.config)
        share = 1 - step / cell.config.steps
        factor = {phase: self._factor(cell.system, phase) for phase in (*PHASES, "compiling", "memory")}
        return Prediction(
            compiling=plain.compiling * factor["compiling"] if step < cell.config.steps else 0.0,
            training=plain.training * factor["training"] * share,
            validating=plain.validating * factor["validating"] * share,
            testing=plain.testing * factor["testing"],
            programs=plain.programs,
            memory=round(plain.memory * factor["memory"]),
        )

    def _factor(self, system: str, phase: str) -> float:
        """How much longer things take than said: the middle of the last cells of the system, else of all."""
        own = [ratios[phase] for name, ratios in self.learned if name == system and phase in ratios]
        every = [ratios[phase] for _, ratios in self.learned if phase in ratios]
        found = own or every
        return statistics.median(found[-7:]) if found else 1.0

    def _plain(self, config: TrainConfig) -> Prediction:
        """Without what was learned."""
        name, sizes = config.algorithms[0], training_sizes(config)
        place = (config.processor, name)
        known = self.measured if self.measured.fits(config) else Measured()

        def step(size: int) -> float:
            return known.training_steps.get((*place, size)) or self._seconds(config, size, config.batch_size)

        validation = known.validations.get(place) or sum(self._validation(config, each) for each in config.validations)
        parts = SPLITS["test"].num_samples * ALGORITHMS[name].multiplier / TEST_PART
        test = known.tests.get(place) or parts * self._seconds(config, SPLITS["test"].size, TEST_PART, FORWARD)
        programs = len(sizes) + len(config.validations) + config.test
        return Prediction(
            compiling=programs * self.seconds_per_program,
            training=config.steps * float(np.mean([step(size) for size in sizes])),
            validating=-(-config.steps // config.validate_every) * validation,
            testing=config.test * len(selection.rules(config)) * test,  # rules that agree are scored once
            programs=programs,
            memory=known.memory.get(place) or predicted_memory(config),
        )

    def _validation(self, config: TrainConfig, validation: Validation) -> float:
        multiplier = ALGORITHMS[config.algorithms[0]].multiplier if validation.distribution == BENCHMARK else 1
        count = validation.num_samples * multiplier
        part = min(count, VALIDATION_PART)
        return -(-count // part) * self._seconds(config, validation.size, part, FORWARD)

    def _seconds(self, config: TrainConfig, size: int, samples: int, share: float = 1.0) -> float:
        """Of one batch with so many samples per seed."""
        name = config.algorithms[0]
        cost = self.costs.get(config.processor) or self.costs["team"]  # no other processor costs more
        nodes = ALGORITHMS[name].nodes_of_size(size)
        per_step = share * cost.milliseconds(nodes, len(config.seeds) * samples, config.hidden_size)
        return 1e-3 * per_step * processor_steps(name, size)


def predicted_memory(config: TrainConfig) -> int:
    """Bytes that training needs on the device: roughly, as the arrays that are known to be large.

    Per processor step the gradient needs about 16 arrays as large as the node features and 4 numbers per edge; on top
    come a few arrays of edge features, and the parameters with their optimiser and one copy for every rule.
    """
    name, seeds, hidden = config.algorithms[0], len(config.seeds), config.hidden_size
    largest = 0.0
    for size in training_sizes(config):
        nodes = ALGORITHMS[name].nodes_of_size(size)
        kept = processor_steps(name, size) * (16 * nodes * hidden + 4 * nodes**2)
        at_once = 8 * nodes**2 * hidden
        largest = max(largest, 4 * seeds * config.batch_size * (kept + at_once))
    for size, samples in [(v.size, min(v.num_samples, VALIDATION_PART)) for v in config.validations]:
        nodes = ALGORITHMS[name].nodes_of_size(size)
        largest = max(largest, 4 * seeds * samples * 4 * nodes**2 * hidden)
    if config.test:
        nodes = ALGORITHMS[name].nodes_of_size(SPLITS["test"].size)
        largest = max(largest, 4 * seeds * TEST_PART * 4 * nodes**2 * hidden)
    parameters = 23 * hidden**2 + 40 * hidden
    return round(largest + 4 * seeds * parameters * (4 + len(selection.rules(config))))


def this_device() -> str:
    """The device as records name it."""
    device = jax.devices()[0]
    return machine.cpu_model() if device.platform == "cpu" else device.device_kind
