"""The endless training stream, made ahead by worker threads on the host."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from narkit.data.batch import Batch
from narkit.data.execution import check_size, sample
from narkit.spec import ALGORITHMS

T = TypeVar("T")

TRAINING_SIZES = (4, 7, 11, 13, 16)


@dataclass(frozen=True)
class TrainingStream:
    """Batches from the training distribution, one size per step, cycling through `sizes`.

    `batch(step)` is a pure function of the fields and the step: whichever thread makes a batch and wherever a run
    resumes, the batch is the same.
    """

    algorithm: str
    seed: int = 0
    sizes: tuple[int, ...] = TRAINING_SIZES
    batch_size: int = 32

    def __post_init__(self) -> None:
        entry = ALGORITHMS[self.algorithm]
        if not self.sizes:
            raise ValueError(f"training stream of {self.algorithm}: expected at least one size, got none")
        object.__setattr__(self, "sizes", tuple(self.sizes))
        for size in self.sizes:
            check_size(entry, size, self.batch_size)

    def size(self, step: int) -> int:
        """Returns the nominal size of a step's batch; the largest for algorithms that are trained at one size only."""
        sizes = ALGORITHMS[self.algorithm].training_sizes(self.sizes)
        return sizes[step % len(sizes)]

    def batch(self, step: int) -> Batch:
        return sample(self.algorithm, size=self.size(step), batch_size=self.batch_size, seed=self.seed, step=step)

    def ahead(self, start: int = 0, look_ahead: int = 16, threads: int = 2) -> Prefetcher[Batch]:
        """Returns an endless iterator over the batches from step `start` on; see `Prefetcher`."""
        return Prefetcher(self.batch, start, look_ahead, threads)


class Prefetcher(Iterator[T], Generic[T]):
    """Iterates over `make(start)`, `make(start + 1)`, ... in this order, made ahead of the consumer by worker threads.

    At most `look_ahead` results wait at a time. The compiled loops release the GIL, so threads help. An error in
    `make` is raised where its result would have come, and ends the iteration. Close it, or use it in a `with`
    statement; for several seeds at once, let `make` return a batch per stream:

        with Prefetcher(lambda step: [stream.batch(step) for stream in streams], start=1000) as batches:
            for batches_of_step in batches: ...
    """

    def __init__(self, make: Callable[[int], T], start: int = 0, look_ahead: int = 16, threads: int = 2):
        if start < 0 or look_ahead < 1 or threads < 1:
            raise ValueError(
                f"expected start >= 0, look_ahead >= 1 and threads >= 1, got {start}, {look_ahead} and {threads}"
            )
        self._make = make
        self._steps = itertools.count(start)
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="narkit-stream")
        self._waiting: deque[Future[T]] = deque()
        self._closed = False
        for _ in range(look_ahead):
            self._submit_next()

    def _submit_next(self) -> None:
        self._waiting.append(self._executor.submit(self._make, next(self._steps)))

    def __next__(self) -> T:
        if self._closed:
            raise StopIteration
        try:
            result = self._waiting.popleft().result()
        except BaseException:
            self.close()
            raise
        self._submit_next()
        return result

    def close(self) -> None:
        """Drops the results that wait and returns when the threads have ended. May be called more than once."""
        self._closed = True
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._waiting.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
