"""Predictions of the device memory that a cell needs, if it was not measured."""

from __future__ import annotations

import functools

import numpy as np
from scipy.optimize import nnls

from narkit.algorithms import ALGORITHMS
from narkit.bench.train_record import NARKIT
from narkit.data.lengths import processor_steps
from narkit.data.splits import SPLITS
from narkit.spec import Kind, Location, Stage
from narkit.sweeps.costs import SHIPPED, bench_records
from narkit.sweeps.lengths import training_sizes
from narkit.training.config import TrainConfig
from narkit.training.evaluation import TEST_PART, validation_part
from narkit.training.rules import rules

ROWS_FOR_THE_LONGEST = 1.25  # rows of hints that a run has room for, in those of an average batch: 1.0 to 1.6


def predicted_memory(config: TrainConfig, backend: str) -> int:
    """Predicts roughly the bytes that a run needs on the device.

    These are its largest program, and the parameters with their optimiser and one copy for every rule.
    """
    name, seeds, hidden = config.algorithms[0], len(config.seeds), config.hidden_size
    per_sample = _by_kernels if backend == "gpu" else _by_arrays
    largest = max(config.batch_size * per_sample(config, size) for size in training_sizes(config))
    evaluated = [(v.size, min(v.num_samples, validation_part(v.size))) for v in config.validations]
    evaluated += [(each.size, TEST_PART) for each in config.scored]
    evaluated += [(SPLITS["test"].size, TEST_PART)] if config.test else []
    for size, samples in evaluated:
        largest = max(largest, samples * 16 * ALGORITHMS[name].nodes_of_size(size) ** 2 * hidden)
    parameters = 23 * hidden**2 + 40 * hidden
    return round(seeds * largest + 4 * seeds * parameters * (4 + len(rules(config))))


def _by_arrays(config: TrainConfig, size: int) -> float:
    """Predicts the bytes of a training step per sample without fused kernels.

    For each processor step the gradient needs about 16 arrays as large as the node features and 4 numbers per edge; on
    top come a few arrays of edge features.
    """
    name, hidden = config.algorithms[0], config.hidden_size
    nodes = ALGORITHMS[name].nodes_of_size(size)
    kept = processor_steps(name, size) * (16 * nodes * hidden + 4 * nodes**2)
    return 4 * (kept + 8 * nodes**2 * hidden)


def _by_kernels(config: TrainConfig, size: int) -> float:
    """Predicts the same with fused kernels, from the measured bytes of programs with them.

    Only decoders of edges and pointers read the triplets of Triplet-GMPNN; runs whose hints have neither take about
    half.
    """
    measured = measured_bytes()
    if measured is None:
        return _by_arrays(config, size)
    algorithm = ALGORITHMS[config.algorithms[0]]
    *kept, besides = np.array(measured) * _terms(algorithm.name, size, config.hidden_size)
    hints = [probe for probe in algorithm.transformed_spec.values() if probe.stage is Stage.HINT]
    of_edges = any(hint.location is Location.EDGE or hint.kind is Kind.POINTER for hint in hints)
    share = 0.5 if config.processor == "triplet_gmpnn" and not of_edges else 1.0
    return share * sum(kept) + besides


@functools.cache
def measured_bytes() -> list[float] | None:
    """Fits the bytes for each of `_terms` to the programs of the measurements that ship; None if there are none."""
    for record in bench_records(*SHIPPED):
        cells = [cell for cell in record.cells if cell.implementation == NARKIT and cell.program_bytes]
        if record.backend == "gpu" and cells:
            terms = np.array([_terms(cell.algorithm, cell.size, record.hidden_size) for cell in cells])
            needed = np.array([cell.program_bytes for cell in cells]) / (record.num_seeds * record.batch_size)
            return nnls(terms / needed[:, None], np.ones(len(cells)))[0].tolist()  # relative errors count
    return None


def _terms(algorithm: str, size: int, hidden_size: int) -> tuple[float, ...]:
    """Returns the quantities, per sample, that the bytes of a program with fused kernels are proportional to.

    For every processor step that there is room for these are features of nodes, features of edges (factors of weight
    gradients) and numbers per triplet (the attention's record); and features besides.
    """
    nodes = ALGORITHMS[algorithm].nodes_of_size(size)
    rows = ROWS_FOR_THE_LONGEST * (processor_steps(algorithm, size) + 1)
    return rows * nodes * hidden_size, rows * nodes**2 * hidden_size, rows * nodes**3, hidden_size
