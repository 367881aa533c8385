"""The feed of training: the batch of each step, of all seeds at once, made and moved to the device ahead of time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from narkit.algorithms import ALGORITHMS
from narkit.data.batch import Batch
from narkit.data.execution import sample_seeds
from narkit.data.splits import SPLITS, load_split
from narkit.data.stream import Prefetcher
from narkit.data.transforms import transform
from narkit.models.network import DeviceBatch
from narkit.training.config import TrainConfig
from narkit.training.packing import PackedBatch, pack

MEASURED_TURNS = 20_000  # of an algorithm: twice what the paper trains
TURNS_AT_ONCE = 50
FEWEST_ROWS = 2
GROWTH = 1.25  # of the room for hints, where a longer run needs more


@dataclass(frozen=True)
class TrainingBatch:
    """The batch of one training step, of all seeds."""

    packed: PackedBatch  # a NumPy array, until it is moved to the device
    num_steps: int  # as in `packed`, where it cannot be read without waiting once that is on the device

    @property
    def samples(self) -> DeviceBatch:
        """The samples, with a leading seed axis."""
        return self.packed.unpack()

    def on_device(self, place: Callable[[Any], Any] = lambda arrays: arrays) -> TrainingBatch:
        """Returns the batch on the device, or where `place` puts it. Nobody may change the array it was made from."""
        return TrainingBatch(jax.device_put(place(self.packed)), self.num_steps)


@dataclass
class MeasuredLengths:
    """The lengths of trajectories that were found so far. An interrupted measurement goes on from them."""

    turns: dict[str, int] = field(default_factory=dict)  # of each algorithm, how many were looked at
    rows: dict[str, dict[int, int]] = field(default_factory=dict)  # of each algorithm, by the number of nodes

    def add(self, algorithm: str, turns: int, found: Mapping[int, int]) -> None:
        self.turns[algorithm] = self.turns.get(algorithm, 0) + turns
        rows = self.rows.setdefault(algorithm, {})
        for num_nodes, needed in found.items():
            rows[num_nodes] = max(needed, rows.get(num_nodes, FEWEST_ROWS))

    def to_json(self) -> dict[str, Any]:
        return {"turns": self.turns, "rows": {name: list(rows.items()) for name, rows in self.rows.items()}}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> MeasuredLengths:
        return cls(dict(values["turns"]), {name: dict(rows) for name, rows in values["rows"].items()})


class Feed:
    """The training data of a run: a pure function of the step, whichever thread makes it and wherever it resumes."""

    def __init__(self, config: TrainConfig, place: Callable[[Any], Any] = lambda arrays: arrays):
        self._config, self._place = config, place
        self._capacities: dict[tuple[str, int], int] = {}
        self._measured = MeasuredLengths()
        self._seeds = np.array(config.seeds, np.int64)
        self._fixed = {
            name: transform(load_split(name, "train"), random_positions=config.random_positions)
            for name in config.algorithms
            if config.fixed_training_set
        }

    def batch(self, step: int) -> TrainingBatch:
        """Returns the batch of a step, in NumPy arrays."""
        algorithm, turn = self._turn(step)
        samples = self._samples(algorithm, turn)
        num_rows = self._capacity(algorithm, samples.num_nodes, int(samples.lengths.max()))
        packed = pack(samples, num_seeds=len(self._seeds), num_rows=num_rows, step=step)
        return TrainingBatch(packed, int(packed.num_steps))

    def _turn(self, step: int) -> tuple[str, int]:
        """Returns the algorithm of a step, and how many steps it had before."""
        turn, place = divmod(step, len(self._config.algorithms))
        return self._config.algorithms[place], turn

    def kind_of_batch(self, step: int) -> tuple[str, int]:
        """Returns the algorithm and nominal size of a step's batch."""
        algorithm, turn = self._turn(step)
        return algorithm, SPLITS["train"].size if self._fixed else self._size(algorithm, turn)

    def _size(self, algorithm: str, turn: int) -> int:
        sizes = ALGORITHMS[algorithm].training_sizes(self._config.sizes)
        return sizes[turn % len(sizes)]

    def _samples(self, algorithm: str, turn: int) -> Batch:
        """Returns the samples of all seeds, one seed's after the other's."""
        batch_size, seeds = self._config.batch_size, self._seeds
        if self._fixed:
            fixed = self._fixed[algorithm]
            draws = (np.random.default_rng([seed, turn]).integers(0, len(fixed), batch_size) for seed in seeds)
            return fixed[np.concatenate([*draws])]
        return sample_seeds(ALGORITHMS[algorithm], self._size(algorithm, turn), batch_size, seeds, turn)

    def _capacity(self, algorithm: str, num_nodes: int, longest: int) -> int:
        """Returns the rows of hints to make room for: as many as measured, or more in few stages.

        It depends on the step alone, not on what came before. Room beyond the longest trajectory changes a sum at most
        by rounding, but a resumed run should not even differ by that.
        """
        capacity = self._capacities.get((algorithm, num_nodes), FEWEST_ROWS)
        while capacity < longest:
            capacity = int(capacity * GROWTH) + 1
        return capacity

    def measure(
        self,
        steps: int,
        threads: int = 1,
        check: Callable[[], None] = lambda: None,
        keep: Callable[[MeasuredLengths], None] = lambda measured: None,
    ) -> None:
        """Measures the room that the trajectories of this many steps need, by making them all.

        Programs are compiled for that room. Making data is fast beside training on it, and a batch that needs more room
        than was thought would wait for a program of its own, which takes longer. `check` is called every now and then;
        what it raises ends the measuring. `keep` is given what was found so far, which `go_on_measuring` takes.
        """
        turns = range(min(-(-steps // len(self._config.algorithms)), MEASURED_TURNS))
        measured = self._measured
        pool = ThreadPoolExecutor(threads, thread_name_prefix="narkit-measure")
        try:
            for algorithm in self._config.algorithms:
                starts = range(measured.turns.get(algorithm, 0), len(turns), TURNS_AT_ONCE)
                parts = [turns[start : start + TURNS_AT_ONCE] for start in starts]
                longest = pool.map(functools.partial(self._longest, algorithm), parts)
                for part, found in zip(parts, longest, strict=True):
                    check()
                    measured.add(algorithm, len(part), found)
                    keep(measured)
        finally:
            pool.shutdown(cancel_futures=True)
        self._capacities = {
            (algorithm, num_nodes): needed
            for algorithm, rows in measured.rows.items()
            for num_nodes, needed in rows.items()
        }

    def go_on_measuring(self, measured: MeasuredLengths) -> None:
        """Takes the lengths that a process which was ended meanwhile had found."""
        self._measured = measured

    def _longest(self, algorithm: str, turns: range) -> dict[int, int]:
        """Returns the most rows that samples need, by their number of nodes."""
        if self._fixed:
            fixed = self._fixed[algorithm]
            return {fixed.num_nodes: int(fixed.lengths.max())}
        longest: dict[int, int] = {}
        for turn in turns:
            samples = self._samples(algorithm, turn)
            longest[samples.num_nodes] = max(longest.get(samples.num_nodes, 0), int(samples.lengths.max()))
        return longest

    def examples(self) -> list[TrainingBatch]:
        """Returns one batch for every program that training will need."""
        steps = range((1 if self._fixed else len(self._config.sizes)) * len(self._config.algorithms))
        first = {self.kind_of_batch(step): step for step in reversed(steps)}
        return [self.batch(step) for step in sorted(first.values())]

    def ahead(self, start: int, look_ahead: int, threads: int) -> Prefetcher[TrainingBatch]:
        """Iterates over the batches from step `start` on, made and moved to the device by worker threads."""
        return Prefetcher(lambda step: self.batch(step).on_device(self._place), start, look_ahead, threads)
