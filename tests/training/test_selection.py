"""Selection rules: the best score, and what decides between equal ones."""

from collections.abc import Callable

import numpy as np

import narkit
from narkit.training.config import Validation
from narkit.training.selection import Selection, rules

SCORES = [0.5, 0.9, 0.9, 0.9, 0.7]
LOSSES = [3.0, 1.0, 0.5, 0.5, 0.1]


def selected(tiny: Callable[..., narkit.TrainConfig], alive: list[list[bool]]) -> Selection:
    """Two seeds with the same validations; at step t (from 1 on) all parameters are t."""
    config = tiny(validations=(Validation("id", 5), Validation("ood", 6)))
    selection = Selection.start(config, np.zeros((2, 3)))
    for step, (score, loss, lives) in enumerate(zip(SCORES, LOSSES, alive, strict=True), start=1):
        values = {name: np.array([score, score]) for name in ("id", "ood")}
        losses = {"id": np.array([loss, loss]), "ood": np.array([1.0, 1.0])}
        selection.update(step, np.full((2, 3), float(step)), values, losses, np.array(lives))
    return selection


def test_ties(tiny: Callable[..., narkit.TrainConfig]) -> None:
    selection = selected(tiny, [[True, True]] * 5)
    expected = {
        "id": 4,  # the lowest loss among the best scores, and of equal losses the later
        "ood": 4,  # all losses are equal: the latest of the best scores
        "id_first": 2,
        "ood_first": 2,
        "last": 5,
    }
    assert {rule: steps[0] for rule, steps in selection.steps.items()} == expected
    for rule, step in expected.items():
        assert np.array_equal(selection.parameters[rule], np.full((2, 3), step))
    assert selection.scores["id"] == [0.9, 0.9]
    assert selection.losses["id"] == [0.5, 0.5]


def test_a_diverged_seed_keeps_what_it_had(tiny: Callable[..., narkit.TrainConfig]) -> None:
    selection = selected(tiny, [[True, True], [True, True], [True, False], [True, False], [True, False]])
    assert selection.steps == {"id": [4, 2], "ood": [4, 2], "id_first": [2, 2], "ood_first": [2, 2], "last": [5, 2]}


def test_rules_are_named_after_validations(tiny: Callable[..., narkit.TrainConfig]) -> None:
    assert rules(tiny()) == ["id", "id_first", "last"]
