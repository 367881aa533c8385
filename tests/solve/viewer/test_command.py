"""`narkit view`: mistakes are explained, and random instances are such that something happens."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import narkit
from narkit.cli import app
from narkit.data.eventful import eventful_run, readable_size
from narkit.spec import Kind, Stage, stage_of


def view(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["view", *arguments], env={"COLUMNS": "160", "NO_COLOR": "1"}, terminal_width=160)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["quicksort", "3", "1", "--size", "4"], "an instance of your own, or --size and --seed of a random one"),
        (["dijkstra", "--source", "Ulm"], "needs either --edges or --matrix"),
        (["bfs", "--size", "4", "--weights", "no/such"], "no network is named"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_explained(arguments: list[str], expected: str, tmp_path: Path) -> None:
    result = view(*arguments, "--out", str(tmp_path / "run.html"))
    assert result.exit_code == 2, result.output
    assert expected in " ".join(result.output.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", sorted(narkit.ALGORITHMS))
def test_something_happens_in_what_is_shown_by_default(name: str) -> None:
    batch = eventful_run(name, readable_size(name), density=0.7)
    assert batch.lengths[0] > 1
    for output, probe in stage_of(batch.spec, Stage.OUTPUT).items():
        values = batch.outputs[output][0]
        if probe.kind is Kind.MASK:
            assert (values == 1).any()
        elif probe.kind is Kind.POINTER and values.ndim == 1:
            assert (values != np.arange(len(values))).sum() >= 2
    changing = [hint for hint, values in batch.hints.items() if (values[:, 0] != values[:1, 0]).any()]
    moving = [hint for hint, probe in stage_of(batch.spec, Stage.HINT).items() if not probe.constant]
    assert len(changing) >= len(moving) - 2
