"""Selection rules: the best score, and what decides between equal ones."""

from collections.abc import Callable

import numpy as np
import pytest

import narkit
from narkit.training.config import Validation
from narkit.training.rules import RAW, rules, rules_from_json, rules_of_format_2
from narkit.training.selection import Selection, Validated

Tiny = Callable[..., narkit.TrainConfig]
SETS = (Validation("id", 5), Validation("ood", 6))
SCORES = [0.5, 0.9, 0.9, 0.9, 0.7]
LOSSES = [3.0, 1.0, 0.5, 0.5, 0.1]


def selected(tiny: Tiny, alive: list[list[bool]]) -> Selection:
    """Two seeds with the same validations; at step t (from 1 on) all parameters are t."""
    selection = Selection.start(rules(tiny(validations=SETS)), np.zeros((2, 3)))
    for step, (score, loss, lives) in enumerate(zip(SCORES, LOSSES, alive, strict=True), start=1):
        values = {name: np.array([score, score]) for name in ("id", "ood")}
        losses = {"id": np.array([loss, loss]), "ood": np.array([1.0, 1.0])}
        validated = {RAW: Validated(np.full((2, 3), float(step)), values, losses)}
        selection.update(step, validated, np.array(lives))
    return selection


def test_ties(tiny: Tiny) -> None:
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


def test_a_diverged_seed_keeps_what_it_had(tiny: Tiny) -> None:
    selection = selected(tiny, [[True, True], [True, True], [True, False], [True, False], [True, False]])
    assert selection.steps == {"id": [4, 2], "ood": [4, 2], "id_first": [2, 2], "ood_first": [2, 2], "last": [5, 2]}


def test_rules_are_named_after_validations(tiny: Tiny) -> None:
    assert list(rules(tiny())) == ["id", "id_first", "last"]
    assert rules(tiny()) == rules_of_format_2(["id", "id_first", "last"])
    averaged = rules(tiny(average=0.999, validations=SETS))
    assert list(averaged)[5:] == ["id_average", "ood_average", "last_average"]
    assert {rule.weights for rule in list(averaged.values())[5:]} == {"averaged"}


def test_a_set_that_chooses_nothing_has_no_rule(tiny: Tiny) -> None:
    config = tiny(validations=(*SETS, Validation("large", 9, 4, "benchmark", seed=1000, selects=False)))
    assert rules(config) == rules(tiny(validations=SETS))
    with pytest.raises(ValueError, match=r"no validation set that selects .rule mine. is named 'large'"):
        config.replace(rules=(narkit.Rule("mine", "large"),))


def test_a_run_may_list_its_rules(tiny: Tiny) -> None:
    mine = narkit.Rule("mine", "id", ties="first")
    config = tiny(rules=(mine,))
    assert rules(config) == {"mine": mine}
    assert narkit.TrainConfig.from_json(config.to_json()) == config
    assert rules_from_json({"mine": mine.to_json()}) == {"mine": mine}
    assert "averaged" not in mine.in_words() and "the first" in mine.in_words()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("two words", "id"), "expected a plain word"),
        (("mine", "id", "avraged"), "did you mean 'averaged'"),
        (("mine", "id", "raw", "frist"), "did you mean 'first'"),
    ],
)
def test_mistakes_in_rules_are_named(values: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        narkit.Rule(*values)
