"""`narkit report`: the files of a report, and its page."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jax
import matplotlib.image
import numpy as np
import pytest
from typer.testing import CliRunner, Result

import narkit
from narkit.cli import app
from narkit.report import figures, paper, writing
from narkit.report.grid import Grid, read_grid
from narkit.report.page import DARK, diagram, parts
from narkit.report.rendering import Heading, Score, Table, TableRow
from narkit.report.statistics import Ranking
from narkit.report.training_pictures import ON_DARK, ON_LIGHT

from ..solve.viewer.chromium import Chromium

VOID = {"meta", "img", "br", "link", "hr", "input"}


@pytest.fixture(scope="module")
def grid(write_grid, make_record, tmp_path_factory) -> Grid:
    """Some cells of both systems, one with weights, one with a diverged seed, one that does not count."""
    folder = write_grid(tmp_path_factory.mktemp("results"), ["bfs", "heapsort", "segments_intersect"])
    make_record("dfs", diverged=True).save(folder / "paper/team/dfs.json")
    make_record("quicksort", batch_size=16).save(folder / "paper/team/quicksort.json")
    reasoner = narkit.Reasoner("bfs", "team", hidden_size=8, key=jax.random.key(0))
    narkit.save(reasoner, folder / "paper/team/bfs.safetensors", dtype="bfloat16")
    return read_grid(folder)


@pytest.fixture(scope="module")
def written(grid: Grid, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("report") / "report"
    files = writing.write_report(grid, out)
    assert sorted(files) == sorted(out.iterdir())
    return out


class Page(HTMLParser):
    """Checks that tags close, and collects what a page refers to."""

    def __init__(self, source: str):
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.rows: list[int] = []
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [value or "" for name, value in given.items() if name in ("src", "href")]
        self.ids += [given["id"] or ""] if "id" in given else []
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += int(given.get("colspan") or 1)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_every_table_in_every_format(written: Path) -> None:
    for name in ("table1", "table2", "table3", "appendix_rules"):
        for suffix in (".md", ".tex", ".csv"):
            assert (written / f"{name}{suffix}").stat().st_size > 500
    assert all(f"\\input{{{name}}}" in (written / "report.tex").read_text() for name in ("table1", "appendix_rules"))


def test_what_was_left_out_and_what_diverged_is_named(written: Path) -> None:
    for file in ("notes.md", "index.html"):
        words = (written / file).read_text()
        assert "team/quicksort.json: expected the options of the preset paper: batch_size is 16, not 32" in words
        assert "seed 4 of team on dfs, at step 4321" in words
        assert "0123456789ab" in words and "NVIDIA H200" in words


def test_the_page_needs_nothing_else(written: Path) -> None:
    source = (written / "index.html").read_text()
    page = Page(source)
    own = {path.name for path in written.iterdir()}  # links to the files beside it
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) or link in own for link in page.links)
    assert {"table1.csv", "table2.tex", "categories.svg"} <= set(page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert sum(link.startswith("data:") for link in page.links) == 3
    assert "prefers-color-scheme: dark" in source and "<script src" not in source and "url(" not in source
    assert set(paper.labels().values()) <= set(page.words)
    assert len(set(page.rows)) <= 5  # as many widths as there are tables, the heat map among them


def test_the_page_begins_with_what_was_found(written: Path) -> None:
    words = " ".join("".join(Page((written / "index.html").read_text()).words).split())
    beginning, end = words.split("Every system on every algorithm")
    assert "Highest so far" in beginning and "rows agree with the published ones" in beginning
    assert "1 seed diverged: team on dfs" in beginning and "1 record was left out" in beginning
    assert "0123456789ab" not in beginning and "0123456789ab" in end  # commits come last
    assert end.index("Provenance") < end.index("0123456789ab")


def test_own_systems_have_their_place(write_grid, make_record, tmp_path: Path) -> None:
    folder = write_grid(tmp_path / "results", ["bfs", "dfs"])
    for name in ("bfs", "dfs"):
        path = folder / "paper/gpgn" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        make_record(name, "gpgn", score=20.0, spread=0.5).save(path)
    writing.write_report(read_grid(folder), tmp_path / "report")
    page = Page((tmp_path / "report/index.html").read_text())
    words = " ".join("".join(page.words).split())
    assert "gpgn is significantly lower than" in words
    assert "gpgn (" in words  # in the diagram of ranks


def test_the_longest_title_fits_beside_the_ranks(grid: Grid) -> None:
    title = "A configuration of one's own with a long title"
    systems = tuple(replace(system, title=title) for system in grid.systems)
    ranking = Ranking({systems[0].name: 1.2, systems[-1].name: 1.8}, 30, 0.36)
    drawn = diagram(ranking, replace(grid, systems=systems))
    assert drawn["left"] > 7 * len(f"{title} (1.20)") and drawn["all"] - drawn["right"] == drawn["left"]
    assert drawn["right"] - drawn["left"] == 300


def test_differences_are_coloured_and_ranks_the_other_way_round(written: Path) -> None:
    from narkit.report.page import _tone
    from narkit.report.rendering import Heading, Number, TableRow

    difference, ratio = Heading("team_difference", "difference"), Heading("ratio_difference", "difference")
    row, ranks = TableRow("bfs", "BFS", []), TableRow("average_rank", "Average rank", [])
    assert [_tone(Number(value), difference, row) for value in (1.0, -1.0, 0.0)] == ["better", "worse", "even"]
    assert _tone(Number(-1.0), difference, ranks) == "better" and _tone(Number(1.0), ratio, row) == ""
    assert _tone(None, difference, row) == ""


def test_figures(grid: Grid, written: Path) -> None:
    for name in ("categories", "learning_curves", "attention"):
        picture = matplotlib.image.imread(written / f"{name}.png")
        assert picture.shape[1] > 1000 and picture.std() > 0.02  # not blank
        assert np.allclose(picture[0, 0], 1.0)  # an opaque white card
        assert figures.digest_of(written / f"{name}.png") == grid.digest
        drawing = (written / f"{name}.svg").read_text()
        assert "<text" in drawing and grid.digest in drawing
        assert "<dc:date>" not in drawing
    curves = (written / "learning_curves.svg").read_text()
    assert curves.count("not run yet") == 30 - 4
    assert "Triplet-GMPNN: not run" in curves  # depth-first search has TEAM alone
    chart = (written / "categories.svg").read_text()
    assert "1 of 3 run" in chart and "not run" in chart and "4 of 30 run" in chart


def test_every_colour_of_the_attention_reads_in_the_dark(written: Path) -> None:
    """Each turns with the page, or stands on a cell that keeps its colour."""
    drawing = (written / "attention.svg").read_text()
    used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", drawing))
    assert used <= {*DARK, ON_LIGHT, ON_DARK}, used - set(DARK)


def test_the_same_records_give_the_same_files(grid: Grid, written: Path, tmp_path: Path) -> None:
    figures.save(figures.category_chart(read_grid(grid.folder)), tmp_path / "categories", grid.digest)
    for name in ("categories.png", "categories.svg"):
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name


def test_a_report_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    result = command(tmp_path / "results", "--out", tmp_path / "report", "--empty")
    assert result.exit_code == 0, result.output
    page = Page((tmp_path / "report/index.html").read_text())
    assert any("no weights of TEAM" in words for words in page.words)
    assert (tmp_path / "report/learning_curves.svg").read_text().count("not run yet") == 30
    assert not (tmp_path / "report/attention.svg").exists()


def command(*arguments: object) -> Result:
    words = ["report", *map(str, arguments)]
    return CliRunner().invoke(app, words, env={"COLUMNS": "200", "NO_COLOR": "1"}, terminal_width=200)


def test_mistakes_are_explained(grid: Grid, tmp_path: Path) -> None:
    file, empty = tmp_path / "file.md", tmp_path / "empty"
    file.write_text("# nothing to replace\n")
    empty.mkdir()
    cases = [
        ([empty], "found none"),
        ([file], "expected a folder of results"),
        ([tmp_path / "nowhere"], "got no such folder"),
        ([grid.folder, "--validation", "oood"], "did you mean 'ood'?"),
        ([grid.folder, "--preset", "papr"], "did you mean 'paper'?"),
        ([grid.folder, "--out", file], "expected a folder to write the report to, got a file"),
        ([grid.folder, "--readme", file], "put the two lines where the generated part should stand"),
        ([grid.folder, "--readme", tmp_path / "none.md"], "No such file"),
        ([grid.folder, "--check"], "expected --readme or --results-page or --reproduction or --learning with it"),
        ([grid.folder, "--ruel", "id"], "No such option"),
    ]
    for arguments, expected in cases:
        result = command(*arguments)
        message = " ".join(result.output.replace("│", " ").split())
        assert result.exit_code == 2 and "Traceback" not in message
        assert expected in message, message
    assert file.read_text() == "# nothing to replace\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file.md"]


@pytest.mark.latex
def test_the_tables_compile(written: Path, tmp_path: Path) -> None:
    assert shutil.which("pdflatex"), "expected pdflatex on the path"
    for path in written.iterdir():
        shutil.copy(path, tmp_path)
    line = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "report.pdf").stat().st_size > 100_000
    assert "Overfull" not in (tmp_path / "report.log").read_text()


LOOK = """
  const luminance = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const plain = colour => { // whatever the colour is written in
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return { colour: `rgb(${r}, ${g}, ${b})`, seen: a > 0 };
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = plain(getComputedStyle(at).backgroundColor);
      if (found.seen) return luminance(found.colour);
    }
    return 1;
  };
  const contrast = element => {
    const ink = luminance(plain(getComputedStyle(element).color).colour), page = behind(element);
    return (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
  };
  const letters = [...document.querySelectorAll("p, td, th, small, caption, a, li, i, b, button, label")];
  const frames = [...document.querySelectorAll(".frame")];
  return {
    page: behind(document.body),
    contrast: Math.min(...letters.filter(element => element.offsetParent).map(contrast)),
    pictures: [...document.images].map(image => image.naturalWidth),
    fetched: performance.getEntriesByType("resource").map(each => each.name).filter(name => !name.startsWith("data:")),
    tooWide: document.documentElement.scrollWidth > innerWidth,
    framesTooWide: frames.some(frame => frame.getBoundingClientRect().right > innerWidth),
    cut: [...document.querySelectorAll("figure.table .frame")]
      .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.parentElement.id),
    rows: [...document.querySelectorAll("table")].map(table => table.rows.length),
    sticky: frames.filter(frame => frame.querySelector("tbody th")).map(frame => {
      frame.scrollLeft = 200;
      const [head, whole] = [frame.querySelector("tbody th"), frame].map(each => each.getBoundingClientRect().left);
      return Math.abs(head - whole) < 2;
    }),
  };
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 800, 1400])
def test_the_page_in_chromium(written: Path, browser: Chromium, scheme: str, width: int) -> None:
    browser.look(width, scheme=scheme)
    browser.open(written / "index.html")
    found = browser.do(LOOK)
    assert (found["page"] < 0.1) == (scheme == "dark")
    assert found["contrast"] >= 4.5
    assert len(found["pictures"]) == 3 and min(found["pictures"]) > 300
    assert found["fetched"] == [] and not found["tooWide"] and not found["framesTooWide"]
    assert found["rows"] == [31, 15, 36, 33, 34]
    assert all(found["sticky"])
    assert browser.errors() == []


