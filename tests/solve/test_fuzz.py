"""Whatever is given as an instance ends in an answer or in an `InstanceError`, and any outputs can be said plainly."""

import json
import random
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import narkit
from narkit.errors import InstanceError
from narkit.solve import prepare
from narkit.solve.answer import as_json
from narkit.solve.examples import EXAMPLES
from narkit.solve.problems import PROBLEMS

ATOMS: tuple[Any, ...] = (
    0, 1, -1, 2, 0.5, 1e300, -1e-300, float("nan"), float("inf"), None, "a", "b", "", "Ulm", True, b"x", (), [], {},
    10**30, "1", 3 + 2j, np.float32(2), np.int64(3),
)  # fmt: skip


class Garbage:
    """Values that may be instances."""

    def __init__(self, seed: int, files: list[str]):
        self.rng, self.files = random.Random(seed), files

    def several(self, most: int, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(self.rng.randrange(most))]

    def value(self, depth: int = 0) -> Any:
        rng = self.rng
        kind = rng.randrange(20) if depth < 4 else 0
        if kind < 6:
            return rng.choice(ATOMS)
        if kind < 10:
            return self.several(6, depth)
        if kind < 13:
            return tuple(self.several(5, depth))
        if kind < 14:
            return {rng.choice(["a", "b", 1, 2]): self.value(depth + 1) for _ in range(rng.randrange(4))}
        if kind < 15:
            return np.array([[rng.choice([0, 1, 2, 0.5, np.nan, np.inf, -1]) for _ in range(3)] for _ in range(3)])
        if kind < 16:
            return nx.gnp_random_graph(5, 0.5, seed=rng.randrange(99), directed=rng.random() < 0.5)
        if kind < 17:
            return rng.choice([*self.files, "nowhere.csv", ".", "/"])
        if kind < 19:
            edges = [(rng.choice("abcd"), rng.choice("abcd"), rng.choice([1, 2, 3, 0.5, -1, 0])) for _ in range(6)]
            return edges
        return [rng.choice([1, 2, 3.5, -1, 7]) for _ in range(6)]


def solve_without_a_network(algorithm: str, given: dict[str, Any], rng: np.random.RandomState) -> None:
    """Reads and runs the instance, and says the true outputs and random ones."""
    problem = PROBLEMS[algorithm]
    instance = prepare(algorithm, **given)
    batch = narkit.run(algorithm, **instance.arguments)
    outputs = {name: values[0] for name, values in batch.outputs.items()}
    truth = problem.plain(instance, outputs)
    assert problem.lines(instance, truth) and problem.is_as_good(instance, truth, truth)
    random_outputs = {
        name: rng.randint(0, batch.num_nodes if values.dtype == np.int16 else 2, values.shape).astype(values.dtype)
        for name, values in outputs.items()
    }
    plain = problem.plain(instance, random_outputs)
    assert problem.lines(instance, plain) and problem.is_as_good(instance, plain, truth) in (True, False)
    json.dumps(as_json(plain), allow_nan=False)


def try_many(seed: int, count: int, folder: Path) -> tuple[int, int]:
    for example in EXAMPLES.values():
        for name, text in example.files.items():
            (folder / name).write_text(text)
    garbage = Garbage(seed, [path.name for path in folder.iterdir()])
    solved = refused = 0
    for case in range(count):
        algorithm = garbage.rng.choice(sorted(PROBLEMS))
        given = {name: garbage.value() for name in PROBLEMS[algorithm].parameters}
        if "directed" in PROBLEMS[algorithm].options:
            given["directed"] = garbage.rng.choice([True, False, None, None])
        try:
            solve_without_a_network(algorithm, given, np.random.RandomState(case))
            solved += 1
        except InstanceError as error:
            assert len(str(error)) < 600 and "\n" not in str(error)
            refused += 1
    return solved, refused


def test_garbage_ends_in_an_answer_or_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    solved, refused = try_many(0, 300, tmp_path)
    assert solved > 3 and refused > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_much_garbage(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try_many(seed, 2000, tmp_path)
