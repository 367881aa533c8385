"""How much memory of the device a cell needs, where it was not measured."""

from __future__ import annotations

from narkit.algorithms import ALGORITHMS
from narkit.data.lengths import processor_steps
from narkit.data.splits import SPLITS
from narkit.spec import Kind, Location, Stage
from narkit.sweeps.lengths import training_sizes
from narkit.training.config import TrainConfig
from narkit.training.rules import rules
from narkit.training.trainer import TEST_PART, VALIDATION_PART

ROWS_FOR_THE_LONGEST = 1.25  # rows of hints that a run has room for, in those of an average batch: 1.0 to 1.6


def predicted_memory(config: TrainConfig, backend: str) -> int:
    """Bytes that a run needs on the device, roughly: its largest program, and the parameters with their optimiser and
    one copy for every rule."""
    name, seeds, hidden = config.algorithms[0], len(config.seeds), config.hidden_size
    per_sample = _by_kernels if backend == "gpu" else _by_arrays
    largest = max(config.batch_size * per_sample(config, size) for size in training_sizes(config))
    evaluated = [(v.size, min(v.num_samples, VALIDATION_PART)) for v in config.validations]
    evaluated += [(each.size, TEST_PART) for each in config.scored]
    if config.test:
        evaluated.append((SPLITS["test"].size, TEST_PART))
    for size, samples in evaluated:
        largest = max(largest, samples * 16 * ALGORITHMS[name].nodes_of_size(size) ** 2 * hidden)
    parameters = 23 * hidden**2 + 40 * hidden
    return round(seeds * largest + 4 * seeds * parameters * (4 + len(rules(config))))


def _by_arrays(config: TrainConfig, size: int) -> float:
    """Bytes of a training step per sample. For each processor step the gradient needs about 16 arrays as large as the
    node features and 4 numbers per edge; on top come a few arrays of edge features."""
    name, hidden = config.algorithms[0], config.hidden_size
    nodes = ALGORITHMS[name].nodes_of_size(size)
    kept = processor_steps(name, size) * (16 * nodes * hidden + 4 * nodes**2)
    return 4 * (kept + 8 * nodes**2 * hidden)


def _by_kernels(config: TrainConfig, size: int) -> float:
    """The same with fused kernels. For every processor step that there is room for they keep the attention's record, a
    number per triplet, and factors of weight gradients: six arrays of edge features in bfloat16 and some of nodes.

    The shares of nodes and of the rest are fitted to benchmarks/train.json, both systems, 4 to 16 nodes: programs need
    0.8 to 1.4 times what this gives. Only decoders of edges and pointers read the triplets of Triplet-GMPNN; runs whose
    hints have neither take about half.
    """
    algorithm, hidden = ALGORITHMS[config.algorithms[0]], config.hidden_size
    nodes = algorithm.nodes_of_size(size)
    rows = int(ROWS_FOR_THE_LONGEST * (processor_steps(algorithm.name, size) + 1))
    kept = rows * (hidden * (200 * nodes + 12 * nodes**2) + 4 * nodes**3)
    hints = [probe for probe in algorithm.transformed_spec.values() if probe.stage is Stage.HINT]
    of_edges = any(hint.location is Location.EDGE or hint.kind is Kind.POINTER for hint in hints)
    if config.processor == "triplet_gmpnn" and not of_edges:
        kept /= 2
    return kept + 5000 * hidden
