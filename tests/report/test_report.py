"""`narkit report`: the files of a report, and its page."""

import html
import json
import re
import shutil
import subprocess
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
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert sum(link.startswith("data:") for link in page.links) == 3
    assert "prefers-color-scheme: dark" in source and "<script" not in source and "url(" not in source
    assert set(paper.labels().values()) <= set(page.words)
    assert len(set(page.rows)) <= 4  # as many widths as there are tables


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


PROBE = """<script>addEventListener("load", () => {
  const luminance = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const page = luminance(getComputedStyle(document.body).backgroundColor);
  const contrast = element => {
    const ink = luminance(getComputedStyle(element).color);
    return (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
  };
  document.title = JSON.stringify({
    page,
    contrast: Math.min(...[...document.querySelectorAll("p, td, th, small, caption, a, li")].map(contrast)),
    pictures: [...document.images].map(image => image.naturalWidth),
    fetched: performance.getEntriesByType("resource").map(each => each.name).filter(name => !name.startsWith("data:")),
    tooWide: document.documentElement.scrollWidth > innerWidth,
    rows: [...document.querySelectorAll("table")].map(table => table.rows.length),
  });
})</script>"""


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 1400), ("light", 500)])
def test_the_page_in_chromium(written: Path, tmp_path: Path, scheme: str, width: int) -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert chromium, "expected chromium, chromium-browser or google-chrome on the path"
    copy = tmp_path / "index.html"
    copy.write_text((written / "index.html").read_text().replace("</body>", f"{PROBE}</body>"))
    preferred = {"dark": 0, "light": 1}[scheme]
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    options += [f"--window-size={width},900", f"--blink-settings=preferredColorScheme={preferred}", "--dump-dom"]
    done = subprocess.run([chromium, *options, copy.as_uri()], capture_output=True, text=True, timeout=120)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-2000:]
    found = json.loads(html.unescape(title[1]))
    assert (found["page"] < 0.1) == (scheme == "dark")
    assert found["contrast"] >= 4.5
    assert len(found["pictures"]) == 3 and min(found["pictures"]) > 300
    assert found["fetched"] == [] and not found["tooWide"]
    assert found["rows"] == [15, 36, 33, 34]
