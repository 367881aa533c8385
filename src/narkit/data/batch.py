"""A batch of trajectories: inputs, hints over time, outputs, and the spec that they follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from narkit.algorithms import ALGORITHMS
from narkit.errors import BatchError
from narkit.spec import Algorithm, Kind, Probe, Spec, Stage, stage_of

Arrays = dict[str, np.ndarray]


class Batch:
    """Trajectories of one algorithm, all with the same number of nodes.

    `inputs` and `outputs` map a probe's name to an array (batch, ...), `hints` to (time, batch, ...); `lengths`
    (batch,) says how many steps of each sample count, and hints are zero beyond. A batch is *raw*, as the benchmark
    publishes it, or *transformed*, as networks read it (see `narkit.transform`); `spec` is the one that it follows.

    Built by hand, a batch is checked against the spec; arrays of other types are converted where no value changes.
    Permutation pointers may also be given as (nodes, nodes) matrices.
    """

    __slots__ = ("algorithm", "hints", "inputs", "lengths", "outputs", "transformed")

    def __init__(
        self,
        *,
        algorithm: str,
        inputs: Mapping[str, Any],
        hints: Mapping[str, Any],
        outputs: Mapping[str, Any],
        lengths: Any,
    ):
        entry = ALGORITHMS[algorithm]
        self.algorithm = entry.name
        self.transformed = _follows_transformed_spec(entry, inputs, hints, outputs)
        self.lengths = _lengths(entry, lengths)
        num_nodes = _num_nodes(entry, inputs)
        stages = {Stage.INPUT: inputs, Stage.HINT: hints, Stage.OUTPUT: outputs}
        read = {
            stage: {
                name: _read(entry, name, probe, given[name], len(self.lengths), num_nodes)
                for name, probe in stage_of(self.spec, stage).items()
            }
            for stage, given in stages.items()
        }
        self.inputs, self.hints, self.outputs = read[Stage.INPUT], read[Stage.HINT], read[Stage.OUTPUT]
        _check_times(entry, self.hints, self.lengths)
        if not self.transformed:
            _check_constants(entry, self.hints, self.lengths)

    @classmethod
    def trusted(
        cls, algorithm: str, inputs: Arrays, hints: Arrays, outputs: Arrays, lengths: np.ndarray, transformed: bool
    ) -> Batch:
        """Makes a batch of arrays that are known to be right: nothing is checked, converted or copied."""
        batch = cls.__new__(cls)
        batch.algorithm, batch.transformed = algorithm, transformed
        batch.inputs, batch.hints, batch.outputs, batch.lengths = inputs, hints, outputs, lengths
        return batch

    @property
    def spec(self) -> Spec:
        entry = ALGORITHMS[self.algorithm]
        return entry.transformed_spec if self.transformed else entry.spec

    @property
    def num_nodes(self) -> int:
        return self.inputs["pos"].shape[1]

    @property
    def num_steps(self) -> int:
        """The number of hint rows, padding included."""
        return next((len(values) for values in self.hints.values()), int(self.lengths.max(initial=0)))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, samples: slice | np.ndarray | list[int]) -> Batch:
        """Returns the chosen samples as a batch: by slice, by number or by mask. One sample is `batch[3:4]`."""
        samples = self._checked(samples)
        return Batch.trusted(
            self.algorithm,
            {name: values[samples] for name, values in self.inputs.items()},
            {name: values[:, samples] for name, values in self.hints.items()},
            {name: values[samples] for name, values in self.outputs.items()},
            self.lengths[samples],
            self.transformed,
        )

    def _checked(self, samples: Any) -> slice | np.ndarray:
        if isinstance(samples, slice):
            return samples
        array = np.asarray(samples)
        if array.ndim == 0 and array.dtype.kind in "iu":
            raise TypeError(
                f"a batch: expected a slice or a list of samples, got {samples!r}; one sample as a batch is "
                f"batch[{int(array)}:{int(array) + 1}]"
            )
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iub"):
            raise TypeError(f"a batch: expected a slice, a list of whole numbers or a mask, got {samples!r}")
        if array.dtype.kind == "b" and len(array) != len(self):
            raise IndexError(f"a batch: expected a mask of {len(self)} samples, got one of {len(array)}")
        if array.dtype.kind != "b" and array.size and not (-len(self) <= array.min() and array.max() < len(self)):
            raise IndexError(f"a batch: expected samples 0..{len(self) - 1}, got {array.min()}..{array.max()}")
        return array if array.size else array.astype(np.int64)

    def __iter__(self) -> Iterator[Batch]:
        """Iterates over the samples one by one, each a batch of one."""
        return (self[place : place + 1] for place in range(len(self)))

    def __repr__(self) -> str:
        form = "transformed" if self.transformed else "raw"
        return (
            f"<{form} Batch of {self.algorithm}: {len(self)} samples, {self.num_nodes} nodes, {self.num_steps} steps>"
        )


def _follows_transformed_spec(entry: Algorithm, inputs: Mapping, hints: Mapping, outputs: Mapping) -> bool:
    """Returns whether the names follow the transformed spec. If they follow both, evenly spaced positions mean raw."""
    given = [list(inputs), list(hints), list(outputs)]
    fits = []
    for spec in (entry.spec, entry.transformed_spec):
        expected = [list(stage_of(spec, stage)) for stage in (Stage.INPUT, Stage.HINT, Stage.OUTPUT)]
        fits.append(all(set(names) == set(wanted) for names, wanted in zip(given, expected, strict=True)))
    if fits == [True, True]:
        pos = np.asarray(inputs["pos"], np.float32)
        even = (np.arange(pos.shape[-1]) / pos.shape[-1]).astype(np.float32)
        return "string" not in entry.spec and not np.array_equal(pos, np.broadcast_to(even, pos.shape))
    if not any(fits):
        raise BatchError(
            f"a batch of {entry.name} needs the probes {_names(entry.spec)} (raw) or {_names(entry.transformed_spec)} "
            f"(transformed); got inputs {given[0]}, hints {given[1]}, outputs {given[2]}"
        )
    return fits[1]


def _names(spec: Spec) -> str:
    return "; ".join(f"{stage}s {list(stage_of(spec, stage))}" for stage in (Stage.INPUT, Stage.HINT, Stage.OUTPUT))


def _lengths(entry: Algorithm, lengths: Any) -> np.ndarray:
    array = np.asarray(lengths)
    if array.ndim != 1 or not np.array_equal(array, array.astype(np.int32)) or (array < 1).any():
        raise BatchError(f"lengths of a {entry.name} batch: expected one whole number >= 1 per sample, got {lengths!r}")
    return array.astype(np.int32)


def _num_nodes(entry: Algorithm, inputs: Mapping[str, Any]) -> int:
    shape = np.shape(inputs["pos"])
    if len(shape) != 2:
        raise BatchError(f"input 'pos' of a {entry.name} batch: expected shape (batch, nodes), got {shape}")
    return shape[1]


def _read(entry: Algorithm, name: str, probe: Probe, values: Any, batch_size: int, num_nodes: int) -> np.ndarray:
    """Returns the probe's values in the spec's shape and type; raises an error that says what was expected."""
    where = f"{probe.stage} {name!r} of a {entry.name} batch"
    array = np.asarray(values)
    expected = (batch_size, *probe.shape(num_nodes))
    shape = array.shape[1:] if probe.stage is Stage.HINT else array.shape
    if probe.kind is Kind.PERMUTATION_POINTER and shape == (*expected, num_nodes):
        array, shape = array.argmax(-1), expected
    if shape != expected:
        time = "(time, " if probe.stage is Stage.HINT else "("
        raise BatchError(f"{where}: expected shape {time}{', '.join(map(str, expected))}), got {array.shape}")
    if array.dtype.kind not in "biuf":
        raise BatchError(f"{where}: expected numbers, got type {array.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise BatchError(f"{where}: expected finite numbers, got NaN or infinity")
    _check_values(where, probe, array, num_nodes)
    return np.ascontiguousarray(array.astype(probe.dtype))


def _check_values(where: str, probe: Probe, array: np.ndarray, num_nodes: int) -> None:
    match probe.kind:
        case Kind.SCALAR:
            return
        case Kind.MASK | Kind.MASK_ONE | Kind.CATEGORICAL:
            if not np.isin(array, (-1, 0, 1)).all():
                raise BatchError(f"{where}: expected values -1, 0 or 1, got values in {array.min()}..{array.max()}")
        case Kind.POINTER | Kind.SHOULD_BE_PERMUTATION | Kind.PERMUTATION_POINTER:
            if not (np.array_equal(array, np.round(array)) and (array >= 0).all() and (array < num_nodes).all()):
                raise BatchError(
                    f"{where}: expected pointers to nodes 0..{num_nodes - 1}, "
                    f"got values in {array.min()}..{array.max()}"
                )


def _check_times(entry: Algorithm, hints: Arrays, lengths: np.ndarray) -> None:
    steps = {name: len(values) for name, values in hints.items()}
    if len(set(steps.values())) > 1:
        raise BatchError(f"hints of a {entry.name} batch: expected the same number of steps in all, got {steps}")
    if steps and lengths.max(initial=0) > next(iter(steps.values())):
        raise BatchError(
            f"lengths of a {entry.name} batch: expected at most {next(iter(steps.values()))}, the number of hint rows, "
            f"got {lengths.max()}"
        )


def _check_constants(entry: Algorithm, hints: Arrays, lengths: np.ndarray) -> None:
    """Checks that the steps of a constant hint do not differ: transforming keeps the first one only."""
    for name, values in hints.items():
        if entry.spec[name].constant:
            counts = np.arange(len(values))[:, None] < lengths
            changes = (values != values[0]).reshape(*counts.shape, -1).any(axis=2) & counts
            if changes.any():
                step, sample = np.argwhere(changes)[0]
                raise BatchError(
                    f"hint {name!r} of a {entry.name} batch: expected the same value at every step, got a change at "
                    f"step {step} of sample {sample}"
                )
