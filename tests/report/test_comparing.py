"""`narkit compare`: two systems, two runs, and mistakes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from narkit.cli import app


@pytest.fixture(scope="module")
def results(write_grid, make_record, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_grid(tmp_path_factory.mktemp("results"), ["bfs", "dfs"])
    make_record("bfs", score=10.0, spread=0.5).save(folder / "paper/team/bfs.json")
    return folder


def command(*words: object) -> Result:
    options = {"COLUMNS": "160", "NO_COLOR": "1"}
    return CliRunner().invoke(app, ["compare", *map(str, words)], env=options, terminal_width=160)


def test_two_systems(results: Path) -> None:
    result = command("team", "triplet_gmpnn_ood_val", "--results", results)
    assert result.exit_code == 0, result.output
    row = next(line for line in result.output.splitlines() if line.strip().startswith("BFS"))
    assert "11.00 ± 0.79 (5)" in row and row.rstrip().endswith("▼")
    assert "On 2 algorithms A averages" in result.output and "lower on 1" in result.output


def test_two_runs_and_another_rule(results: Path) -> None:
    files = [results / "paper" / system / "bfs.json" for system in ("team", "triplet_gmpnn")]
    result = command(*files, "--rule", "id")
    assert result.exit_code == 0, result.output
    assert "On 1 algorithm A averages" in result.output and "(rule id)" in result.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tema", "team"], "did you mean 'team'"),
        (["team", "memnet"], "expected records of memnet, got none"),
        (["team", "triplet_gmpnn", "--rule", "odo"], "odo"),
        (["nowhere.json", "team"], "nowhere.json"),
    ],
)
def test_mistakes_are_explained(results: Path, words: list[str], expected: str) -> None:
    result = command(*words, "--results", results)
    message = " ".join(result.output.replace("│", " ").split())
    assert result.exit_code == 2 and "Traceback" not in message
    assert expected in message, message
