"""`narkit.solve`: an instance is read, run by the algorithm and by a network, and both answers are put into words."""

from __future__ import annotations

import functools
import math
import os
import warnings as python_warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from narkit.data.batch import Batch
from narkit.data.execution import run
from narkit.data.memory import check_memory
from narkit.data.transforms import transform
from narkit.errors import InstanceError
from narkit.solve import weights as published
from narkit.solve.answer import Answer, nominal_size
from narkit.solve.problem import Instance, TrainingRangeWarning, bind
from narkit.solve.problems import problem_of
from narkit.spec import ALGORITHMS, Kind, Stage, stage_of

if TYPE_CHECKING:
    from narkit.inference import Predictions
    from narkit.models.network import Reasoner

FEWEST_STEPS = 64
"""Trajectories are padded to this many steps, longer ones to powers of two: one program serves most of a size."""

WORTH_KEEPING = 0.2  # seconds of compiling, which a person who waits for an answer would notice
LOGIT_BYTES = 12  # as float32 on the device, once more where they are decoded, and as a copy


def solve(
    algorithm: str,
    /,
    *data: Any,
    weights: str | os.PathLike | Reasoner | None = None,
    instances: Sequence[Any] | None = None,
    **named: Any,
) -> Any:
    """Lets a trained network solve an instance of your own, and the algorithm beside it.

    `narkit.solve("dijkstra", graph, source="Ulm")` returns an `Answer`. What an instance consists of depends on the
    problem; `narkit solve ALGORITHM --help` shows an example of each:

    - graphs: `graph` (a NetworkX graph, a SciPy sparse matrix, an adjacency matrix, a list of edges, a dictionary or a
      CSV file) and, where there is one, `source`; `directed` and `weight`, the name of NetworkX's attribute, if need be
    - sorting and searching: `keys`, and `target` for binary_search; `numbers` for find_maximum_subarray_kadane
    - strings: `text` and `pattern`; `first` and `second` for lcs_length
    - geometry: `points`; for segments_intersect the four ends of two segments
    - `activities` (start, finish), `tasks` (deadline, penalty), `dimensions` of matrices, `probabilities` and `gaps`

    `weights` is a name of `narkit weights`, a file, or a `Reasoner`; by default the best published network for the
    algorithm. `instances` takes many at once, each a dictionary of the names above, a tuple, or a single value; the
    result is then a list of answers.
    """
    name = ALGORITHMS[algorithm].name
    if instances is None:
        return _answer(name, prepare(name, *data, **named), *_network(name, weights))
    if data or named:
        raise TypeError(f"{name}: expected either one instance or `instances`, got both")
    prepared = [_prepare_one(name, place, given) for place, given in enumerate(instances, 1)]
    network = _network(name, weights)
    return [_answer(name, one, *network) for one in prepared]


def _prepare_one(algorithm: str, place: int, given: Any) -> Instance:
    try:
        if isinstance(given, Mapping) and set(given) & {*problem_of(algorithm).parameters}:
            return prepare(algorithm, **given)
        return prepare(algorithm, *given) if isinstance(given, tuple) else prepare(algorithm, given)
    except InstanceError as error:
        raise InstanceError(f"instance {place}: {error}") from None


def prepare(algorithm: str, /, *data: Any, **named: Any) -> Instance:
    """Prepares the instance as it will be run: read, checked and in the range of the training."""
    problem = problem_of(algorithm)
    return problem.read(bind(problem, algorithm, data, named))


def _network(
    algorithm: str, weights: str | os.PathLike | Reasoner | None
) -> tuple[Reasoner, str, tuple[published.MeasuredScore, ...]]:
    """Returns the network, its name, and its recorded scores."""
    from narkit.models.network import Reasoner

    if isinstance(weights, Reasoner):
        found, name, measured = weights, f"the given {weights.processor_name}", ()
    elif weights is not None and Path(weights).is_file():
        found, name, measured = _loaded(Path(weights).resolve(), Path(weights).stat().st_mtime_ns), str(weights), ()
    else:
        entry = published.best(algorithm) if weights is None else published.find(str(weights))
        entry.check()
        found = _loaded(entry.path, entry.path.stat().st_mtime_ns)
        name, measured = entry.name, entry.measured
    if algorithm not in found.algorithms:
        raise InstanceError(
            f"weights: expected a network for {algorithm}, got one for {' and '.join(found.algorithms)}: {name}"
        )
    return found, name, measured


