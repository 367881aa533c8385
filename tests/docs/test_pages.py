"""Every page's Python runs as it stands, block after block, in a folder that has the repository's results."""

import re
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import narkit

ROOT = Path(__file__).parents[2]
# These have tests of their own, since what they show becomes files or takes minutes.
ELSEWHERE = {"adding_an_algorithm.md", "your_processor.md", "training.md", "reporting.md"}
SLOW = {"kernels.md"}  # counts the steps of all thirty algorithms
BLOCK = re.compile(r"^```python(?P<options>[^\n]*)\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)
NEEDS_TORCH = 'title="needs torch"'


def blocks(path: Path, *, torch: bool) -> list[str]:
    found = BLOCK.finditer(path.read_text())
    return [match["code"] for match in found if (NEEDS_TORCH in match["options"]) == torch]


def pages(*, torch: bool) -> list[ParameterSet]:
    documents = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in ELSEWHERE]
    found = [path for path in documents if blocks(path, torch=torch)]
    slow = pytest.mark.slow
    return [
        pytest.param(path.relative_to(ROOT).as_posix(), marks=[slow] if path.name in SLOW else []) for path in found
    ]


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
    plain, torch = ([page.values[0] for page in pages(torch=torch)] for torch in (False, True))
    expected = {"docs/getting_started.md", "docs/guides/your_data.md", "docs/concepts/reasoner.md", "docs/kernels.md"}
    assert expected <= set(plain) and torch == ["docs/guides/other_frameworks.md"]


def test_what_runs_elsewhere_does() -> None:
    """The pages that are left out here are read by another test."""
    tests = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    for name in ELSEWHERE:
        assert any(f'"{name}"' in text or f"docs/{name}" in text for text in tests), name


def test_every_block_of_python_is_marked_as_such() -> None:
    """A block without a language that looks like Python would run nowhere."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for language, code in re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE):
            assert language or not re.search(r"^(import|from) \w+", code, re.MULTILINE), f"{path.name}: {code[:60]}"
