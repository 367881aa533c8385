"""The attention of a network over the steps of its run, and the page of an answer."""

import json
import re

import jax
import numpy as np
import pytest

import narkit
from narkit.data.execution import random_run
from narkit.models.network import first_features
from narkit.solve.answer import Answer
from narkit.solve.viewer import run_of, run_of_answer
from narkit.solve.viewer.attention import attention_over_time

EDGES = [("Ulm", "Bonn", 40.0), ("Bonn", "Kiel", 20.0), ("Kiel", "Jena", 80.0), ("Ulm", "Jena", 120.0)]


@pytest.fixture(scope="module")
def network() -> narkit.Reasoner:
    return narkit.Reasoner("dijkstra", processor="team", hidden_size=8, key=jax.random.key(0))


@pytest.fixture(scope="module")
def answer(network: narkit.Reasoner) -> Answer:
    return narkit.solve("dijkstra", EDGES, source="Ulm", weights=network)


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
    network = narkit.Reasoner("bfs", processor="team_plus", hidden_size=8, hints="none", key=jax.random.key(0))
    weights = run_of(truth, network).attention
    assert weights is not None and len(weights) == int(truth.lengths[0]) - 1
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.abs(weights[1] - weights[0]).max() > 1e-6  # nothing else changes without hints


def test_other_networks_have_none() -> None:
    truth = random_run("bfs", size=4, seed=1, density=0.8)
    network = narkit.Reasoner("bfs", processor="mpnn", hidden_size=8, key=jax.random.key(0))
    assert run_of(truth, network).attention is None


def test_an_answer_is_shown_in_its_own_labels_and_units(answer: Answer) -> None:
    run = run_of_answer(answer)
    assert run.labels == ("Ulm", "Bonn", "Kiel", "Jena")
    assert run.unit("d") == 128  # what the weights were divided by
    html = answer.view().html
    found = re.search(r'<script type="application/json" id="run">(.*?)</script>', html, re.DOTALL)
    assert found
    known = json.loads(found[1])
    assert sorted(known["drawing"]["weights"]) == [20, 40, 80, 120]
    assert known["attention"]["kept"] == run.num_steps - 1
    error = answer.first_error
    assert error is not None and known["firstError"] == {"step": error.step, "probe": error.hint}
    assert any("divided by 128" in note for note in known["notes"])
