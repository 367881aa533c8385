"""Documents that are written from records: they follow from `results/`, and nobody can alter a score unseen."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from narkit.cli import app
from narkit.report import documents, figures, rendering, writing
from narkit.report.grid import measured, read_grid
from narkit.report.reproduction import agreements, reproduction_part, running_lines, union_length
from narkit.sweeps.systems import SYSTEMS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
DOCUMENTS = {
    writing.README: "README.md",
    writing.RESULTS_PAGE: "docs/results.md",
    writing.REPRODUCTION: "docs/reproduction.md",
}


@pytest.fixture(scope="module")
def original(write_grid, tmp_path_factory) -> Path:
    """A copy of the documents, up to date with records of its own."""
    folder = tmp_path_factory.mktemp("original")
    write_grid(folder / "results", ["bfs", "heapsort", "topological_sort"])
    (folder / "docs").mkdir()
    for name in DOCUMENTS.values():
        shutil.copy(ROOT / name, folder / name)
    assert check(folder) == 1
    writing.write(read_grid(folder / "results"), None, files(folder))
    assert check(folder) == 0
    return folder


@pytest.fixture
def repository(original: Path, tmp_path: Path) -> Path:
    """The same, for a test to spoil."""
    return shutil.copytree(original, tmp_path / "repository")


def files(repository: Path) -> dict[str, Path]:
    return {option: repository / name for option, name in DOCUMENTS.items()}


def check(repository: Path, *more: str) -> int:
    options = [word for pair in files(repository).items() for word in pair]
    words = [repository / "results", *options, "--check", *more]
    return CliRunner().invoke(app, ["report", *map(str, words)]).exit_code


def test_the_documents_follow_from_the_records() -> None:
    """If this fails: `narkit report results/` with --readme, --results-page and --reproduction (docs/reporting.md)."""
    assert writing.outdated(read_grid(RESULTS, empty=True), files(ROOT)) == []


@pytest.mark.parametrize("change", [0.03, 1e-9])
def test_an_altered_score_is_noticed(repository: Path, change: float) -> None:
    path = repository / "results/paper/team/bfs.json"
    values = json.loads(path.read_text())
    values["test"]["bfs"]["ood"][2]["score"] -= change
    path.write_text(json.dumps(values))
    problems = writing.outdated(read_grid(repository / "results"), files(repository))
    pictures = [f"docs/{documents.FIGURES}/{name}.png" for name in (documents.CATEGORIES, documents.CURVES)]
    assert [problem.removeprefix(f"{repository}/").split(":")[0] for problem in problems] == [
        "README.md",
        "docs/results.md",
        *pictures,
        "docs/reproduction.md",
    ]
    assert check(repository) == 1


def test_an_altered_document_is_noticed(repository: Path) -> None:
    for name, pattern, other in (
        ("docs/results.md", r"(\| BFS \|.*?) ± ", r"\g<1>9 ± "),
        ("README.md", r"(\| TEAM \|.*?) 79\.82", r"\g<1> 79.28"),
    ):
        file = repository / name
        written = file.read_text()
        file.write_text(f"{written}\nwords below\n")
        assert check(repository) == 0  # what is outside the marks is free
        file.write_text(re.sub(pattern, other, written, count=1))
        assert file.read_text() != written
        assert check(repository) == 1
        file.write_text(written)


def test_a_missing_record_or_figure_is_noticed(repository: Path) -> None:
    path = repository / "results/paper/team/bfs.json"
    text = path.read_bytes()
    path.unlink()
    assert check(repository) == 1
    path.write_bytes(text)
    assert check(repository) == 0
    picture = repository / "docs" / documents.FIGURES / f"{documents.CURVES}.png"
    assert figures.digest_of(picture) == read_grid(repository / "results").digest
    picture.unlink()
    assert check(repository) == 1


def test_what_was_not_run_is_said(tmp_path: Path) -> None:
    grid = read_grid(tmp_path, empty=True)
    assert documents.readme_part(grid).count("| not run yet |") == 3
    part = documents.results_part(grid)
    assert "nothing was run" in part and "60 of 60 cells are not run yet" in part
    assert part.count("| not run yet |") >= 90
    assert "![" not in part
    part = reproduction_part(grid)
    assert part.count("All thirty rows: not run yet.") == 3
    assert "agrees |" not in part and "differs |" not in part


def test_the_highest_averages_are_named(write_grid, tmp_path: Path) -> None:
    grid = read_grid(write_grid(tmp_path))
    averages = {column.title: grid.column(column).average() for column in grid.columns}
    ours = {title: average.mean for title, average in averages.items() if average is not None}
    best = max(ours, key=lambda title: ours[title])
    said = f"is {ours[best]:.2f}, of {best}; in the paper it is 79.82, of TEAM."
    assert said in documents.highest_averages(grid)
    assert said in documents.results_part(grid)
    assert f"Found: {best} is best, with {ours[best]:.2f}." in documents.readme_part(grid)


def test_a_column_that_is_not_complete_is_compared_on_what_it_has(write_grid, tmp_path: Path) -> None:
    folder = write_grid(tmp_path)
    (folder / "paper/team/dfs.json").unlink()
    grid = read_grid(folder)
    names = [name for name in grid.column(SYSTEMS["triplet_gmpnn"]).runs if name != "dfs"]
    means = {
        system: float(np.mean([grid.column(SYSTEMS[system]).runs[name].mean() for name in names]))
        for system in ("team", "triplet_gmpnn", "triplet_gmpnn_ood_val")
    }
    best = max(("triplet_gmpnn", "triplet_gmpnn_ood_val"), key=lambda system: means[system])
    ours = grid.column(SYSTEMS["team"]).average_of_those_run()
    assert ours is not None and ours.mean == pytest.approx(means["team"])
    said = f"TEAM has {rendering.text(ours)} on average over the 29 algorithms that it was run on, where "
    said += f"{SYSTEMS[best].title}, the best of the others there, has {means[best]:.2f}."
    assert f"So far {said}" in documents.readme_part(grid)


def test_the_reproduction_is_of_what_is_trained_by_published_protocols() -> None:
    grid = read_grid(ROOT / "results")
    first_row = documents.readme_part(grid).splitlines()[2]
    assert first_row.startswith("| TEAM+ |")  # what nobody has published leads
    assert "TEAM+" not in reproduction_part(grid)


def test_agreement_is_counted_in_the_papers_spreads(write_grid, make_record, tmp_path: Path) -> None:
    folder = write_grid(tmp_path, ["bfs"], ["team"])
    make_record("dfs", score=59.31 + 2 * 27.75 - 1.0 - 0.01, spread=0.1).save(folder / "paper/team/dfs.json")
    make_record("dijkstra", score=93.14 - 2 * 0.93 - 1.0 - 0.01, spread=2.0).save(folder / "paper/team/dijkstra.json")
    grid = read_grid(folder)
    rows = agreements(grid, SYSTEMS["team"])
    assert not rows["dijkstra"].agrees and abs(rows["dijkstra"].in_both_spreads) < 2
    assert rows["dijkstra"].in_paper_spreads == pytest.approx(-2.01, abs=0.01)
    part = reproduction_part(grid)
    assert "of the 3 rows that were run agree" in part
    assert "Dijkstra (−1.9)" in part
    assert "TEAM, id rather than id_first: +" in part
    assert "| TEAM, BFS | 4.3 | 3.3 | 0.5 | 0.3 | 0.1 | 2.0 % | NVIDIA H200 |" in part


@pytest.mark.parametrize(
    ("intervals", "length"),
    [
        ([], 0.0),
        ([(3, 5)], 2.0),
        ([(0, 4), (3, 6), (5, 7)], 7.0),
        ([(0, 1), (2, 4), (9, 10)], 4.0),
        ([(0, 10), (2, 3), (4, 5)], 10.0),
        ([(0, 10), (2, 3), (9, 12)], 12.0),
        ([(0, 2), (2, 3), (0, 2)], 3.0),
        ([(1, 1), (4, 5)], 1.0),
    ],
    ids=["none", "one", "overlapping", "disjoint", "contained", "contained and beyond", "touching, twice", "empty"],
)
def test_what_intervals_cover_counts_once(intervals: Sequence[tuple[float, float]], length: float) -> None:
    for order in permutations(intervals):
        assert union_length(order) == length


def test_cells_that_ran_at_the_same_time_count_once(make_record, tmp_path: Path) -> None:
    def save(algorithm: str, system: str, finished: str | None, **changes) -> list[str]:
        path = tmp_path / "paper" / system / f"{algorithm}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(make_record(algorithm, system), finished_at=finished, **changes).save(path)
        return running_lines(read_grid(tmp_path))

    minutes = make_record("bfs").timings.total / 60
    assert f"{minutes:.1f}" == "4.3"  # waiting is part of training; programs are no seconds
    assert save("bfs", "team", "2025-01-02T03:04:00+00:00") == [
        "TEAM: for 4.3 minutes at least one cell ran (1 in all)."
    ]
    save("dfs", "team", "2025-01-02T04:06:00+01:00")  # two minutes later, elsewhere
    assert save("dijkstra", "team", "2025-01-02T03:05:00") == [
        "TEAM: for 6.3 minutes at least one cell ran (3 in all)."
    ]
    save("heapsort", "team", None)  # a record that does not say when it finished is left out
    assert save("minimum", "team", "yesterday") == ["TEAM: for 6.3 minutes at least one cell ran (3 in all)."]
    for name in ("heapsort", "minimum"):
        save(name, "team", "2025-03-02T03:05:00+00:00", device="NVIDIA A100")
    assert save("bfs", "triplet_gmpnn", "2025-01-02T03:07:00+00:00") == [
        "Triplet-GMPNN: for 4.3 minutes at least one cell ran (1 in all).",
        "TEAM on NVIDIA A100: for 4.3 minutes at least one cell ran (2 in all).",
        "TEAM on NVIDIA H200: for 6.3 minutes at least one cell ran (3 in all).",
        "All systems on NVIDIA A100: for 4.3 minutes at least one cell ran (2 in all).",
        "All systems on NVIDIA H200: for 7.3 minutes at least one cell ran (4 in all).",
    ]
    assert "\n- All systems on NVIDIA H200: for 7.3 minutes" in reproduction_part(read_grid(tmp_path))


def test_a_document_needs_a_place(tmp_path: Path) -> None:
    for text in ("no marks\n", "<!-- results: begin -->\n", "<!-- results: begin -->\n<!-- results: end -->\n" * 2):
        with pytest.raises(documents.DocumentError, match="expected one line"):
            documents.with_part(text, "part\n", "command")
    written = documents.with_part(
        "a\n<!-- results: begin -->\nold\n<!-- results: end -->\nb\n", "new\n", "narkit report"
    )
    assert "old" not in written and "\nnew\n" in written and written.startswith("a\n") and written.endswith("\nb\n")
    assert documents.with_part(written, "new\n", "narkit report") == written


def test_the_python_of_the_page_about_reports_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/reporting.md").read_text(), re.DOTALL)
    exec(compile(code, "docs/reporting.md", "exec"), {})
    assert "| Topological Sort |" in capsys.readouterr().out


def test_cells_in_float32_stand_beside_the_grids_own(write_grid, make_record, tmp_path: Path) -> None:
    folder = write_grid(tmp_path, ["bfs", "dfs"], ["team"])
    assert "### Precision" not in reproduction_part(read_grid(folder))
    full = make_record("bfs", score=90.0, spread=2.0)
    how = {"kernels": "plain", "matmul_precision": "highest"}
    for name, record, versions in (
        ("bfs", full, how),
        ("dfs", make_record("dfs"), {}),  # with kernels
        ("dijkstra", make_record("dijkstra"), how),  # which the grid lacks
    ):
        path = folder / "float32/team" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(record, versions=record.versions | versions).save(path)
    part = reproduction_part(read_grid(folder)).split("### Precision")[1].split("### Time")[0]
    ours = rendering.text(measured(read_grid(folder).column(SYSTEMS["team"]).runs["bfs"]))
    assert f"| TEAM, BFS, rule ood | {ours} |" in part
    assert "TEAM, DFS" not in part and "TEAM, Dijkstra" not in part
    assert "- Left out: float32/team/dfs.json: not trained in float32." in part
    assert "- Left out: float32/team/dijkstra.json: the grid has no such cell to compare it with." in part
