"""The documentation site: strictly built, complete, and without a request to anywhere else.

`pytest -m site` builds it (extra `docs`), once for all its tests.
"""

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import narkit

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
    assert links.for_the_site("[the code](../src/narkit/spec.py)", "docs/x.md", "x.md", ROOT) == (
        "the code (`src/narkit/spec.py`)"
    )


def test_the_reference_names_everything(machinery: None) -> None:
    reference = importlib.import_module("reference_pages")
    page = reference.python_page()
    for name in narkit._MODULES:
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
