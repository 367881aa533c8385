"""docs/solving.md: its first command prints what the page shows; the examples are those of the code."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import narkit
from narkit.cli import app
from narkit.solve.examples import EXAMPLES
from narkit.solve.problem import MAX_NODES
from narkit.solve.problems import PROBLEMS

PAGE = (Path(__file__).parents[2] / "docs" / "solving.md").read_text()
COMMANDS = re.findall(r"^(narkit solve .*?)(?: +#.*)?$", PAGE, re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for example in EXAMPLES.values():
        for name, text in example.files.items():
            (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def output_of(command: str) -> str:
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_first_command_prints_what_the_page_shows(folder: Path) -> None:
    file, shown = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    (folder / "cities.csv").write_text(file)
    assert output_of(COMMANDS[0]) == shown  # if another network is the best by now, the page says so
    assert file == EXAMPLES["dijkstra"].files["cities.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS[1:])
def test_commands_run(command: str, folder: Path) -> None:
    output_of(command)


def test_every_algorithm_has_its_example_and_its_row() -> None:
    assert {example.command(name) for name, example in EXAMPLES.items()} <= set(COMMANDS)
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for name in narkit.ALGORITHMS:
        (row,) = [row for row in rows if f"`{name}`" in row.split("|")[1]]
        assert all(parameter in row.split("|")[2] for parameter in PROBLEMS[name].parameters)
    assert f"More than {MAX_NODES} nodes" in " ".join(PAGE.split())
