"""The README's Python runs, and its targets of make exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = README.split("```")[1::2]  # what stands between fences
SHELL = "".join(block for block in BLOCKS if block.startswith("\n"))


def test_python_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    data, reasoners = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(data, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("[[0 0 1]]")
    exec(compile(reasoners, "README.md", "exec"), {})
    scores, shape = capsys.readouterr().out.splitlines()
    assert scores.startswith("{'pi': ") and shape == "(5, 5, 8)"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make (\w+)", SHELL, re.MULTILINE)) <= targets
