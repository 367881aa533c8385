"""Records made up for tests: real classes, scores that are chosen."""

import functools
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

from narkit.algorithms import ALGORITHMS
from narkit.report import paper
from narkit.spec import Stage, stage_of
from narkit.training.presets import number_of_seeds, preset
from narkit.training.progress import Divergence, Point, Timings
from narkit.training.record import Chosen, RunRecord
from narkit.training.rules import AVERAGED, RAW, Rule
from narkit.training.rules import rules as rules_of
from narkit.training.selection import Selection, Validated

OFFSETS = {"id": 0.0, "ood": 1.0, "id_first": -4.0, "ood_first": -2.0, "last": -1.0}
OFFSETS |= {"id_average": 2.0, "ood_average": 3.0, "last_average": 2.5}
"""What a rule adds to the score of a made-up run, in percent."""


@pytest.fixture(scope="session")
def make_record() -> Callable[..., RunRecord]:
    return _make_record


@pytest.fixture(scope="session")
def write_grid() -> Callable[..., Path]:
    return _write_grid


def _make_record(
    algorithm: str, system: str = "team", score: float = 80.0, spread: float = 2.0, diverged: bool = False, **options
) -> RunRecord:
    """A record of the preset `paper`; under the rule `id` the seeds score `score` plus -2 to 2 times `spread`."""
    given = {"algorithms": (algorithm,), "processor": system, "seeds": tuple(range(number_of_seeds("paper")))} | options
    config = preset("paper", **given)
    rules, count = rules_of(config), len(config.seeds)
    steps = list(range(config.validate_every, config.steps + 1, config.validate_every))
    deviations = spread * np.linspace(-2, 2, count)
    outputs = stage_of(ALGORITHMS[algorithm].spec, Stage.OUTPUT)
    hints = [name for name, probe in ALGORITHMS[algorithm].transformed_spec.items() if probe.stage is Stage.HINT]
    names = [v.name for v in config.validations]
    curve = [_point(step, score, deviations, names, config.averages) for step in steps]
    lost = [Divergence(config.seeds[-1], 4321, algorithm, 16)] if diverged else []
    test = {
        rule: [
            {name: s for name in (*outputs, "score")}
            for s in np.clip((score + OFFSETS[rule] + deviations) / 100, 0, 1).tolist()
        ]
        for rule in rules
    }
    return RunRecord(
        config=config,
        rules=rules,
        selected=_selected(rules, curve, np.array([bool(lost) and seed == lost[0].seed for seed in config.seeds])),
        test={algorithm: test},
        test_hints={algorithm: {rule: [{hints[0]: 0.9}] * count for rule in rules}},
        curve=curve,
        diverged=lost,
        steps=config.steps,
        parameters=600_000,
        timings=Timings(30.0, 4.0, 200.0, 20.0, 3.0, 7.0, 12),
        waiting_share=0.02,
        compiling_share=30.0 / 260.0,
        versions={"python": "3.12.1", "narkit": "0.1.0", "jax": "0.11.2"},
        commit="0123456789ab",
        device="NVIDIA H200",
        peak_memory=2**33,
        measured={"test": True, "hints": True, "peak_memory": True},
        finished_at="2025-01-02T03:04:05+00:00",
        preset="paper",
    )


def _selected(rules: Mapping[str, Rule], curve: list[Point], lost: np.ndarray) -> dict[str, Chosen]:
    """What the rules choose on a curve, where a seed that is lost is so from step 4321 on."""
    nothing = np.zeros((len(lost), 1))
    selection = Selection.start(rules, nothing)
    for point in curve:
        parts = [{name: np.array(row) for name, row in part.items()} for part in point.of(RAW)]
        found = Validated(nothing, *parts)
        validated: dict[str, Validated] = {RAW: found, AVERAGED: found}  # both score the same
        selection.update(point.step, validated, ~lost | (point.step <= 4321))
    return {rule: Chosen(selection.steps[rule], selection.scores[rule]) for rule in rules}


def _point(step: int, score: float, deviations: np.ndarray, names: list[str], averages: bool) -> Point:
    learnt = 1 - np.exp(-step / 1500)
    scores = {name: np.clip((score + 2 * deviations) / 100 * learnt, 0, 1).tolist() for name in names}
    averaged = (scores, scores) if averages else ({}, {})
    return Point(step, (1.2 - learnt + 0 * deviations).tolist(), scores, scores, *averaged)


def _write_grid(
    folder: Path, algorithms: Iterable[str] | None = None, systems: Iterable[str] = ("team", "triplet_gmpnn")
) -> Path:
    """Records near the paper's scores under `folder/paper`, by default of all thirty algorithms."""
    for system in systems:
        (folder / "paper" / system).mkdir(parents=True, exist_ok=True)
        published = paper.algorithm_scores(system)
        for place, name in enumerate(algorithms or paper.labels()):
            score = min(97.0, published[name].mean if published else 50.0) + (place % 5 - 2) * 0.5
            (folder / "paper" / system / f"{name}.json").write_bytes(_saved_record(name, system, score))
    return folder


@functools.cache
def _saved_record(algorithm: str, system: str, score: float) -> bytes:
    """The file of a record. Many tests begin with the same ones, and making them takes longer than most of what these
    tests look at."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        _make_record(algorithm, system, score, spread=0.5).save(path)
        return path.read_bytes()