def test_a_table_with_many_systems_is_shown_in_parts() -> None:
    groups = [(f"system {n}", ("paper", "ours", "difference")) for n in range(7)]
    headings = [Heading(f"{group}_{label}", label, group) for group, labels in groups for label in labels]
    cells = [Score(80.0, 10.0, 5) for _ in headings]  # 19 letters with their space, so 57 for a system
    table = Table("t", "T", "corner", headings, [TableRow("bfs", "BFS", cells)])
    shown = parts(table)
    assert [len(part.headings) for part in shown] == [9, 9, 3]  # of 212 letters; no system is torn apart
    assert [heading for part in shown for heading in part.headings] == headings
    assert [cell for part in shown for cell in part.rows[0].entries] == table.rows[0].entries
    assert parts(shown[0]) == [shown[0]]


@pytest.mark.browser
def test_tables_with_systems_of_ones_own_fit_a_screen(write_grid, make_record, browser: Chromium, tmp_path: Path):
    folder = write_grid(tmp_path / "results", list(paper.labels()))
    for system in ("gpgn", "gmpnn", "triplet_mpnn"):
        for name in paper.labels():
            (folder / "paper" / system).mkdir(exist_ok=True)
            make_record(name, system).save(folder / "paper" / system / f"{name}.json")
    writing.write_report(read_grid(folder), tmp_path / "report")
    browser.look(1400)
    browser.open(tmp_path / "report/index.html")
    found = browser.do(LOOK)
    assert found["cut"] == [] and all(found["sticky"])
    assert "continued" in browser.do("return document.body.textContent")


