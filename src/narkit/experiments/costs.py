"""What `narkit bench train` measured, as predictions of sweeps need it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from narkit.benchmarking.train_record import Cell, Record
from narkit.training.config import TrainConfig

BENCHMARK_FILE = Path("benchmarks", "train.json")
HIDDEN_SIZE, BATCH_SIZE, NUM_SEEDS = 128, 32, 5  # what costs are given for


@dataclass(frozen=True)
class Cost:
    """Milliseconds per processor step of training: what it costs anyhow, and per triplet of nodes.

    As measured with a width of 128 and 160 samples, which is five seeds with a batch of 32.
    """

    launch: float
    triplet: float

    def milliseconds(self, num_nodes: int, samples: float, hidden_size: int) -> float:
        share = (samples / (NUM_SEEDS * BATCH_SIZE)) * (hidden_size / HIDDEN_SIZE)
        return self.launch + self.triplet * num_nodes**3 * share


@dataclass(frozen=True)
class Measured:
    """Costs by system; and, where they were measured one by one, seconds by system and algorithm: of a training step
    at a size, of a validation, of one pass over the test split."""

    costs: Mapping[str, Cost] = field(default_factory=dict)
    training_steps: Mapping[tuple[str, str, int], float] = field(default_factory=dict)
    validations: Mapping[tuple[str, str], float] = field(default_factory=dict)
    tests: Mapping[tuple[str, str], float] = field(default_factory=dict)
    memory: Mapping[tuple[str, str], int] = field(default_factory=dict)  # bytes of the largest program
    seconds_per_program: float | None = None

    def fits(self, config: TrainConfig) -> bool:
        """Whether single measurements hold for a configuration."""
        shape = (config.hidden_size, config.batch_size, len(config.seeds))
        return shape == (HIDDEN_SIZE, BATCH_SIZE, NUM_SEEDS)


def measured_costs(device: str) -> Measured:
    """From `benchmarks/train.json`, here or in the source tree, if it was measured on such a device."""
    for folder in (Path(), Path(__file__).parents[3]):
        try:
            record = Record.from_json((folder / BENCHMARK_FILE).read_text())
        except (OSError, ValueError, KeyError, TypeError):
            continue
        shape = (record.hidden_size, record.batch_size, record.num_seeds)
        if device in (record.device, record.cpu) and shape == (HIDDEN_SIZE, BATCH_SIZE, NUM_SEEDS):
            return _read(record)
    return Measured()


def _read(record: Record) -> Measured:
    cells = [cell for cell in record.cells if cell.implementation == "narkit"]
    memory: dict[tuple[str, str], int] = {}
    for cell in cells:
        place = (cell.processor, cell.algorithm)
        memory[place] = max(memory.get(place, 0), cell.program_bytes or 0)
    per_program = [c.seconds / c.programs for c in record.compilations if c.implementation == "narkit" and c.programs]
    return Measured(
        costs=_fitted(cells),
        training_steps={(cell.processor, cell.algorithm, cell.size): 1e-3 * cell.step_ms for cell in cells},
        validations={(e.processor, e.algorithm): e.validation_seconds for e in record.evaluations},
        tests={(e.processor, e.algorithm): e.test_seconds for e in record.evaluations},
        memory={place: count for place, count in memory.items() if count},
        seconds_per_program=statistics.median(per_program) if per_program else None,
    )


def _fitted(cells: Iterable[Cell]) -> dict[str, Cost]:
    """A line through the measured times of each system, over the number of triplets."""
    points: dict[str, list[tuple[int, float]]] = {}
    for cell in cells:
        points.setdefault(cell.processor, []).append((cell.num_nodes, cell.processor_step_ms))
    costs = {}
    for system, values in points.items():
        nodes, milliseconds = np.array(values, float).T
        if len(set(nodes)) < 2:
            costs[system] = Cost(float(milliseconds.mean()), 0.0)
            continue
        triplet, launch = np.polyfit(nodes**3, milliseconds, 1)
        costs[system] = Cost(max(float(launch), 0.0), max(float(triplet), 0.0))
    return costs
