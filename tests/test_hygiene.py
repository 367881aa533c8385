"""What no file of the repository may hold."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LARGEST = 2_000_000  # bytes
# Pieces, so that this file passes its own test.
FORBIDDEN = [
    re.compile("/" + r"(root|tmp|home|work)/\w"),
    re.compile("(pypi" + r"\.org|files\.python" + r"hosted)"),
    re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b"),
]


def tracked_files() -> list[Path]:
    try:
        command = ["git", "ls-files", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        return [path for folder in ("src", "tests", "docs") for path in (ROOT / folder).rglob("*") if path.is_file()]
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_is_large() -> None:
    """Weights of published networks, which lie among the results, may be."""
    elsewhere = [path for path in tracked_files() if ROOT / "results" not in path.parents]
    assert [path.name for path in elsewhere if path.stat().st_size > LARGEST] == []


@pytest.mark.parametrize("pattern", FORBIDDEN, ids=lambda pattern: pattern.pattern)
def test_nothing_forbidden_is_written(pattern: re.Pattern[str]) -> None:
    found = []
    for path in tracked_files():
        if path.suffix in {".py", ".md", ".toml", ".txt", ""} and path != Path(__file__):
            text = path.read_text(errors="ignore")
            found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in pattern.finditer(text)]
    assert found == []
