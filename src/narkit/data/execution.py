"""Runs the compiled algorithms: on given instances, or on random ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from narkit import settings
from narkit.algorithms.compilation import permutations, run_loop, sample_loop
from narkit.algorithms.instances import Distribution
from narkit.data.batch import Arrays, Batch
from narkit.data.blocks import zeros_in_one_block
from narkit.data.memory import SIZES, SMALL, batch_bytes, check_batch_memory, check_memory
from narkit.errors import InstanceError
from narkit.resources import available_memory
from narkit.spec import ALGORITHMS, Algorithm, Stage, first_mask_name, input_name, stage_of

LONGEST_TRAINING_NEEDLE = 8
FIRST_VALIDATION_STEP = 2**40  # of a stream: no training comes this far, so validation sets share no random numbers
NUM_SEEDS = 2**63

# How many steps to make room for, by (algorithm, nodes): learnt from earlier batches, it only saves time.
_capacities: dict[tuple[Algorithm, int], int] = {}


def run(algorithm: str, /, **arguments: Any) -> Batch:
    """Runs an algorithm on one instance: `narkit.run("bfs", A=adjacency, s=0)`.

    The arguments have the names that dm-clrs's functions give them. Returns a raw batch of one trajectory.
    """
    entry = ALGORITHMS[algorithm]
    values = _read_arguments(entry, arguments)
    return run_instances(entry, {name: value[None] for name, value in values.items()})


def random_run(algorithm: str, size: int, seed: int, density: float) -> Batch:
    """Returns a raw run of one random instance, drawn as for the official splits but with this edge probability."""
    entry = ALGORITHMS[algorithm]
    check_size(entry, size, 1)
    if not 0 <= settings.whole_number("seed", seed) < 2**32:
        raise InstanceError(f"{algorithm}: expected a seed from 0 to 2^32 - 1, got {seed}")
    if not 0 <= settings.number("density", density) <= 1:
        raise InstanceError(f"{algorithm}: expected a density from 0 to 1, got {density}")
    distribution = Distribution(np.array([density]), longest_needle=0)
    instance = entry.sampler(np.random.RandomState(seed), size, distribution)
    return run(algorithm, **dict(zip(entry.arguments, instance, strict=True)))


def run_instances(entry: Algorithm, arguments: dict[str, np.ndarray]) -> Batch:
    """Runs an algorithm on stacked instances, which must be valid. Returns a raw batch."""
    first = {name: value[0] for name, value in arguments.items()}
    num_nodes = _nodes_of_instance(entry, first)
    batch_size = len(next(iter(arguments.values())))
    loop = run_loop(entry)

    def fill(arrays: Arrays, capacity: int, lengths: np.ndarray) -> None:
        loop(*arguments.values(), *arrays.values(), capacity, lengths)

    arrays, lengths = _with_enough_room(entry, batch_size, num_nodes, fill)
    return _raw_batch(entry, arrays, lengths)


def sample(algorithm: str, *, size: int, batch_size: int = 32, seed: int = 0, step: int = 0) -> Batch:
    """Returns a transformed batch from the training distribution: a pure function of its arguments.

    `size` is the nominal size: string matchers have `size` nodes of haystack and a quarter more of needle, the
    optimal search tree one node more, segments always four.
    """
    if not 0 <= settings.whole_number("step", step) < FIRST_VALIDATION_STEP:
        raise InstanceError(f"{algorithm}: expected a step in 0..{FIRST_VALIDATION_STEP - 1}, got {step}")
    return sample_step(ALGORITHMS[algorithm], size, batch_size, seed, step)


def sample_step(entry: Algorithm, size: int, batch_size: int, seed: int, step: int) -> Batch:
    """Returns the batch of any step of the stream, those set aside for validation included."""
    check_size(entry, size, batch_size)
    if not 0 <= settings.whole_number("seed", seed) < NUM_SEEDS:
        raise InstanceError(f"{entry.name}: expected a seed in 0..{NUM_SEEDS - 1}, got {seed}")
    return sample_seeds(entry, size, batch_size, np.array([seed], np.int64), step)


def sample_seeds(entry: Algorithm, size: int, samples_per_seed: int, seeds: np.ndarray, step: int) -> Batch:
    """Returns the batches of several seeds (64-bit integers), one after the other in a single batch.

    One compiled call makes them all: training may need them every millisecond, and what Python does around a call
    holds the interpreter for a good part of that. Nothing is checked.
    """
    num_nodes = entry.nodes_of_size(size)
    num_samples = len(seeds) * samples_per_seed
    distribution = _training_distribution(entry)
    loop = sample_loop(entry)
    masks: Arrays = {}

    def fill(arrays: Arrays, capacity: int, lengths: np.ndarray) -> None:
        for name in permutations(entry):
            masks[first_mask_name(name)] = np.zeros((num_samples, num_nodes), np.int8)
        loop(seeds, samples_per_seed, step, size, distribution, *arrays.values(), capacity, lengths, *masks.values())

    arrays, lengths = _with_enough_room(entry, num_samples, num_nodes, fill)
    return transformed_batch(entry, arrays, masks, lengths)


@functools.cache
def _training_distribution(entry: Algorithm) -> Distribution:
    return Distribution(np.array(entry.densities.training), LONGEST_TRAINING_NEEDLE)


def check_size(entry: Algorithm, size: int, num_samples: int) -> None:
    """Raises where the algorithm has no instances of this size, no samples are asked for, or more than fit."""
    settings.whole_number("size", size)
    settings.whole_number("number of samples", num_samples)
    if size < entry.min_size:
        raise InstanceError(f"{entry.name}: expected a size of at least {entry.min_size}, got {size}")
    if num_samples < 1:
        raise InstanceError(f"{entry.name}: expected at least 1 sample in a batch, got {num_samples}")
    check_batch_memory(entry, size, num_samples, measured_lengths)


@functools.cache
def measured_lengths(entry: Algorithm) -> tuple[float, float]:
    """Returns the mean number of steps of a few runs at each of two small sizes, from which others are estimated."""
    small, large = (
        float(np.mean([random_run(entry.name, max(size, entry.min_size), seed, 0.5).lengths[0] for seed in range(3)]))
        for size in SIZES
    )
    return small, large


def _with_enough_room(
    entry: Algorithm, batch_size: int, num_nodes: int, fill: Callable[[Arrays, int, np.ndarray], None]
) -> tuple[Arrays, np.ndarray]:
    """Fills fresh arrays; again with more rows if a trajectory did not fit. Hints are cut to the longest.

    In memory the steps of a sample follow each other, since that is the order in which they are written: up to twice
    as fast for long trajectories. Hints are handed out as views (time, batch, ...) of that.
    """
    key = (entry, num_nodes)
    layouts = _array_layouts(entry, num_nodes)
    timed = [layout for layout in layouts if layout.timed]
    capacity = _capacities.get(key, 2 * num_nodes + 8)
    if capacity * batch_size * num_nodes > SMALL:  # a guess must not take memory that the run may not need
        capacity = _affordable(entry, num_nodes, batch_size, capacity)
    while True:
        check_memory(f"{entry.name}, {batch_size} samples", batch_bytes(entry, num_nodes, batch_size, capacity))
        hints = iter(zeros_in_one_block(((batch_size, capacity, *layout.shape), layout.dtype) for layout in timed))
        arrays = {
            layout.name: next(hints) if layout.timed else np.zeros((batch_size, *layout.shape), layout.dtype)
            for layout in layouts
        }
        lengths = np.zeros(batch_size, np.int32)
        fill(arrays, capacity, lengths)
        longest = int(lengths.max())
        enough = longest + longest // 4 + 1
        if longest > capacity or key not in _capacities:
            _capacities[key] = enough
        if longest <= capacity:
            break
        capacity = enough
    for layout in timed:
        arrays[layout.name] = arrays[layout.name].swapaxes(0, 1)[:longest]
    return arrays, lengths


def _affordable(entry: Algorithm, num_nodes: int, batch_size: int, wanted: int) -> int:
    """Returns as many of the wanted steps as fit into a quarter of the memory, and at least two."""
    there = available_memory()
    if there is None:
        return wanted
    fixed = batch_bytes(entry, num_nodes, batch_size, 0)
    each = batch_bytes(entry, num_nodes, batch_size, 1) - fixed
    return wanted if each <= 0 else int(max(2, min(wanted, (there / 4 - fixed) // each)))


class _ArrayLayout(NamedTuple):
    """The name, type and shape of the array of one probe, without the axes of steps and samples."""

    name: str
    timed: bool  # whether it has an axis of steps; constant hints have none
    shape: tuple[int, ...]
    dtype: np.dtype


@functools.cache
def _array_layouts(entry: Algorithm, num_nodes: int) -> tuple[_ArrayLayout, ...]:
    return tuple(
        _ArrayLayout(
            name, probe.stage is Stage.HINT and not probe.constant, probe.shape(num_nodes), np.dtype(probe.dtype)
        )
        for name, probe in entry.spec.items()
    )


def _raw_batch(entry: Algorithm, arrays: Arrays, lengths: np.ndarray) -> Batch:
    stages: dict[Stage, Arrays] = {stage: {} for stage in Stage}
    for name, probe in entry.spec.items():
        values = arrays[name]
        if probe.constant:
            counts = np.arange(lengths.max())[:, None] < lengths
            values = values * counts.reshape(*counts.shape, *(1,) * (values.ndim - 1)).astype(values.dtype)
        stages[probe.stage][name] = values
    return Batch.trusted(entry.name, stages[Stage.INPUT], stages[Stage.HINT], stages[Stage.OUTPUT], lengths, False)


def transformed_batch(entry: Algorithm, arrays: Arrays, masks: Arrays, lengths: np.ndarray) -> Batch:
    """Returns a transformed batch from arrays under their raw names, constant hints without an axis of steps, and from
    the first-node masks of permutations."""
    named = {**arrays, **masks}
    inputs, hints, outputs = ({name: named[source] for name, source in stage} for stage in _sources(entry))
    return Batch.trusted(entry.name, inputs, hints, outputs, lengths, True)


@functools.cache
def _sources(entry: Algorithm) -> list[list[tuple[str, str]]]:
    """Returns, for inputs, hints and outputs, the names of a transformed batch, each with its array's raw name."""
    raw = {input_name(name) if probe.constant else name: name for name, probe in entry.spec.items()}
    return [
        [(name, raw.get(name, name)) for name in stage_of(entry.transformed_spec, stage)]
        for stage in (Stage.INPUT, Stage.HINT, Stage.OUTPUT)
    ]


def _nodes_of_instance(entry: Algorithm, arguments: dict[str, np.ndarray]) -> int:
    if entry.nodes_of_instance is not None:
        return entry.nodes_of_instance(**arguments)
    return next(len(value) for value in arguments.values() if np.ndim(value))


def _read_arguments(entry: Algorithm, given: dict[str, Any]) -> dict[str, np.ndarray]:
    expected = list(entry.arguments)
    if set(given) != set(expected):
        missing = [name for name in expected if name not in given]
        unknown = [name for name in given if name not in expected]
        raise TypeError(f"{entry.name} takes the arguments {expected}; missing: {missing}, unknown: {unknown}")
    values = {name: argument.read(name, given[name]) for name, argument in entry.arguments.items()}
    for name, argument in entry.arguments.items():
        for check in argument.checks:
            check(name, values[name], values)
    num_nodes = _nodes_of_instance(entry, values)
    fewest = entry.nodes_of_size(entry.min_size) if entry.min_nodes is None else entry.min_nodes
    if num_nodes < fewest:
        raise InstanceError(f"{entry.name}: expected an instance of at least {fewest} nodes, got {num_nodes}")
    return values
