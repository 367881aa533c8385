"""The script that trains narkit and dm-clrs side by side: its half of narkit, and the table of docs/reproduction.md."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "against_dm_clrs.py"
PAGE = ROOT / "docs" / "reproduction.md"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("against_dm_clrs", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_has_what_the_runs_say(script: ModuleType) -> None:
    assert script.section(script.read(script.STORED)) in PAGE.read_text()


def test_half_of_narkit(script: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "points.jsonl"
    small = ["--hidden-size", "4", "--stretch", "2", "--out", str(out)]
    one = ["--software", "narkit", "--processors", "mpnn", "--algorithms", "bfs"]
    script.main([*one, *small, "--seeds", "1", "--steps", "3"])
    points = script.read(out)
    assert [(point["seed"], point["step"], point["stretch"]) for point in points] == [(1, 2, 2), (1, 3, 1)]
    script.main([*one, *small, "--seeds", "1", "--steps", "3"])  # it is there already
    assert script.read(out) == points
    script.main([*one, *small, "--seeds", "0,1", "--steps", "2"])  # of the other seed, and there it is long enough
    assert {(point["seed"], point["step"]) for point in script.read(out)} == {(1, 2), (1, 3), (0, 2)}


def test_run_that_was_begun_twice(script: ModuleType, tmp_path: Path) -> None:
    first, second = ({**point, "versions": {}} for point in points_of("narkit", [[2.0], [3.0]], [[0.5], [0.6]]))
    (tmp_path / "points.jsonl").write_text(
        "".join(json.dumps({**point, "seed": 0}) + "\n" for point in (first, second))
    )
    assert script.read(tmp_path / "points.jsonl") == [{**second, "seed": 0}]


def points_of(software: str, losses: list[list[float]], scores: list[list[float]]) -> list[dict[str, Any]]:
    """Points after 5 and 10 steps, of seeds of which some may have the first alone."""
    run = {"software": software, "processor": "mpnn", "algorithm": "bfs", "hidden_size": 8, "stretch": 5}
    return [
        {**run, "seed": seed, "step": step, "loss": loss, "score": score}
        for seed in range(len(losses))
        for step, loss, score in zip((5, 10), losses[seed], scores[seed], strict=False)
    ]


def test_distances(script: ModuleType) -> None:
    """A curve of dm-clrs that is off by three of both spreads at one of two points."""
    scores = [[0.5, 0.5], [0.5, 0.7]]
    points = points_of("narkit", [[2.0, 1.0], [4.0, 3.0]], scores)
    points += points_of("dm-clrs", [[2.0, 7.0], [4.0, 9.0]], scores)
    runs = script.by_run(points)
    ours, theirs = runs[8, "mpnn", "bfs", "narkit"], runs[8, "mpnn", "bfs", "dm-clrs"]
    assert script.distances(ours, theirs, "loss") == pytest.approx([0.0, 3.0])
    assert "1 of 2 training losses and 0 of 2 validation scores are more than 2 of both" in script.finding(runs)
    assert (
        script.table(runs, 8, "loss").splitlines()[-1] == "|  | dm-clrs | 3.000 ± 1.414 (2) | 8.000 ± 1.414 (2) | 3.0 |"
    )
    assert script.table(runs, 8, "score").splitlines()[-1] == "|  | dm-clrs | 50.0 ± 0.0 (2) | 60.0 ± 14.1 (2) | 0.0 |"


def test_seeds_that_went_less_far(script: ModuleType) -> None:
    """Where one of the two has a single seed, its number stands alone and is compared with nothing."""
    points = points_of("narkit", [[2.0, 1.0], [4.0, 3.0]], [[0.5, 0.5]] * 2)
    points += points_of("dm-clrs", [[2.0, 7.0], [4.0]], [[0.5, 0.5]] * 2)
    runs = script.by_run(points)
    assert script.table(runs, 8, "loss").splitlines()[-1] == "|  | dm-clrs | 3.000 ± 1.414 (2) | 7.000 (1) | 0.0 |"
    assert "0 of 1 training losses" in script.finding(runs)


def test_a_page_without_a_place_for_it(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("nothing\n")
    with pytest.raises(SystemExit, match="expected the lines"):
        script.write_page(tmp_path / "page.md", [])
    assert (tmp_path / "page.md").read_text() == "nothing\n"
