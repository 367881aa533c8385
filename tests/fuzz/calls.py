"""Calls from Python to try: entry points with good arguments, and with arguments of the wrong kind."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import narkit
from narkit.data.splits import benchmark_set
from narkit.training.presets import preset

from .material import GIVEN, OUT

JUNK: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 1.5, float("nan"), float("inf"), "", "x", "bfs", "3", [], [1], [4, 7], {}, (),
    {"name": "id", "size": 4}, 10**9, 2**70, b"x", 3 + 4j, np.float32(2), np.int64(3), np.zeros(3), np.ones((3, 3)),
    np.array(["a"]), slice(0, 2), Ellipsis, ["bfs", "bfs"], range(3), np.array(None), lambda: 3, Path("nowhere"), "\0",
)  # fmt: skip
ANYTHING = st.one_of(
    st.sampled_from(JUNK), st.integers(), st.floats(), st.text(max_size=6), st.binary(max_size=4),
    st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=3)), max_size=4),
)  # fmt: skip

REFUSALS = (ValueError, TypeError, KeyError, IndexError, OSError, MemoryError)


@dataclass(frozen=True)
class Call:
    """A call in words, to be made, and whether it has to succeed."""

    words: str
    make: Callable[[], Any] = field(repr=False)
    good: bool
    entry: str


@functools.cache
def entry_points(folder: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Entry points by name, with good arguments."""
    import jax

    given, out = folder / GIVEN, folder / OUT
    weights = given / "records" / "mpnn" / "bfs.safetensors"
    key, reasoner = jax.random.key(0), narkit.load(weights)
    batch, graph = narkit.sample("bfs", size=4, batch_size=3), np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    config = narkit.TrainConfig(algorithms=("bfs",), steps=3, test=False)
    raw = narkit.load_split("bfs", "val")
    parts = {name: getattr(raw, name) for name in ("inputs", "hints", "outputs", "lengths")}
    probe = {"kind": "scalar", "meaning": "a weight", "classes": 0}

    def get(of: narkit.Batch, place: Any) -> Any:
        return of[place]

    return {
        "sample": (narkit.sample, {"algorithm": "quicksort", "size": 4, "batch_size": 2, "seed": 0, "step": 0}),
        "load_split": (narkit.load_split, {"algorithm": "minimum", "split": "val"}),
        "benchmark_set": (benchmark_set, {"algorithm": "bfs", "size": 4, "num_samples": 2, "seed": 0}),
        "run": (lambda algorithm, A, s: narkit.run(algorithm, A=A, s=s), {"algorithm": "bfs", "A": graph, "s": 0}),
        "transform": (narkit.transform, {"batch": raw, "seed": 0, "random_positions": True}),
        "Batch": (narkit.Batch, {"algorithm": "bfs", **parts}),
        "batch[]": (get, {"of": batch, "place": slice(0, 2)}),
        "TrainingStream": (narkit.TrainingStream, {"algorithm": "bfs", "seed": 0, "sizes": (4, 5), "batch_size": 2}),
        "Validation": (narkit.Validation, {"name": "id", "size": 4, "num_samples": 2, "seed": 1, "selects": True}),
        "TrainConfig": (narkit.TrainConfig, config.to_json()),
        "preset": (preset, {"name": "quick", "algorithms": "bfs", "steps": 3}),
        "train": (narkit.train, {"config": config, "out": None, "save_every": 1.0, "devices": 1, "threads": 1}),
        "Rule": (narkit.Rule, {"name": "mine", "validation": "id", "weights": "raw", "ties": "lowest_loss"}),
        "System": (narkit.System, {"name": "mine", "title": "Mine", "processor": "mpnn", "rule": "id", "seeds": 1}),
        "Reasoner": (
            narkit.Reasoner,
            {"algorithms": "minimum", "processor": "mpnn", "hidden_size": 4, "hints": "encoded", "key": key},
        ),
        "TripletEdgeAttention": (
            narkit.TripletEdgeAttention, {"hidden_size": 4, "num_heads": 1, "slope": 0.1, "key": key},
        ),
        "predict": (narkit.predict, {"reasoner": reasoner, "batch": batch, "reprediction": "soft", "keep_hints": True}),
        "evaluate": (narkit.evaluate, {"algorithm": "bfs", "predictions": batch.outputs, "batch": batch}),
        "save": (narkit.save, {"reasoner": reasoner, "path": out / "saved.safetensors", "dtype": "float32"}),
        "load": (narkit.load, {"weights": weights}),
        "RunRecord": (narkit.RunRecord.load, {"path": given / "records" / "mpnn" / "bfs.json"}),
        "solve": (
            lambda algorithm, keys: narkit.solve(algorithm, keys), {"algorithm": "quicksort", "keys": [3, 1, 2]},
        ),
        "solve a graph": (
            lambda algorithm, graph, source: narkit.solve(algorithm, graph, source=source),
            {"algorithm": "bfs", "graph": graph, "source": 0},
        ),
        "node": (narkit.node, probe), "edge": (narkit.edge, probe), "graph": (narkit.graph, probe),
        "constant": (narkit.constant, {"quantity": narkit.node("scalar", "a weight")}),
    }  # fmt: skip


def calls(folder: Path, good: bool) -> st.SearchStrategy[Call]:
    """A call with good arguments, or with one or two of another kind."""
    known = entry_points(folder)

    @st.composite
    def case(draw: st.DrawFn) -> Call:
        name = draw(st.sampled_from(sorted(known)))
        function, usual = known[name]
        changed: Mapping[str, Any] = {}
        if not good:
            which = draw(st.lists(st.sampled_from(sorted(usual)), min_size=1, max_size=2, unique=True))
            changed = {argument: draw(ANYTHING) for argument in which}
        said = ", ".join(f"{argument}={value!r}" for argument, value in changed.items())
        return Call(f"{name}({said[:300]})", functools.partial(function, **{**usual, **changed}), good, name)

    return case()
