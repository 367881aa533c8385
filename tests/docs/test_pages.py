"""Every page's Python runs as it stands, block after block, in a folder that has the repository's results."""

import re
from pathlib import Path

import pytest

import narkit

ROOT = Path(__file__).parents[2]
# These have tests of their own, since what they show becomes files or takes minutes; that about kernels needs a GPU.
ELSEWHERE = {"adding_an_algorithm.md", "models.md", "training.md", "reporting.md", "kernels.md"}
BLOCK = re.compile(r"^```python(?P<options>[^\n]*)\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)
NEEDS_TORCH = 'title="needs torch"'


def blocks(path: Path, *, torch: bool) -> list[str]:
    found = BLOCK.finditer(path.read_text())
    return [match["code"] for match in found if (NEEDS_TORCH in match["options"]) == torch]


def pages(*, torch: bool) -> list[str]:
    documents = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in ELSEWHERE]
    return [path.relative_to(ROOT).as_posix() for path in documents if blocks(path, torch=torch)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A place to write to, from which the repository's records can be read."""
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    known = dict(narkit.PROCESSORS)
    yield tmp_path
    narkit.PROCESSORS.clear()
    narkit.PROCESSORS.update(known)


@pytest.mark.parametrize("page", pages(torch=False))
def test_python_runs(page: str, folder: Path) -> None:
    names: dict = {"__name__": "page"}
    for code in blocks(ROOT / page, torch=False):
        exec(compile(code, page, "exec"), names)


@pytest.mark.torch
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", pages(torch=True))
def test_python_runs_with_torch(page: str, folder: Path) -> None:
    for code in blocks(ROOT / page, torch=True):
        exec(compile(code, page, "exec"), {})


def test_there_are_pages_to_run() -> None:
    assert {"docs/getting_started.md", "docs/guides/your_data.md", "docs/concepts/reasoner.md"} <= set(
        pages(torch=False)
    )
    assert pages(torch=True) == ["docs/guides/other_frameworks.md"]
