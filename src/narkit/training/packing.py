"""The batch of a training step, of all seeds, packed into one array.

Every array that is moved to a device costs the host tens of microseconds, however small it is, and what is moved along
with a step holds the device up. A batch has one or two dozen arrays, and the shortest steps take less than a
millisecond. So a batch is packed into one array, with what else changes from step to step, and the compiled step takes
it apart.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from narkit.data.batch import Batch
from narkit.models.network import AnyArray, DeviceBatch
from narkit.spec import ALGORITHMS, Stage

WORD = np.dtype(np.uint32)
ALIGNMENT = 4  # words: what a thread of a GPU reads at once
HEADER = ("step", "num_steps")  # words before the first array


class ArraySlot(NamedTuple):
    """The position of one array of a seed's batch among the words of the seed."""

    stage: Stage | None  # none for the lengths
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    start: int

    @property
    def end(self) -> int:
        return self.start + -(-math.prod(self.shape) * self.dtype.itemsize // WORD.itemsize)

    def read(self, words: Any) -> Any:
        """Returns the array of all seeds, from their words (seed, word). It shares a NumPy array's memory."""
        values = words[:, self.start : self.end].view(self.dtype)[:, : math.prod(self.shape)]
        return values.reshape(len(words), *self.shape)


class Layout(NamedTuple):
    """The positions of all arrays of a batch. A program is compiled for one layout."""

    algorithm: str
    num_nodes: int
    num_rows: int  # of hints
    slots: tuple[ArraySlot, ...]
    num_words: int  # of a seed

    @classmethod
    @functools.cache
    def of(cls, algorithm: str, num_nodes: int, num_rows: int, num_samples: int) -> Layout:
        """Returns the layout of batches with `num_samples` samples per seed."""
        slots, start = [], ALIGNMENT

        def add(stage: Stage | None, name: str, shape: tuple[int, ...], dtype: str) -> None:
            nonlocal start
            slots.append(ArraySlot(stage, name, shape, np.dtype(dtype), start))
            start = -(-slots[-1].end // ALIGNMENT) * ALIGNMENT

        add(None, "lengths", (num_samples,), "int32")
        for name, probe in ALGORITHMS[algorithm].transformed_spec.items():
            rows = (num_rows,) if probe.stage is Stage.HINT else ()
            add(probe.stage, name, (*rows, num_samples, *probe.shape(num_nodes)), probe.dtype)
        return cls(algorithm, num_nodes, num_rows, tuple(slots), start)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PackedBatch:
    """The batches of all seeds, with the number of the step and how many steps the processor takes."""

    words: AnyArray  # (seed, word)
    layout: Layout = field(metadata={"static": True})

    @property
    def step(self) -> Any:
        return self._header("step")

    @property
    def num_steps(self) -> Any:
        return self._header("num_steps")

    def _header(self, name: str) -> Any:
        return self.words[0, HEADER.index(name)].view(np.int32)

    def unpack(self) -> DeviceBatch:
        """Returns the batch, with a leading seed axis. It shares the memory of words that are a NumPy array."""
        stages: dict[Stage | None, dict[str, Any]] = {stage: {} for stage in (None, *Stage)}
        for slot in self.layout.slots:
            stages[slot.stage][slot.name] = slot.read(self.words)
        inputs, hints, outputs = stages[Stage.INPUT], stages[Stage.HINT], stages[Stage.OUTPUT]
        return DeviceBatch(self.layout.algorithm, inputs, hints, outputs, stages[None]["lengths"])


def with_num_steps(packed: PackedBatch, num_steps: int) -> PackedBatch:
    """Returns the same batch, not on the device yet, for another number of the processor's steps."""
    words = np.array(packed.words)
    words[:, HEADER.index("num_steps")] = num_steps
    return PackedBatch(words, packed.layout)


def pack(batch: Batch, *, num_seeds: int, num_rows: int, step: int) -> PackedBatch:
    """Packs a transformed batch of several seeds: equally many samples of each, one seed's after the other's.

    Hints get `num_rows` rows; no sample may be longer. The processor takes as many steps as the longest one needs.
    """
    num_steps = max(1, int(batch.lengths.max()) - 1)
    layout = Layout.of(batch.algorithm, batch.num_nodes, num_rows, len(batch) // num_seeds)
    words = np.zeros((num_seeds, layout.num_words), WORD)
    words[:, : len(HEADER)] = step, num_steps
    probes = {Stage.INPUT: batch.inputs, Stage.HINT: batch.hints, Stage.OUTPUT: batch.outputs}
    for slot in layout.slots:
        to = slot.read(words)
        values = batch.lengths if slot.stage is None else probes[slot.stage][slot.name]
        if slot.stage is Stage.HINT:
            rows = values[:num_rows]  # samples chosen from a large set may have much empty room of their own
            to[:, : len(rows)] = rows.reshape(-1, num_seeds, *slot.shape[1:]).swapaxes(0, 1)
        else:
            to[...] = values.reshape(to.shape)
    return PackedBatch(words, layout)
