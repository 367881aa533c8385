"""`narkit compare`: two systems, two runs, and mistakes."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from narkit.cli import app
from narkit.report.comparing import SIGNS, ranks_in_words
from narkit.report.statistics import Ranking, rank


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
    words = " ".join(result.output.split())
    # Each is first once; 1.96 sqrt(2 * 3 / (6 * 2)) is critical.
    assert "Average ranks over 2 algorithms, 1 is best: A 1.50, B 1.50; critical difference 1.39" in words
    assert "ranks do not tell them apart" in words
    assert f"rank 1 {'─' * 20}AB{'─' * 19} 2" in words


def test_two_runs_and_another_rule(results: Path) -> None:
    files = [results / "paper" / system / "bfs.json" for system in ("team", "triplet_gmpnn")]
    result = command(*files, "--rule", "id")
    assert result.exit_code == 0, result.output
    assert "On 1 algorithm A averages" in result.output and "(rule id)" in result.output
    assert "Average ranks need two algorithms" in result.output


def test_it_fits_80_columns() -> None:
    options = {"COLUMNS": "80", "NO_COLOR": "1"}
    words = ["compare", "team", "triplet_gmpnn_ood_val", "--results", str(Path(__file__).parents[2] / "results")]
    result = CliRunner().invoke(app, words, env=options, terminal_width=80)
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.output.splitlines()]
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if line.endswith(tuple(SIGNS.values()))]
    assert len(rows) == 30 and any(line.startswith("Naive String Matcher ") for line in rows)  # none is broken in two


@pytest.mark.parametrize(("ranks", "critical", "axis", "verdict"), [
    ({"A": 1.0, "B": 2.0}, 0.36, f"A{'─' * 39}B", "A ranks significantly higher"),
    ({"A": 1.6, "B": 1.4}, 0.1, f"{'─' * 16}B{'─' * 7}A{'─' * 16}", "B ranks significantly higher"),
    ({"A": 1.45, "B": 1.55}, 0.36, f"{'─' * 18}A{'━' * 3}B{'─' * 18}", "ranks do not tell them apart"),
    ({"A": 1.5, "B": 1.5}, 0.36, f"{'─' * 20}AB{'─' * 19}", "ranks do not tell them apart"),
])  # fmt: skip
def test_ranks_on_their_axis(ranks: dict[str, float], critical: float, axis: str, verdict: str) -> None:
    sentence, line = ranks_in_words(Ranking(ranks, 30, critical))
    assert line == f"rank 1 {axis} 2" and sentence.endswith(f"so {verdict}.")


def test_the_verdict_is_that_of_the_page() -> None:
    """Both read the same ranking: of two systems the page's groups are what is joined here."""
    scores = {"A": {str(n): np.array([n + 1.0]) for n in range(9)}, "B": {str(n): np.array([n]) for n in range(9)}}
    ranking = rank(scores)
    assert ranking is not None and ranking.groups() == []
    assert "A ranks significantly higher" in ranks_in_words(ranking)[0]


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
