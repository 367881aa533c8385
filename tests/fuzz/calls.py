"""Calls from Python to try: entry points with arguments of the wrong kind."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import narkit
from narkit.data.splits import benchmark_set

JUNK: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 1.5, float("nan"), float("inf"), "", "x", "bfs", "3", [], [1], [4, 7], {}, (),
    {"name": "id", "size": 4}, 10**9, 2**70, b"x", 3 + 4j, np.float32(2), np.int64(3), np.zeros(3), np.ones((3, 3)),
    np.array(["a"]), slice(0, 2), Ellipsis, ["bfs", "bfs"], range(3), np.array(None), lambda: 3,
)  # fmt: skip

REFUSALS = (ValueError, TypeError, KeyError, IndexError, OSError)


def call(seed: int, number: int) -> tuple[str, Callable[[], Any]]:
    """A call, in words and to be made."""
    rng = random.Random(f"{seed}-call-{number}")

    def junk(usual: Any) -> Any:
        return usual if rng.random() < 0.5 else rng.choice(JUNK)

    name = rng.choice(["bfs", "minimum", "quicksort", junk("bfs")])
    size, count, value = junk(4), junk(2), junk(0)
    fields = [field for field in narkit.TrainConfig.__dataclass_fields__ if field != "algorithms"]
    field = rng.choice(fields)
    adjacency = junk(np.array([[0, 1], [1, 0]]))
    calls: list[tuple[str, Callable[[], Any]]] = [
        (f"sample({name!r}, {size!r}, {count!r}, {value!r})",
         lambda: narkit.sample(name, size=size, batch_size=count, seed=value)),
        (f"benchmark_set({name!r}, {size!r}, {count!r}, {value!r})", lambda: benchmark_set(name, size, count, value)),
        (f"load_split({name!r}, {value!r})", lambda: narkit.load_split(name, value if value != 0 else "val")),
        (f"TrainConfig({name!r}, {field}={value!r})", lambda: narkit.TrainConfig(**{"algorithms": name, field: value})),
        (f"Validation({name!r}, {size!r}, {count!r})", lambda: narkit.Validation(name, size, count)),
        (f"run('bfs', {adjacency!r}, {value!r})", lambda: narkit.run("bfs", A=adjacency, s=value)),
        (f"batch[{value!r}]", lambda: narkit.sample("bfs", size=4, batch_size=3)[value]),
        (f"transform({value!r})", lambda: narkit.transform(value)),
        (f"predict({value!r}, {size!r})", lambda: narkit.predict(value, size)),
        (f"TrainingStream({name!r}, {size!r}, {count!r})",
         lambda: narkit.TrainingStream(name, sizes=size, batch_size=count)),
        (f"load({value!r})", lambda: narkit.load(value)),
        (f"RunRecord.load({value!r})", lambda: narkit.RunRecord.load(value)),
    ]  # fmt: skip
    return rng.choice(calls)
