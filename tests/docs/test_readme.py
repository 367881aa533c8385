"""The README's Python runs, and its commands exist."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from narkit.cli import app

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


@pytest.mark.parametrize("line", re.findall(r"^(?:\.venv/bin/)?(narkit .*)$", SHELL, re.MULTILINE))
def test_commands_parse(line: str) -> None:
    command, words = get_command(app), shlex.split(line, comments=True)[1:]
    while words and hasattr(command, "commands") and words[0] in command.commands:  # type: ignore[attr-defined]
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
    assert not hasattr(command, "commands"), f"{line!r} names no command"
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make (\w+)", SHELL, re.MULTILINE)) <= targets


def test_named_files_exist() -> None:
    for path in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / path).exists(), path
