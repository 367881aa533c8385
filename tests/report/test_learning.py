"""The document about short runs: it follows from `results/evidence`, and these runs get into no table of the preset."""

import json
import re
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from narkit.cli import app
from narkit.cli.training_display import print_record
from narkit.report import paper, writing
from narkit.report.grid import read_grid
from narkit.report.learning import FREE, learning_part
from narkit.report.published import published
from narkit.report.rendering import text
from narkit.sweeps.checks import check_file, record_files

ROOT = Path(__file__).parents[2]
RESULTS, LEARNING = ROOT / "results", ROOT / "docs" / "learning.md"
EVIDENCE = RESULTS / "evidence"
ALGORITHMS = {"bfs", "minimum", "insertion_sort", "naive_string_matcher", "topological_sort", "dijkstra"}
SHORT = {"steps": 2000, "seeds": (0, 1, 2)}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of the document and its records, for a test to spoil."""
    shutil.copytree(EVIDENCE, tmp_path / "results/evidence")
    (tmp_path / "docs").mkdir()
    shutil.copy(LEARNING, tmp_path / "docs/learning.md")
    return tmp_path


def narkit_report(folder: Path, *words: str | Path) -> Result:
    return CliRunner().invoke(app, ["report", str(folder), *map(str, words)])


def check(repository: Path) -> int:
    return narkit_report(
        repository / "results/evidence", "--learning", repository / "docs/learning.md", "--check"
    ).exit_code


def test_the_document_follows_from_the_records() -> None:
    """If this fails: narkit report results/evidence/ --learning docs/learning.md"""
    assert writing.outdated(read_grid(EVIDENCE, free=FREE), {writing.LEARNING: LEARNING}) == []


def test_the_records_are_all_there_and_sound() -> None:
    grid = read_grid(EVIDENCE, free=FREE)
    assert set(grid.cells) == {(system, name) for system in ("team", "triplet_gmpnn") for name in ALGORITHMS}
    assert grid.left_out == ()
    assert all((record.steps, record.config.seeds) == (2000, (0, 1, 2)) for record in grid.cells.values())
    files = record_files(EVIDENCE)
    assert len(files) == 12
    assert [checked for checked in map(check_file, files) if checked.problems] == []


@pytest.mark.parametrize("change", [0.03, 1e-9])
def test_an_altered_score_is_noticed(repository: Path, change: float) -> None:
    assert check(repository) == 0
    path = repository / "results/evidence/team/dijkstra.json"
    values = json.loads(path.read_text())
    values["test"]["dijkstra"]["last"][1]["score"] += change
    path.write_text(json.dumps(values))
    assert check(repository) == 1


def test_an_altered_document_or_a_missing_record_is_noticed(repository: Path) -> None:
    document = repository / "docs/learning.md"
    written = document.read_text()
    document.write_text(f"{written}\nwords below\n")
    assert check(repository) == 0  # what is outside the marks is free
    document.write_text(written.replace("| TEAM, ood | 90.77 /", "| TEAM, ood | 93.77 /"))
    assert document.read_text() != written
    assert check(repository) == 1
    document.write_text(written)
    (repository / "results/evidence/triplet_gmpnn/bfs.json").unlink()
    assert check(repository) == 1
    assert narkit_report(repository / "results/evidence", "--learning", document).exit_code == 0
    assert check(repository) == 0
    assert "| TEAM, ood | 90.77 /" in document.read_text() and "11 records" in document.read_text()


def test_short_runs_enter_no_table_of_the_preset(write_grid, tmp_path: Path) -> None:
    assert read_grid(EVIDENCE).cells == {}
    assert {"steps is 2000, not 10000" in left.reason for left in read_grid(EVIDENCE).left_out} == {True}
    folder = write_grid(tmp_path / "results", ["bfs"])
    before = read_grid(folder)
    shutil.copytree(EVIDENCE, folder / "evidence")
    after = read_grid(folder)
    assert (after.digest, after.left_out, set(after.cells)) == (before.digest, (), set(before.cells))
    # Nor while there is no record of the preset yet.
    shutil.rmtree(folder / "paper")
    nothing = read_grid(folder, empty=True)
    assert (nothing.cells, nothing.left_out) == ({}, ())


@pytest.mark.parametrize("option", ["--out", "--readme", "--reproduction"])
def test_documents_of_the_preset_are_refused_beside_it(repository: Path, option: str) -> None:
    words = ("--learning", repository / "docs/learning.md", option, repository / "other")
    result = narkit_report(repository / "results/evidence", *words)
    assert result.exit_code == 2 and "nor another document with it" in re.sub(r"[\s│]+", " ", result.output)
    assert not (repository / "other").exists()


def test_only_steps_and_seeds_are_free(make_record, tmp_path: Path) -> None:
    folder = tmp_path / "runs/team"
    folder.mkdir(parents=True)
    make_record("bfs", **SHORT).save(folder / "bfs.json")
    make_record("dfs", batch_size=16, **SHORT).save(folder / "dfs.json")
    make_record("heapsort").save(folder / "heapsort.json")
    grid = read_grid(tmp_path / "runs", free=FREE)
    assert set(grid.cells) == {("team", "bfs"), ("team", "heapsort")}
    part = learning_part(grid)
    assert "- Left out: team/dfs.json: expected the options of the preset paper: batch_size is 16, not 32" in part
    assert "- 1 with 2,000 steps and the seeds 0, 1, 2;" in part
    assert "- 1 with 10,000 steps and the seeds 0, 1, 2, 3, 4;" in part


def test_what_a_row_shows(make_record, tmp_path: Path) -> None:
    folder = tmp_path / "runs/triplet_gmpnn"
    folder.mkdir(parents=True)
    make_record("bfs", "triplet_gmpnn", score=80.0, spread=1.0, diverged=True, **SHORT).save(folder / "bfs.json")
    part = learning_part(read_grid(tmp_path / "runs", free=FREE))
    scores = "| 79.00 / 81.00 / 83.00 | 81.00 ± 2.00 (3) | 2000 / 2000 / 2000 | 99.58 ± 0.19 (5) |"
    assert f"| Triplet-GMPNN, ood {scores}" in part
    assert "- Diverged: seed 2 of triplet_gmpnn on bfs, at step 4321" in part
    assert "| Triplet-GMPNN, BFS | 30.0 | 0.0 | 200.0 | 20.0 | 7.0 | 3.0 | 2.0 % | NVIDIA H200 |" in part
    assert "| id (size 16) | ood (size 32) | at step |" in part


def test_the_papers_value_stands_where_its_validation_was_the_same() -> None:
    cited, own = paper.algorithm_scores("triplet_gmpnn"), paper.algorithm_scores("triplet_gmpnn_ood_val")
    for name in ALGORITHMS:
        for rule in ("id", "id_first"):
            assert published("triplet_gmpnn", rule, name) == cited[name] and published("team", rule, name) is None
        for rule in ("ood", "ood_first"):
            assert published("triplet_gmpnn", rule, name) == own[name]
            assert published("team", rule, name) == paper.algorithm_scores("team")[name]
        assert published("team", "last", name) is None and published("triplet_gmpnn", "last", name) is None
    assert text(published("team", "ood", "dijkstra")) == "93.14 ± 0.93 (5)"


def test_nothing_run_is_said(tmp_path: Path) -> None:
    assert learning_part(read_grid(tmp_path, empty=True, free=FREE)) == "All runs: not run yet.\n"


def test_every_rule_stands_beside_the_papers_number_under_it(make_record) -> None:
    console = Console(record=True, width=200)
    print_record(console, make_record("dijkstra", "triplet_gmpnn", score=90.0, spread=2.0))
    lines = [line.split("│") for line in console.export_text().splitlines() if "│" in line]
    rows = {cells[1].strip(): cells[3].strip() for cells in lines}
    assert rows["id"] == rows["id_first"] == "96.05 ± 0.60"
    assert rows["ood"] == rows["ood_first"] == "93.87 ± 1.08 (5)"
    assert rows["last"] == "–"
