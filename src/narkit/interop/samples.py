"""Batches as others' packages want them, in plain NumPy: a sample at a time, and graphs as lists of edges.

Everything here runs without any other package; `narkit.interop.torch`, `narkit.interop.pyg` and
`narkit.interop.networkx` only wrap these arrays in the types of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from narkit.data.batch import Arrays, Batch
from narkit.data.splits import SPLITS, benchmark_set, load_split
from narkit.data.transforms import transform
from narkit.spec import Kind, Location, Probe, Spec, Stage

POINTERS = (Kind.POINTER, Kind.SHOULD_BE_PERMUTATION, Kind.PERMUTATION_POINTER)


def choose_batch(
    algorithm: str,
    split: str | None = None,
    *,
    size: int | None = None,
    count: int | None = None,
    seed: int | None = None,
    transformed: bool = False,
) -> Batch:
    """Returns an official split, or a set like it of another size, number of samples or seed.

    With none of `size`, `count` and `seed` these are the published samples (of "test", if no split is named). With any
    of them the samples are drawn anew from the benchmark's distribution, and what is not given is as in the split. A
    seed of 0 or 1,000 and more keeps clear of the splits' own, which are 1, 2 and 3.
    """
    name = "test" if split is None else split
    published = size is None and count is None and seed is None
    if published or name not in SPLITS:  # the latter raises and names the nearest
        batch = load_split(algorithm, name)
    else:
        usual = SPLITS[name]
        size = usual.size if size is None else size
        count = usual.num_samples if count is None else count
        batch = benchmark_set(algorithm, size, count, usual.seed if seed is None else seed)
    return transform(batch, seed=0) if transformed else batch


def wide(probe: Probe) -> np.dtype:
    """Returns the type that training code of other packages expects: indices are int64, everything else is float32."""
    return np.dtype(np.int64 if probe.kind in POINTERS else np.float32)


def widened(batch: Batch) -> Batch:
    """Returns the batch with the types of `wide`: what losses and indexing take without a further conversion."""
    spec = batch.spec

    def convert(arrays: Arrays) -> Arrays:
        return {name: np.ascontiguousarray(values, wide(spec[name])) for name, values in arrays.items()}

    # In memory the steps of one sample follow each other, so that taking a sample out copies nothing.
    hints = {
        name: np.ascontiguousarray(values.swapaxes(0, 1), wide(spec[name])).swapaxes(0, 1)
        for name, values in batch.hints.items()
    }
    lengths = batch.lengths.astype(np.int64)
    return Batch.trusted(
        batch.algorithm, convert(batch.inputs), hints, convert(batch.outputs), lengths, batch.transformed
    )


@dataclass(frozen=True)
class Sample:
    """One trajectory: inputs and outputs without an axis of samples, hints (time, ...) cut to its own length."""

    inputs: Arrays
    hints: Arrays
    outputs: Arrays
    length: int


def sample_of(batch: Batch, index: int) -> Sample:
    """Returns the trajectory with this number, as views of the batch's arrays."""
    length = int(batch.lengths[index])
    return Sample(
        {name: values[index] for name, values in batch.inputs.items()},
        {name: values[:length, index] for name, values in batch.hints.items()},
        {name: values[index] for name, values in batch.outputs.items()},
        length,
    )


def samples(batch: Batch) -> Iterator[Sample]:
    """Yields all trajectories of a batch, one after the other."""
    return (sample_of(batch, index) for index in range(len(batch)))


def stack(trajectories: list[Sample]) -> tuple[Arrays, Arrays, Arrays, np.ndarray]:
    """Stacks inputs, hints (time, batch, ...), outputs and lengths of samples; hints are zero beyond a sample's end.

    This is what `Batch` holds, put together again: the samples need not come from the same batch.
    """
    lengths = np.array([sample.length for sample in trajectories], np.int64)
    hints = {}
    for name, first in trajectories[0].hints.items():
        padded = np.zeros((lengths.max(), len(lengths), *first.shape[1:]), first.dtype)
        for index, sample in enumerate(trajectories):
            padded[: sample.length, index] = sample.hints[name]
        hints[name] = padded
    inputs = {name: np.stack([sample.inputs[name] for sample in trajectories]) for name in trajectories[0].inputs}
    outputs = {name: np.stack([sample.outputs[name] for sample in trajectories]) for name in trajectories[0].outputs}
    return inputs, hints, outputs, lengths


@dataclass(frozen=True)
class EdgeList:
    """One trajectory on a list of edges.

    `edge_index` is (2, edges): sources above, targets below. `values` holds every probe by name: (nodes, ...) where it
    belongs to nodes, (edges, ...) where it belongs to edges, (1, ...) where it belongs to the graph; hints have their
    steps as the second axis, padded with zeros to those of the longest trajectory in the batch.
    """

    num_nodes: int
    edge_index: np.ndarray
    values: Arrays
    length: int


def needs_all_pairs(spec: Spec) -> bool:
    """Returns whether a list of the graph's own edges would lose something.

    It does where there is no adjacency matrix, and where a hint or output has a number or a pointer for every pair of
    nodes (Floyd-Warshall's distances). Masks of edges only count where there is an edge.
    """
    return "adj" not in spec or any(
        probe.location is Location.EDGE and probe.stage is not Stage.INPUT and probe.kind is not Kind.MASK
        for probe in spec.values()
    )


def edge_lists(batch: Batch) -> Iterator[EdgeList]:
    """Yields a batch's trajectories as lists of edges: the graph's own where it has any, otherwise all pairs of nodes.

    The benchmark's adjacency matrices have a one in every place of the diagonal, so each node has an edge to itself.
    Where an algorithm also marks other pairs (the transposed graph of strongly connected components), they are listed.
    """
    spec, num_nodes = batch.spec, batch.num_nodes
    pairs = np.indices((num_nodes, num_nodes)).reshape(2, -1)
    marked = None if needs_all_pairs(spec) else _marked_pairs(batch)
    hints = {name: values.swapaxes(0, 1) for name, values in batch.hints.items()}
    by_sample = {**batch.inputs, **hints, **batch.outputs}
    for index in range(len(batch)):
        edges = pairs if marked is None else np.stack(np.nonzero(marked[index]))
        values = {name: _placed(spec[name], by_sample[name][index], edges) for name in spec if name in by_sample}
        yield EdgeList(num_nodes, edges, values, int(batch.lengths[index]))


def _marked_pairs(batch: Batch) -> np.ndarray:
    """Returns (batch, nodes, nodes): the pairs that an edge's mask names at any time, the adjacency matrix included."""
    marked = batch.inputs["adj"] > 0
    for name, values in {**batch.inputs, **batch.hints, **batch.outputs}.items():
        probe = batch.spec[name]
        if probe.location is Location.EDGE and probe.kind is Kind.MASK:
            marked = marked | ((values > 0).any(axis=0) if probe.stage is Stage.HINT else values > 0)
    return marked


def _placed(probe: Probe, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Returns one sample's values with the axis of nodes, of edges or of the one graph in front."""
    timed = probe.stage is Stage.HINT
    match probe.location:
        case Location.NODE:
            return values.swapaxes(0, 1) if timed else values
        case Location.EDGE:
            chosen = values[:, edges[0], edges[1]] if timed else values[edges[0], edges[1]]
            return chosen.swapaxes(0, 1) if timed else chosen
        case Location.GRAPH:
            return np.asarray(values)[None]
