"""Memory for batches, in a model of an allocator that gives the smallest free piece, as that of JAX on GPUs does."""

from __future__ import annotations

import random

import pytest

from narkit.training.batch_memory import reserve_blocks, separators

LARGEST_PROGRAM = 20_000_000_000
PROGRAMS = [int(share * LARGEST_PROGRAM) for share in (0.02, 0.1, 0.4, 0.7, 1.0)]  # of five sizes, in turn
ARRAYS = (22_000_000, 5_000_000, 2_000_000, 1_000_000, 200_000, 10_000)  # of the largest batch
BATCHES = 24  # at most at a time


class Memory:
    """Free pieces by their beginning. The smallest one that holds an array is cut, and neighbours grow together."""

    def __init__(self, size: int):
        self.free = {0: size}

    def allocate(self, size: int) -> Piece:
        holding = [(length, start) for start, length in self.free.items() if length >= size]
        if not holding:
            raise MemoryError(size)
        length, start = min(holding)
        del self.free[start]
        if length > size:
            self.free[start + size] = length - size
        return Piece(self, start, size)


class Piece:
    """A part of the memory, until nobody holds it any more."""

    def __init__(self, memory: Memory, start: int, size: int):
        self.memory, self.start, self.size = memory, start, size

    def __del__(self) -> None:
        free, start, size = self.memory.free, self.start, self.size
        size += free.pop(start + size, 0)
        for before, length in list(free.items()):
            if before + length == start:
                start, size = before, length + size
        free[start] = size


def train(memory: Memory, steps: int = 500) -> int:
    """Steps until a program finds no place, where batches come and go while programs run."""
    rng = random.Random(0)

    def batch() -> list[Piece]:
        return [memory.allocate(int(rng.uniform(0.1, 1.0) * size)) for size in ARRAYS]

    batches = [batch() for _ in range(16)]
    for step in range(steps):
        try:
            program = memory.allocate(PROGRAMS[step % 5])
        except MemoryError:
            return step
        batches.append(batch())
        if len(batches) > rng.randrange(6, BATCHES):
            del batches[0]
        del program
    return steps


def test_programs_find_a_place_beside_reserved_blocks_and_not_without() -> None:
    size = int(1.1 * LARGEST_PROGRAM)
    assert train(Memory(size)) < 100
    memory = Memory(size)
    between = separators(sum(ARRAYS), BATCHES, memory.allocate)
    assert len(between) == BATCHES
    assert train(memory) == 500


def test_where_memory_is_not_counted_nothing_is_reserved() -> None:
    assert reserve_blocks(10**6, 24) == []


def test_memory_is_the_smallest_piece() -> None:
    memory = Memory(100)
    first, second, third = (memory.allocate(size) for size in (30, 5, 20))
    del first
    assert memory.allocate(40).start == 55
    assert memory.allocate(10).start == 0
    with pytest.raises(MemoryError):
        memory.allocate(60)
    del second, third
    assert memory.free == {0: 100}
