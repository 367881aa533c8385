"""The measurements of `narkit bench train`, as predictions of sweeps need them."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from narkit.bench.train_record import NARKIT, BenchRecord, Measurement
from narkit.training.config import TrainConfig

BENCHMARK_FILE = Path("benchmarks", "train.json")
SHIPPED = (Path(__file__).parents[3] / BENCHMARK_FILE, Path(__file__).with_name("measured.json"))
HIDDEN_SIZE, BATCH_SIZE, NUM_SEEDS = 128, 32, 5  # what costs are given for


@dataclass(frozen=True)
class Cost:
    """Milliseconds of training: per processor step anyhow and per triplet of nodes, and per training step besides.

    Measured without waiting for data, with a width of 128 and 160 samples, which is five seeds with a batch of 32.
    """

    launch: float
    triplet: float
    outside: float = 0.0

    def milliseconds(self, processor_steps: float, num_nodes: int, samples: float, hidden_size: int) -> float:
        """Returns the milliseconds that a training step takes."""
        share = (samples / (NUM_SEEDS * BATCH_SIZE)) * (hidden_size / HIDDEN_SIZE)
        return self.outside + processor_steps * (self.launch + self.triplet * num_nodes**3 * share)


@dataclass(frozen=True)
class MeasuredCosts:
    """The measured costs by system; and, if they were measured one by one, by system and algorithm.

    The latter are seconds of a training step at a size, and under the names of phases seconds of a validation, of one
    pass over the test split, and bytes of the largest program.
    """

    costs: Mapping[str, Cost] = field(default_factory=dict)
    training_steps: Mapping[tuple[str, str, int], float] = field(default_factory=dict)
    phases: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    seconds_per_program: float | None = None

    def by_phase(self, config: TrainConfig, sizes: Sequence[int]) -> dict[str, float]:
        """Returns the measurements of this very configuration by phase; empty if there are none.

        They are seconds of a training step, a validation, a pass over the test split, and bytes of memory. Training was
        measured if every size was.
        """
        if (config.hidden_size, config.batch_size, len(config.seeds)) != (HIDDEN_SIZE, BATCH_SIZE, NUM_SEEDS):
            return {}
        place = (config.processor, config.algorithms[0])
        steps = [self.training_steps.get((*place, size)) for size in sizes]
        known = [step for step in steps if step is not None]
        training = statistics.mean(known) if len(known) == len(sizes) else 0.0
        found = {"training": training, **self.phases.get(place, {})}
        return {phase: value for phase, value in found.items() if value}


def measured_costs(device: str | None) -> MeasuredCosts:
    """Reads `benchmarks/train.json`, here, in the source tree or in the package, if it was measured on such a device.

    For None the device does not matter.
    """
    for record in bench_records(BENCHMARK_FILE, *SHIPPED):
        shape = (record.hidden_size, record.batch_size, record.num_seeds)
        measured_on = record.cpu if record.backend == "cpu" else record.device  # a GPU's host was not measured
        if device in (None, measured_on) and shape == (HIDDEN_SIZE, BATCH_SIZE, NUM_SEEDS):
            return _read(record)
    return MeasuredCosts()


def bench_records(*paths: Path) -> Iterator[BenchRecord]:
    """Reads the records of `narkit bench train` among some files; others are passed over."""
    for path in paths:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            yield BenchRecord.from_json(path.read_text())


def _read(record: BenchRecord) -> MeasuredCosts:
    cells = [cell for cell in record.cells if cell.implementation == NARKIT]
    phases: dict[tuple[str, str], dict[str, float]] = {}
    for cell in cells:
        found = phases.setdefault((cell.processor, cell.algorithm), {})
        found["memory"] = max(found.get("memory", 0), cell.program_bytes or 0)
    for each in record.evaluations:
        found = phases.setdefault((each.processor, each.algorithm), {})
        found |= {"validating": each.validation_seconds, "testing": each.test_seconds}
    per_program = [c.seconds / c.programs for c in record.compilations if c.implementation == NARKIT and c.programs]
    return MeasuredCosts(
        costs=_fitted(cells),
        training_steps={(cell.processor, cell.algorithm, cell.size): 1e-3 * _device_ms(cell) for cell in cells},
        phases=phases,
        seconds_per_program=statistics.median(per_program) if per_program else None,
    )


def _device_ms(cell: Measurement) -> float:
    """Returns the time of a training step without waiting for data: short measurements wait more than whole runs do."""
    return cell.step_ms * (1 - cell.waiting_share)


def _fitted(cells: Sequence[Measurement]) -> dict[str, Cost]:
    """Fits, for each system, a line through the times of a processor step over the number of triplets.

    What lies outside of the loop over time is a mean of its own: shared out over the steps, it would make those of
    short trajectories look expensive.
    """
    costs = {}
    for system in dict.fromkeys(cell.processor for cell in cells):
        own = [cell for cell in cells if cell.processor == system]
        steps = [_device_ms(c) / c.processor_steps if c.loop_ms is None else c.loop_ms for c in own]
        outside = [c.outside_ms for c in own if c.loop_ms is not None and c.outside_ms is not None]
        launch, triplet = _line(np.array([c.num_nodes for c in own], float) ** 3, np.array(steps, float))
        costs[system] = Cost(launch, triplet, max(statistics.mean(outside), 0.0) if outside else 0.0)
    return costs


def _line(triplets: np.ndarray, milliseconds: np.ndarray) -> tuple[float, float]:
    """Fits the intercept and the slope of the best line, neither below zero."""
    if len(set(triplets)) < 2:
        return float(milliseconds.mean()), 0.0
    intercept, slope = nnls(np.stack([np.ones_like(triplets), triplets], axis=1), milliseconds)[0].tolist()
    return intercept, slope
