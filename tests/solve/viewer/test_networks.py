"""Networks in the viewer: their attention at every step, answers, and `narkit view` on own and random instances."""

import functools
import json
import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner, Result

import narkit
from narkit.cli import app
from narkit.data.execution import random_run
from narkit.models.network import DeviceBatch, first_values
from narkit.models.processors.team import TEAM
from narkit.solve.answer import Answer
from narkit.solve.viewer import run_of_answer
from narkit.solve.viewer.attention import attention_over_time

EDGES = [("Ulm", "Bonn", 40.0), ("Bonn", "Kiel", 20.0), ("Kiel", "Jena", 80.0), ("Ulm", "Jena", 120.0)]


@pytest.fixture(scope="module")
def network() -> narkit.Reasoner:
    return narkit.Reasoner("dijkstra", processor="team", hidden_size=8, key=jax.random.key(0))


@pytest.fixture(scope="module")
def answer(network: narkit.Reasoner) -> Answer:
    return narkit.solve("dijkstra", EDGES, source="Ulm", weights=network)


def view(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["view", *arguments], env={"COLUMNS": "160", "NO_COLOR": "1"}, terminal_width=160)


def data_of(path: Path) -> dict:
    found = re.search(r'<script type="application/json" id="run">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.fixture(scope="module")
def weights(network: narkit.Reasoner, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("weights") / "dijkstra.safetensors"
    narkit.save(network, path)
    return str(path)


def first_features(reasoner: narkit.Reasoner, batch: narkit.Batch) -> tuple:
    """The features of nodes, edges and the graph that the processor reads at the first step."""
    one = DeviceBatch.of(batch)
    network, bases = reasoner.bind(one.algorithm), reasoner.encoders[one.algorithm].bases(reasoner.spec(one.algorithm))
    reading = network.read(first_values(network, one))
    scalars = jax.tree.map(lambda values: values[0], reading.scalars(network.num_node_scalars, network.whole))
    return bases.node(scalars.node), bases.edge(scalars.edge), bases.graph(scalars.graph)


def test_attention_is_that_of_the_layer(network: narkit.Reasoner, answer: Answer) -> None:
    weights = attention_over_time(network, answer.instance, answer.predictions.hint_logits)
    assert weights is not None
    steps = int(answer.instance.lengths[0]) - 1
    assert weights.shape == (steps, 4, 4, 4)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    first = network.processor.attention.attention_weights(*first_features(network, answer.instance))  # type: ignore
    np.testing.assert_allclose(weights[0], np.asarray(first).mean(0), atol=1e-5)
    assert np.abs(weights[1] - weights[0]).max() > 1e-4  # it reads the hints of its step


def test_a_layer_that_reads_hidden_states_gets_those_of_its_step() -> None:
    truth = random_run("bfs", size=4, seed=1, density=0.8)
    reading = functools.partial(TEAM, reads="both")
    network = narkit.Reasoner("bfs", processor=reading, hidden_size=8, hints="none", key=jax.random.key(0))
    weights = attention_over_time(network, truth, {})
    assert weights is not None and len(weights) == int(truth.lengths[0]) - 1
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.abs(weights[1] - weights[0]).max() > 1e-6  # nothing else changes without hints


def test_attention_is_told_of_edge_pointers() -> None:
    truth = random_run("floyd_warshall", size=4, seed=1, density=0.8)
    plain = narkit.Reasoner("floyd_warshall", "team", 8, edge_pointers="lossless", key=jax.random.key(0))
    told = eqx.tree_at(lambda r: r.attention_terms["floyd_warshall"]["Pi_h"], plain, jnp.array([5.0, 0.0, 0.0]))
    before, after = (attention_over_time(network, truth, {}) for network in (plain, told))
    assert before is not None and after is not None
    pointers = truth.hints["Pi_h"][0, 0].astype(int)
    rows = np.arange(4)
    chosen = after[0][rows[:, None], rows, pointers]
    assert (chosen > before[0][rows[:, None], rows, pointers]).all() and (chosen > 0.8).all()


def test_other_networks_have_none() -> None:
    truth = random_run("bfs", size=4, seed=1, density=0.8)
    network = narkit.Reasoner("bfs", processor="mpnn", hidden_size=4, key=jax.random.key(0))
    assert attention_over_time(network, truth, {}) is None


def test_an_answer_is_shown_in_its_own_labels_and_units(answer: Answer, tmp_path: Path) -> None:
    run = run_of_answer(answer)
    assert run.labels == ("Ulm", "Bonn", "Kiel", "Jena")
    assert run.unit("d") == 128  # what the weights were divided by
    known = data_of(answer.view().save(tmp_path / "run.html"))
    assert sorted(known["drawing"]["weights"]) == [20, 40, 80, 120]
    assert known["attention"]["kept"] == run.num_steps - 1
    error = answer.first_error
    assert error is not None and known["firstError"] == {"step": error.step, "probe": error.hint}
    assert any("divided by 128" in note for note in known["notes"])


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
