"""The commit that records name: it says whether the code that ran is that of the commit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import narkit
from narkit import machine

PACKAGE = Path(narkit.__file__).parent


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=tests", "-c", "user.email=tests", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def commit_in(root: Path, **variables: str) -> str:
    """What a copy of the package says about the repository that it lies in."""
    environment = {name: value for name, value in os.environ.items() if name != "NARKIT_COMMIT"}
    environment |= {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    command = [sys.executable, "-c", "from narkit import machine; print(machine.commit())"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package and a file beside it, in no repository yet."""
    shutil.copytree(PACKAGE, tmp_path / "src" / "narkit", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "README.md").write_text("")
    return tmp_path


def test_a_change_anywhere_in_the_package_shows(copy: Path) -> None:
    assert commit_in(copy) == "unknown"
    git(copy, "init", "--quiet")
    git(copy, "add", "README.md")
    git(copy, "commit", "--quiet", "--message", "another project's")
    assert commit_in(copy) == "unknown"  # the package only lies in that project's folder
    git(copy, "add", ".")
    git(copy, "commit", "--quiet", "--message", "the package")
    head = git(copy, "rev-parse", "HEAD")[:12]
    assert commit_in(copy) == head
    (copy / "README.md").write_text("no code")
    assert commit_in(copy) == head
    for changed in ("__init__.py", "models/network.py", "fused/common.cuh", "bench/train.py"):
        path = copy / "src" / "narkit" / changed
        content = path.read_text()
        path.write_text(content + "\n")
        assert commit_in(copy) == f"{head}+", changed
        path.write_text(content)
    (copy / "src" / "narkit" / "models" / "new.py").write_text("")
    assert commit_in(copy) == f"{head}+"
    assert commit_in(copy, NARKIT_COMMIT="0123abc") == "0123abc"


def test_the_device_has_the_processors_name_on_a_cpu() -> None:
    assert machine.device_name() == machine.cpu_model() != ""
