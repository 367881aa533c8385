"""Answers: what they say of the network's outputs, of the true ones, and of where the two part."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import narkit
from narkit import resources
from narkit.inference import _compiled_predict
from narkit.solve import Answer, TrainingRangeWarning, prepare
from narkit.solve.running import predict_one

CITIES = [("Ulm", "Augsburg", 80), ("Ulm", "Stuttgart", 93), ("Augsburg", "München", 66), ("Stuttgart", "München", 230)]


@pytest.fixture(scope="module")
def answer(make_weights: Callable[..., Path]) -> Answer:
    graph = nx.Graph()
    graph.add_weighted_edges_from(CITIES)
    weights = make_weights("dijkstra") / "team" / "dijkstra.safetensors"
    return narkit.solve("dijkstra", graph, source="Ulm", weights=weights)


def test_truth_is_in_the_callers_words(answer: Answer) -> None:
    assert answer.truth["paths"]["München"] == ["Ulm", "Augsburg", "München"]
    assert answer.truth["lengths"] == {"Ulm": 0, "Augsburg": 80, "Stuttgart": 93, "München": 146}
    assert answer.truth["predecessors"]["Ulm"] is None


def test_the_instance_lies_in_the_range_of_the_training(answer: Answer) -> None:
    weights = answer.instance.inputs["A"][0]
    assert 0.5 <= weights.max() <= 1.0
    assert weights.max() * 256 == 230
    assert any("divided by 256" in note for note in answer.notes)


def test_predictions_are_those_of_the_network(answer: Answer) -> None:
    expected = narkit.predict(answer.network, answer.instance)
    for name, values in expected.outputs.items():
        assert np.array_equal(answer.predictions.outputs[name], values)
    for name, values in expected.hints.items():
        assert np.array_equal(answer.predictions.hints[name], values), name
        assert len(values) == answer.instance.lengths[0] - 1
        probe = answer.instance.spec[name]
        assert np.asarray(values).dtype == probe.dtype
        assert values.shape[1:] == answer.instance.hints[name].shape[1:]
    for name, values in expected.hint_logits.items():
        np.testing.assert_allclose(answer.predictions.hint_logits[name], values, atol=1e-5)


def test_differences_are_those_of_the_outputs(answer: Answer) -> None:
    predicted, truth = answer.predictions.outputs["pi"][0], answer.instance.outputs["pi"][0]
    assert len(answer.differences) == np.sum(np.asarray(predicted) != truth)
    assert answer.agrees == (answer.outputs == answer.truth) == (not answer.differences)
    for difference in answer.differences:
        (node,) = difference.nodes
        assert difference.where == (answer.labels[node],)
        assert answer.labels[predicted[node]] == difference.network != difference.truth == answer.labels[truth[node]]


def test_the_first_error_is_the_first(answer: Answer) -> None:
    error = answer.first_error
    assert error is not None and error.step >= 1
    masks = {"mark", "in_queue"}
    for name in masks:
        wrong = np.asarray(answer.predictions.hints[name])[:, 0] != answer.instance.hints[name][1:, 0]
        if wrong.any():
            assert error.step <= wrong.any(axis=1).argmax() + 1


def test_hints_can_be_scored(answer: Answer) -> None:
    scores = narkit.evaluate("dijkstra", answer.predictions.hints, answer.instance)
    assert set(scores) == {"pi_h", "d", "mark", "in_queue", "u"}
    predicted, truth = np.asarray(answer.predictions.hints["pi_h"]), answer.instance.hints["pi_h"][1:]
    assert scores["pi_h"] == pytest.approx(np.mean(predicted == truth))


def test_text_and_json(answer: Answer) -> None:
    text = str(answer)
    assert text.startswith("dijkstra on 4 nodes, 5 steps, by ")
    assert "München" in text
    read = json.loads(json.dumps(answer.to_dict()))
    assert read["truth"]["lengths"]["München"] == 146
    assert read["agrees"] is answer.agrees
    assert read["num_steps"] == 5


def test_another_instance_of_the_size_compiles_nothing(answer: Answer) -> None:
    compiled: Any = _compiled_predict()
    count = compiled._cache_size()
    other = narkit.solve("dijkstra", [(0, 1, 0.5), (1, 2, 0.25), (2, 3, 0.75)], source=3, weights=answer.network)
    assert other.instance.num_nodes == answer.instance.num_nodes
    assert compiled._cache_size() == count
    assert other.weights_name == "the given team" and other.scored is None


def test_another_right_answer_is_said_to_be_right(answer: Answer) -> None:
    other = dataclasses.replace(answer, outputs={**answer.truth, "predecessors": {}})
    assert other.is_right and not other.agrees
    assert "right: another answer, as good as the algorithm's" in str(other)
    assert dataclasses.replace(answer, outputs=answer.truth).agrees


def test_larger_instances_than_measured_are_solved_with_a_warning(answer: Answer) -> None:
    path = [(node, node + 1, 1.0) for node in range(64)]
    assert prepare("dijkstra", path, source=0).warnings == []
    with pytest.warns(TrainingRangeWarning, match="size 65, is larger than any that networks were measured on"):
        large = narkit.solve("dijkstra", path, source=0, weights=answer.network)
    assert any("larger than any" in warning for warning in large.warnings)


def test_what_does_not_fit_into_memory_is_refused(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "available_memory", lambda: 2**30)
    long_run = narkit.run("bubble_sort", A=np.arange(300) / 300)
    with pytest.raises(ValueError, match=r"predictions for 300 nodes and 44851 steps: about .* 1\.0 GiB are there"):
        predict_one(answer.network, long_run)
