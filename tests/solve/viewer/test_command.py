"""`narkit view`: own instances and random ones become one HTML file."""

import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner, Result

import narkit
from narkit.cli import app
from narkit.data.eventful import eventful_run, readable_size
from narkit.spec import Kind, Stage, stage_of


def view(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["view", *arguments], env={"COLUMNS": "160", "NO_COLOR": "1"}, terminal_width=160)


def data_of(path: Path) -> dict:
    found = re.search(r'<script type="application/json" id="run">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("weights") / "dijkstra.safetensors"
    network = narkit.Reasoner("dijkstra", processor="team", hidden_size=8, key=jax.random.key(0))
    narkit.save(network, path)
    return str(path)


def test_own_instances_are_shown(tmp_path: Path, weights: str) -> None:
    (tmp_path / "roads.csv").write_text("from,to,km\nUlm,Bonn,40\nBonn,Kiel,20\nKiel,Jena,80\nUlm,Jena,120\n")
    out = tmp_path / "run.html"
    result = view(
        "dijkstra", "--edges", str(tmp_path / "roads.csv"), "--source", "Ulm", "--weights", weights, "--out", str(out)
    )
    assert result.exit_code == 0, result.output
    known = data_of(out)
    assert known["labels"] == ["Ulm", "Bonn", "Kiel", "Jena"]
    assert sorted(known["drawing"]["weights"]) == [20, 40, 80, 120]
    assert out.stat().st_size < 2_000_000


def test_random_instances_are_shown(tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = view("dijkstra", "--size", "4", "--seed", "3", "--weights", weights)
    assert result.exit_code == 0, result.output
    assert len(data_of(tmp_path / "dijkstra.html")["labels"]) == 4


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
