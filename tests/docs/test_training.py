"""The commands in docs/training.md exist, with their options, and so do the names that its Python uses."""

import ast
import dataclasses
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

import narkit
from narkit.cli import app
from narkit.experiments.presets import PRESETS
from narkit.training.run_directory import CHECKPOINTS, CONFIG, LOCK, METRICS, RECORD

TEXT = (Path(__file__).parents[2] / "docs" / "training.md").read_text()


@pytest.mark.parametrize("line", re.findall(r"^(narkit .*)$", TEXT, re.MULTILINE))
def test_commands_parse(line: str) -> None:
    name, *words = shlex.split(line, comments=True)[1:]
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    command.make_context(name, words)


def test_python_names_what_there_is() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    options = {
        keyword.arg for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) for keyword in node.keywords
    }
    fields = {field.name for field in dataclasses.fields(narkit.TrainConfig)}
    assert options <= fields | {"out", "rule", "seed"}
    attributes = {node.attr for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)}
    assert all(hasattr(narkit, name) or hasattr(narkit.RunRecord, name) for name in attributes - {"experiments"})


def test_presets_and_files_are_described() -> None:
    for name in (*PRESETS, CONFIG, METRICS, RECORD, LOCK, f"{CHECKPOINTS}/"):
        assert f"`{name}`" in TEXT
