"""The worked example in the documentation is executed as it stands, from a package of the user's own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding_an_algorithm.md").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's Python blocks as files; the first line of each is its name."""
    folder = tmp_path_factory.mktemp("user")
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL)
    assert [name for name, _ in blocks] == ["my_algorithms.py", "use_my_algorithms.py"]
    for name, code in blocks:
        (folder / name).write_text(code)
    return folder


def execute(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "120"}
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_the_example_runs(folder: Path) -> None:
    result = execute(folder, "use_my_algorithms.py")
    assert result.returncode == 0, result.stderr


def test_the_command_line_knows_the_algorithm(folder: Path) -> None:
    assert "narkit --import my_algorithms data show gnome_sort --size 4" in PAGE
    arguments = ("--import", "my_algorithms", "data", "show", "gnome_sort", "--size", "4")
    result = execute(folder, "-c", "from narkit.cli import main; main()", *arguments)
    assert result.returncode == 0, result.stderr
    assert "the node in front of which the gnome stands" in result.stdout


def test_the_example_sorts(folder: Path) -> None:
    check = """
import numpy as np, my_algorithms, narkit
for seed in range(20):
    keys = np.random.RandomState(seed).randint(0, 6, 9) / 6  # equal keys, too
    batch = narkit.run("gnome_sort", A=keys)
    pred, node, order = batch.outputs["pred"][0], None, []
    nodes = {int(p): i for i, p in enumerate(pred) if p != i}
    node = next(i for i, p in enumerate(pred) if p == i)
    while node is not None:
        order.append(node)
        node = nodes.get(node)
    assert keys[order].tolist() == sorted(keys), (keys, order)
    assert order == np.argsort(keys, kind="stable").tolist()
"""
    result = execute(folder, "-c", check)
    assert result.returncode == 0, result.stderr
