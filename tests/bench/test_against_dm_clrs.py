"""The script that trains narkit and dm-clrs side by side: its half of narkit, and the table of docs/reproduction.md."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

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
    assert script.section(json.loads(script.STORED.read_text())) in PAGE.read_text()


def test_half_of_narkit(script: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "runs.json"
    small = ["--hidden-size", "4", "--seeds", "2", "--steps", "3", "--validate-every", "2", "--out", str(out)]
    one = ["--processors", "mpnn", "--algorithms", "bfs"]
    script.main(["--software", "narkit", *one, *small])
    (run,) = json.loads(out.read_text())["runs"]
    assert [len(seed) for seed in run["losses"]] == [len(seed) for seed in run["scores"]] == [2, 2]
    script.main(["--software", "narkit", *one, *small])  # it is there already
    assert json.loads(out.read_text())["runs"] == [run]
    with pytest.raises(SystemExit, match="expected runs with"):
        script.main(["--software", "narkit", *one, *small, "--steps", "4"])


def test_distances(script: ModuleType) -> None:
    """A curve of dm-clrs that is off by three of both spreads at one of two points."""
    ours = {"software": "narkit", "processor": "mpnn", "algorithm": "bfs", "validate_every": 5, "steps": 10}
    ours |= {"losses": [[2.0, 1.0], [4.0, 3.0]], "scores": [[0.5, 0.5], [0.5, 0.7]]}
    theirs = ours | {"software": "dm-clrs", "losses": [[2.0, 7.0], [4.0, 9.0]]}
    assert script.distances(ours, theirs, "losses") == pytest.approx([0.0, 3.0])
    stored = {"runs": [ours, theirs]}
    assert "1 of 2 training losses and 0 of 2 validation scores are more than 2 of both" in script.finding(stored)
    row = script.table(stored).splitlines()[-1]
    assert row == "|  | dm-clrs | 3.000 ± 1.414 | 8.000 ± 1.414 | 3.0 | 60.0 ± 14.1 | 0.0 |"


def test_a_page_without_a_place_for_it(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("nothing\n")
    with pytest.raises(SystemExit, match="expected the lines"):
        script.write_page(tmp_path / "page.md", {"runs": []})
    assert (tmp_path / "page.md").read_text() == "nothing\n"