@pytest.mark.browser
def test_tables_of_the_papers_columns_fit_a_screen(browser: Chromium, tmp_path: Path) -> None:
    results = Path(__file__).parents[2] / "results"
    writing.write_report(read_grid(results), tmp_path / "report")
    browser.look(1400)
    browser.open(tmp_path / "report/index.html")
    assert browser.do(LOOK)["cut"] == []


@pytest.mark.browser
def test_the_heat_map_sorts_and_filters(written: Path, browser: Chromium) -> None:
    browser.look(1400)
    browser.open(written / "index.html")
    rows = "return [...document.querySelectorAll('.heat tbody tr')].filter(row => !row.hidden)"
    names, scores = f"{rows}.map(row => row.cells[0].textContent)", f"{rows}.map(row => +row.cells[1].dataset.sort)"
    choose = "const box = document.getElementById(arguments[0]); box.value = arguments[1]; box.dispatchEvent(new Event("
    assert len(browser.do(names)) == 30
    browser.click(".heat thead th:nth-child(2) button")
    assert browser.do(scores) == sorted(browser.do(scores), reverse=True)
    browser.click(".heat thead th:nth-child(2) button")
    assert browser.do(scores) == sorted(browser.do(scores))
    browser.do(f"{choose}'input'))", "filter-name", "sort")
    assert set(browser.do(names)) == {
        *("Bubble Sort", "Heapsort", "Insertion Sort", "Quicksort", "Topological Sort"),
    }
    assert browser.do("return document.getElementById('filter-count').textContent") == "5 of 30 algorithms"
    browser.do(f"{choose}'change'))", "filter-category", "graphs")
    assert browser.do(names) == ["Topological Sort"]
