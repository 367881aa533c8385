"""The documentation site: strictly built, complete, and without a request to anywhere else.

`pytest -m site` builds it (extra `docs`), once for all its tests; some of them need Chromium, too.
"""

import functools
import http.server
import importlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import narkit

from ..solve.viewer.chromium import Chromium

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def machinery(request: pytest.FixtureRequest) -> Iterator[None]:
    sys.path.insert(0, str(ROOT / "docs" / "_site"))
    yield
    sys.path.remove(str(ROOT / "docs" / "_site"))


def test_links_lead_to_the_sites_own_pages(machinery: None) -> None:
    links = importlib.import_module("links")
    text = (
        "See [a](training.md#seeds), [log](../benchmarks/LOG.md), [train.json](../benchmarks/train.json), [b](#c), "
        "[out](https://x)."
    )
    led = links.for_the_site(text, "docs/benchmarks.md", "benchmarks.md", ROOT)
    assert led == (
        "See [a](training.md#seeds), [log](measured/LOG.md), `benchmarks/train.json`, [b](#c), [out](https://x)."
    )
    assert links.for_the_site("[p](../training.md)", "docs/guides/x.md", "guides/x.md", ROOT) == "[p](../training.md)"
    assert links.for_the_site("[p](docs/training.md)", "CONTRIBUTING.md", "contributing.md", ROOT) == "[p](training.md)"
    fenced = "```\n[a](../benchmarks/LOG.md)\n```"
    assert links.for_the_site(fenced, "docs/x.md", "x.md", ROOT) == fenced
    assert links.for_the_site("[sweeps.md](sweeps.md)", "docs/x.md", "x.md", ROOT) == "[Sweeps](sweeps.md)"
    assert links.for_the_site("[the code](../src/narkit/spec.py)", "docs/x.md", "x.md", ROOT) == (
        "the code (`src/narkit/spec.py`)"
    )


def test_the_reference_names_everything(machinery: None) -> None:
    reference = importlib.import_module("reference_pages")
    page = reference.python_page()
    for name in (*narkit._MODULES, "solve", "solve.Answer"):
        assert f"heading: narkit.{name}\n" in page
    commands = reference.command_page()
    for words in ("narkit train", "narkit data export", "narkit sweep", "narkit report"):
        assert f"## {words}\n" in commands
    assert "| `--count` |" in commands and "narkit data export bfs --split test --out bfs.npz" in commands


def test_pages_of_algorithms_say_every_probe(machinery: None) -> None:
    pages = importlib.import_module("algorithm_pages")
    for name, entry in narkit.ALGORITHMS.items():
        text = "\n".join(pages._probes(entry))
        for probe_name, probe in entry.spec.items():
            row = next(line for line in text.splitlines() if line.startswith(f"| `{probe_name}` |"))
            assert probe.meaning[1:].rstrip(".") in row.replace("\\|", "|"), name
        assert pages._source(entry).startswith(f"def {name}(")
    assert sum(len(next(iter(group.values()))) for group in pages.navigation()) == len(narkit.ALGORITHMS)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a broken link, a missing anchor or a page that fails ends it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def written(site: Path) -> dict[str, str]:
    return {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}


@pytest.mark.site
def test_every_algorithm_has_its_page_and_picture(site: Path) -> None:
    for name in narkit.ALGORITHMS:
        text = (site / "algorithms" / f"{name}.html").read_text()
        assert all(f"<code>{probe}</code>" in text for probe in narkit.ALGORITHMS[name].spec)
        assert (site / "algorithms" / "images" / f"{name}.png").stat().st_size > 3000


@pytest.mark.site
def test_equations_are_drawn_by_the_browser(site: Path) -> None:
    text = (site / "concepts" / "triplet_edge_attention.html").read_text()
    assert text.count("<math") > 8 and "arithmatex" not in text
    assert '<svg role="img"' in text


@pytest.mark.site
def test_nothing_is_asked_for_elsewhere(site: Path) -> None:
    loaded = re.compile(r'<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)="((?:https?:)?//[^"]+)"')
    for name, text in written(site).items():
        assert [target for target in loaded.findall(text) if 'rel="canonical"' not in target] == [], name
    for path in (site / "stylesheets").rglob("*.css"):
        assert "url(" not in path.read_text()


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site as a web server on this machine shows it."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium


LOOK = """return {
  wide: document.documentElement.scrollWidth > innerWidth,
  asked: [location.href, ...performance.getEntriesByType("resource").map(each => each.name)],
  pictures: [...document.images].map(image => image.naturalWidth),
  cut: [...document.querySelectorAll("article pre > code")].filter(code => code.scrollWidth > code.clientWidth + 1)
    .map(code => code.textContent.trim().slice(0, 60)),
  dark: getComputedStyle(document.body).backgroundColor !== "rgb(255, 255, 255)",
}"""


@pytest.mark.site
@pytest.mark.browser
def test_a_browser_asks_nobody_else(site: Path, address: str, browser: Chromium) -> None:
    """Every page is opened, wide and narrow; it asks for nothing outside the site, and nothing is missing or cut."""
    for page in sorted(site.rglob("*.html")):
        name = page.relative_to(site).as_posix()
        if name == "404.html":
            continue
        browser.look(1400)
        browser.visit(f"{address}/{name}")
        found = browser.do(LOOK)
        assert found["cut"] == [], name
        asked = [url for url in found["asked"] if not url.startswith(("data:", "blob:"))]
        assert asked and all(url.startswith(address) for url in asked), (name, asked)
        assert all(found["pictures"]) and not found["wide"], name
        browser.look(400)
        assert not browser.do(LOOK)["wide"], name
        assert browser.errors() == [], name


@pytest.mark.site
@pytest.mark.browser
def test_equations_and_search_work(address: str, browser: Chromium) -> None:
    browser.look(1400)
    browser.visit(f"{address}/concepts/triplet_edge_attention.html")
    assert browser.do("return document.querySelector('math').getBoundingClientRect().width") > 5
    assert browser.do("return document.querySelector('svg.drawing').getBoundingClientRect().width") > 300
    browser.do("document.querySelector('#__search').click()")
    browser.do("document.querySelector('.md-search__input').focus()")
    browser.press(*"dijkstra")
    browser.wait("return [...document.querySelectorAll('.md-search-result__link')].length > 0", seconds=60)
    assert browser.errors() == []


@pytest.mark.site
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_telephone(address: str, browser: Chromium, scheme: str) -> None:
    browser.look(400, scheme=scheme)
    browser.visit(f"{address}/index.html")
    browser.do("localStorage.clear()")  # a reader who has not chosen a scheme yet
    for page in ("index", "results", "concepts/probes_and_hints", "algorithms/dijkstra", "reference/command_line"):
        browser.visit(f"{address}/{page}.html")
        found = browser.do(LOOK)
        assert not found["wide"], page
        assert found["dark"] == (scheme == "dark")