@functools.lru_cache(maxsize=8)
def _loaded(path: Path, changed: int) -> Reasoner:
    from narkit.models.serialization import load

    return load(path)


def _answer(
    algorithm: str, instance: Instance, network: Reasoner, name: str, measured: tuple[published.MeasuredScore, ...]
) -> Answer:
    batch = run(algorithm, **instance.arguments)
    warnings = [*instance.warnings, *_size_warnings(algorithm, batch, measured)]
    for warning in warnings:
        python_warnings.warn(warning, TrainingRangeWarning, stacklevel=4)  # narkit.solve's caller
    predictions = predict_one(network, batch)
    problem = problem_of(algorithm)
    predicted = {output: np.asarray(values)[0] for output, values in predictions.outputs.items()}
    truth = {output: values[0] for output, values in batch.outputs.items()}
    return Answer(
        algorithm=algorithm,
        instance=batch,
        predictions=predictions,
        labels=instance.labels,
        outputs=problem.plain(instance, predicted),
        truth=problem.plain(instance, truth),
        notes=tuple(instance.notes),
        warnings=tuple(warnings),
        network=network,
        weights_name=name,
        measured=measured,
        _problem=problem,
        _read=instance,
    )


def _size_warnings(algorithm: str, batch: Batch, measured: tuple[published.MeasuredScore, ...]) -> list[str]:
    largest = max((entry.size for entry in measured), default=published.TEST_SIZE)
    size = nominal_size(algorithm, batch.num_nodes)
    if size <= largest:
        return []
    return [f"the instance, of size {size}, is larger than any that networks were measured on ({largest})"]


def predict_one(network: Reasoner, batch: Batch) -> Predictions:
    """Predicts a raw batch of one and returns NumPy arrays.

    A program is compiled for a number of nodes and of steps, so the trajectory is padded; the loop over steps ends
    where the instance does.
    """
    import jax

    from narkit.compiler import keep_compiled_programs
    from narkit.inference import Predictions, predict

    keep_compiled_programs(WORTH_KEEPING)
    capacity = FEWEST_STEPS
    while capacity < batch.num_steps:
        capacity *= 2
    _check_memory(batch, capacity)
    padding = capacity - batch.num_steps
    hints = {
        hint: np.concatenate([values, np.zeros((padding, *values.shape[1:]), values.dtype)])
        for hint, values in batch.hints.items()
    }
    padded = Batch.trusted(batch.algorithm, batch.inputs, hints, batch.outputs, batch.lengths, batch.transformed)
    ready = transform(padded, random_positions=False)
    # Moved at once: array by array, JAX would compile a program for every shape.
    arrays = jax.device_put((ready.inputs, ready.hints, ready.outputs, ready.lengths))
    made = predict(network, Batch.trusted(ready.algorithm, *arrays, transformed=True))
    found = jax.device_get(vars(made))
    for what in ("hint_logits", "hints"):
        found[what] = {hint: values[: max(1, batch.num_steps - 1)] for hint, values in found[what].items()}
    return Predictions(**found)


def _check_memory(batch: Batch, capacity: int) -> None:
    """Refuses runs whose predicted hints would not fit: pointers have a logit for every node, at every step."""
    num_values = 0
    for probe in stage_of(ALGORITHMS[batch.algorithm].transformed_spec, Stage.HINT).values():
        logits = batch.num_nodes if probe.kind is Kind.POINTER else 1
        num_values += capacity * logits * math.prod(probe.shape(batch.num_nodes))
    what = f"{batch.algorithm}, predictions for {batch.num_nodes} nodes and {batch.num_steps} steps"
    check_memory(what, num_values * LOGIT_BYTES, "take a smaller instance")
