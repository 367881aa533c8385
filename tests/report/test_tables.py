"""Tables from records: what they show, what they leave out, and that their statistics are the paper's."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from narkit.errors import UnknownNameError
from narkit.report import paper, tables
from narkit.report.grid import ColumnScores, Grid, ResultsError, category_members, read_grid
from narkit.report.paper import Score
from narkit.report.rendering import Number, Table, as_csv, latex, markdown, text
from narkit.sweeps.systems import SYSTEMS

TEAM = SYSTEMS["team"]


@pytest.fixture(scope="module")
def complete(write_grid, tmp_path_factory) -> Grid:
    return read_grid(write_grid(tmp_path_factory.mktemp("complete")))


@pytest.fixture(scope="module")
def partial(write_grid, make_record, tmp_path_factory) -> Grid:
    """TEAM on four algorithms, of which one record is of too few steps, one is damaged, and one has a diverged seed."""
    folder = write_grid(tmp_path_factory.mktemp("partial"), ["bfs", "kmp_matcher", "naive_string_matcher"], ["team"])
    make_record("bfs", score=90.0, diverged=True).save(folder / "paper/team/bfs.json")
    make_record("dfs", steps=1000).save(folder / "paper/team/dfs.json")
    (folder / "paper/team/heapsort.json").write_text('{"format": 2, "config"')
    (folder / "paper/.running").mkdir()
    (folder / "paper/.running/quicksort.json").write_text("unfinished")
    return read_grid(folder)


def cell(table: Table, row: str, heading: str) -> Any:
    place = [heading.key for heading in table.headings].index(heading)
    return next(each.entries[place] for each in table.rows if each.key == row)


def seeds_with(score: Score) -> np.ndarray:
    """Five scores with exactly this mean and this standard deviation of a sample."""
    assert score.std is not None
    return score.mean + score.std * np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) / math.sqrt(2.5)


def test_the_papers_spreads_are_those_of_samples() -> None:
    """The category spreads of TEAM follow from its rows; with population spreads they would not."""
    team = ColumnScores({name: seeds_with(score) for name, score in paper.algorithm_scores("team").items()})
    for category, published in paper.category_scores("team").items():
        ours = team.category(category)
        assert ours is not None and ours.std is not None and published.std is not None
        assert abs(ours.std - published.std) < 0.02, category
    strings = np.concatenate([team.runs[name] for name in category_members()["strings"]])
    assert abs(np.std(strings) - 25.05) > 1.0


def test_the_papers_summaries_follow_from_its_rows() -> None:
    for name in ("triplet_gmpnn", "triplet_gmpnn_ood_val", "team"):
        scores = ColumnScores({row: seeds_with(score) for row, score in paper.algorithm_scores(name).items()})
        summary = paper.summary(name)
        average, of_categories = scores.average(), scores.average_of_categories()
        assert average is not None and of_categories is not None and summary.average_of_algorithms is not None
        assert abs(average.mean - summary.average_of_algorithms) < 0.0051
        assert abs(of_categories.mean - summary.average_of_categories) < 0.0051
        assert (scores.above(90), scores.above(50)) == (summary.above_90, summary.above_50)


def test_the_two_misprints_of_the_paper_are_as_described() -> None:
    found = []
    for name in ("triplet_gmpnn", "triplet_gmpnn_ood_val", "team"):
        rows = paper.algorithm_scores(name)
        for category, printed in paper.category_scores(name).items():
            mean = float(np.mean([rows[member].mean for member in category_members()[category]]))
            found += [(name, category, round(mean, 2))] if abs(mean - printed.mean) > 0.011 else []
    assert found == [("triplet_gmpnn_ood_val", "geometry", 89.38), ("team", "graphs", 81.86)]


def test_every_table_knows_the_thirty() -> None:
    assert sum(map(len, category_members().values())) == len(paper.labels()) == 30
    assert [len(members) for members in category_members().values()] == [1, 3, 3, 12, 2, 3, 4, 2]
    assert set(paper.parameter_ratios()) == set(paper.labels())


def test_a_complete_column(complete: Grid) -> None:
    table = tables.algorithm_table(complete)
    record = complete.cells["team", "bfs"]
    seeds = record.test_scores("bfs", "ood")
    assert cell(table, "bfs", "team_ours") == Score(float(seeds.mean()), float(np.std(seeds, ddof=1)), 5)
    assert cell(table, "bfs", "team_paper") == Score(99.85, 0.09, 5)
    assert cell(table, "bfs", "team_difference") == Number(float(seeds.mean()) - 99.85, "{:+.2f}")
    means = {name: complete.cells["team", name].test_scores(name, "ood").mean() for name in paper.labels()}
    over_30, over_8 = (cell(table, row, "team_ours") for row in ("average_of_algorithms", "average_of_categories"))
    categories = [np.mean([means[name] for name in members]) for members in category_members().values()]
    assert over_30.mean == pytest.approx(np.mean(list(means.values())))
    assert over_8.mean == pytest.approx(np.mean(categories))
    assert abs(over_30.mean - over_8.mean) > 0.1  # they differ, so mixing them would show
    assert not {"algorithms_run", "average_of_those_run"} & {row.key for row in table.rows}  # nothing is missing


def test_the_spread_of_an_average_is_that_of_the_seeds_averages(complete: Grid) -> None:
    runs = complete.column(TEAM).runs
    average = complete.column(TEAM).average()
    assert average is not None
    assert average.std == pytest.approx(np.std(np.mean(list(runs.values()), axis=0), ddof=1))
    assert average.seeds == 5


def test_each_column_has_its_own_rule(complete: Grid) -> None:
    table, record = tables.algorithm_table(complete), complete.cells["triplet_gmpnn", "heapsort"]
    for column, rule in (("triplet_gmpnn", "id"), ("triplet_gmpnn_ood_val", "ood")):
        score = cell(table, "heapsort", f"{column}_ours")
        assert score.mean == pytest.approx(record.test_scores("heapsort", rule).mean())
    appendix = tables.rule_table(complete)
    for rule in record.rules:
        score = cell(appendix, "heapsort", f"triplet_gmpnn_{rule}")
        assert score.mean == pytest.approx(record.test_scores("heapsort", rule).mean())


def test_ranks_and_counts(complete: Grid) -> None:
    table = tables.category_table(complete)
    assert [text(cell(table, "average_rank", f"{column.name}_paper")) for column in complete.columns] == [
        "5.38", "4.75", "4.63", "2.38", "2.25", "1.63",
    ]  # fmt: skip
    ranks = tables.average_ranks(complete)
    assert set(ranks) == {"triplet_gmpnn", "triplet_gmpnn_ood_val", "team"}
    assert all(1 <= rank <= 6 and rank * 8 == int(rank * 8) for rank in ranks.values())
    assert cell(table, "above_90", "team_ours").value == complete.column(TEAM).above(90)
    assert cell(table, "above_50", "team_difference").pattern == "{:+.0f}"


def test_columns_without_records_show_the_paper_alone(complete: Grid) -> None:
    keys = [heading.key for heading in tables.category_table(complete).headings]
    assert "memnet_paper" in keys and "memnet_ours" not in keys
    assert not any("memnet" in heading.key for heading in tables.algorithm_table(complete).headings)


def test_other_systems_get_their_columns_once_they_are_run(write_grid, tmp_path: Path) -> None:
    grid = read_grid(write_grid(tmp_path, ["bfs"], ["mpnn"]), "paper")
    table = tables.algorithm_table(grid)
    assert cell(table, "bfs", "mpnn_paper") is None  # the paper has it by category only
    assert cell(table, "bfs", "mpnn_ours").seeds == 5
    assert cell(tables.category_table(grid), "strings", "mpnn_paper").mean == 3.21


def test_missing_cells_are_missing(partial: Grid) -> None:
    table = tables.algorithm_table(partial)
    assert cell(table, "dfs", "team_ours") is None and cell(table, "dfs", "team_difference") is None
    for row in ("average_of_algorithms", "average_of_categories"):
        assert cell(table, row, "team_ours") is None
    assert text(cell(table, "algorithms_run", "team_ours")) == "3 of 30"
    run = ["bfs", "kmp_matcher", "naive_string_matcher"]
    assert cell(table, "average_of_those_run", "team_paper").mean == pytest.approx((99.85 + 62.59 + 99.90) / 3)
    ours = np.mean([partial.cells["team", name].test_scores(name, "ood").mean() for name in run])
    assert cell(table, "average_of_those_run", "team_ours").mean == pytest.approx(ours)
    categories = tables.category_table(partial)
    assert cell(categories, "strings", "team_ours") is not None  # both of its algorithms were run
    assert cell(categories, "graphs", "team_ours") is None
    assert cell(categories, "above_90", "team_ours") is None and cell(categories, "average_rank", "team_ours") is None
    assert "| DFS | 47.79 ± 4.19 | – | – |" in markdown(table)
    assert "| DFS | 47.79 ± 4.19 | not run yet | – |" in markdown(table, not_run="not run yet")


def test_what_does_not_follow_the_preset_is_left_out_and_named(partial: Grid) -> None:
    reasons = {left.path: left.reason for left in partial.left_out}
    assert set(reasons) == {"team/dfs.json", "team/heapsort.json"}  # nothing of the folder with the dot
    assert "steps is 1000, not 10000" in reasons["team/dfs.json"]
    assert "cannot be read" in reasons["team/heapsort.json"]


@pytest.mark.parametrize(
    ("place", "options", "reason"),
    [
        ("team/bfs.json", {"system": "mpnn"}, "refuses it: is the record of mpnn/bfs, not of team/bfs"),
        ("team/dfs.json", {}, "refuses it: is the record of team/bfs, not of team/dfs"),
        ("mpnn/bfs.json", {"system": "mpnn"}, "the tables show mpnn by the preset clrs2022"),
        ("team/bfs.json", {"seeds": (0, 1, 2)}, "expected 5 seeds, got 3"),
        ("team/bfs.json", {"hidden_size": 64}, "hidden_size is 64, not 128"),
    ],
)
def test_reasons(make_record, tmp_path: Path, place: str, options: dict, reason: str) -> None:
    path = tmp_path / "paper" / place
    path.parent.mkdir(parents=True)
    make_record("bfs", **options).save(path)
    grid = read_grid(tmp_path)
    assert not grid.cells
    assert [reason in left.reason for left in grid.left_out] == [True], grid.left_out


def test_the_presets_own_folder_will_do(write_grid, tmp_path: Path) -> None:
    folder = write_grid(tmp_path, ["bfs"], ["team"])
    assert read_grid(folder / "paper").cells.keys() == read_grid(folder).cells.keys()
    assert read_grid(folder / "paper").digest == read_grid(folder).digest


def test_folders_without_records(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"expected records at .*SYSTEM/ALGORITHM\.json, found none"):
        read_grid(tmp_path)
    assert read_grid(tmp_path, empty=True).cells == {}
    with pytest.raises(ResultsError, match="got no such folder"):
        read_grid(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="got a file"):
        read_grid(tmp_path / "file")
    with pytest.raises(UnknownNameError, match="did you mean 'paper'"):
        read_grid(tmp_path, "papre")


def test_parameters(complete: Grid) -> None:
    table = tables.parameter_table()
    for name, ratio in paper.parameter_ratios().items():
        assert cell(table, name, "ratio_paper").value == ratio
        assert text(cell(table, name, "ratio_ours")) == f"{ratio:.2f}"
    assert cell(table, "bfs", "triplet_gmpnn_parameters").value == 523_963
    assert text(cell(table, "average", "ratio_ours")) == "1.25"


def test_csv_has_the_numbers(complete: Grid) -> None:
    rows = {row["algorithm"]: row for row in csv.DictReader(io.StringIO(as_csv(tables.algorithm_table(complete))))}
    score = complete.column(TEAM).algorithm("bfs")
    assert score is not None and score.std is not None
    assert float(rows["bfs"]["team_ours"]) == pytest.approx(score.mean)
    assert float(rows["bfs"]["team_ours_std"]) == pytest.approx(score.std, abs=1e-6)
    assert rows["bfs"]["team_ours_seeds"] == "5"
    assert rows["bfs"]["triplet_gmpnn_paper_seeds"] == ""  # the paper cites that column
    assert float(rows["bfs"]["team_difference"]) == pytest.approx(score.mean - 99.85)


@pytest.mark.parametrize("make", [tables.category_table, tables.algorithm_table, tables.rule_table])
def test_latex_is_well_formed(make, partial: Grid) -> None:
    table = make(partial)
    source = latex(table)
    assert source.count(r"\begin{") == source.count(r"\end{") == 2
    assert source.count("{") - source.count(r"\{") == source.count("}") - source.count(r"\}")
    body = source.split(r"\toprule")[1].split(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(lines) == len(table.rows) + 1
    for line in lines:
        assert line.replace(r"\&", "").count("&") == len(table.headings)
    assert "±" not in source and "–" not in source and "−" not in source


def test_markdown_is_rectangular(partial: Grid) -> None:
    for table in tables.all_tables(partial):
        counts = {line.count("|") for line in markdown(table).splitlines()}
        assert counts == {len(table.headings) + 2}


def test_numbers_that_round_to_zero_have_no_minus_sign() -> None:
    assert text(Number(-0.0004, "{:+.2f}")) == "+0.00"
    assert text(Number(-0.5, "{:+.2f}")) == "−0.50"
    assert text(Score(79.816, 1.2, 5)) == "79.82 ± 1.20 (5)"
    assert text(None) == "–"
