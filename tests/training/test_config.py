"""Configurations and presets: what is wrong is named, and everything survives JSON."""

import json
from typing import Any

import pytest

import narkit
from narkit.sweeps.systems import main_rule
from narkit.training.config import Validation
from narkit.training.presets import PRESETS, preset
from narkit.training.rules import Rule


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithms": ("bsf",)}, "did you mean 'bfs'"),
        ({"processor": "tema"}, "did you mean 'team'"),
        ({"processor_options": {"num_head": 2}}, "did you mean 'num_heads'"),
        ({"processor_options": {"num_heads": 7}}, "heads that divides the hidden size, got 7 heads for size 128"),
        ({"hidden_size": 10**6}, "networks of width 1000000: about .* of memory would be needed"),
        ({"hints": "encode"}, "did you mean 'encoded'"),
        ({"reprediction": "sfot"}, "did you mean 'soft'"),
        ({"teacher_forcing": 1.5}, r"probability in \[0, 1\], got 1.5"),
        ({"steps": 0}, "steps: expected at least 1, got 0"),
        ({"seeds": ()}, "seeds: expected one or more different ones"),
        ({"seeds": (1, 1)}, "seeds: expected one or more different ones"),
        ({"seeds": (-1,)}, "seeds: expected whole numbers from 0"),
        ({"sizes": (1,)}, "bfs: expected a size of at least 2, got 1"),
        ({"learning_rate": 0.0}, "expected a positive learning rate"),
        ({"average": 1.0}, "expected an average of at least 0 and below 1"),
        ({"average": 0.9, "average_horizon": 0.0}, "a positive average_horizon"),
        ({"skipped_steps": -1}, "skipped_steps: expected a whole number of at least 0, got -1"),
        ({"rules": (Rule("mine", "odd"),)}, "did you mean 'ood'"),
        ({"rules": (Rule("mine", "ood", "averaged"),)}, "rule mine: expected average > 0 with it"),
        ({"rules": (Rule("mine", "ood"), Rule("mine", "id"))}, "rules: expected different names"),
        ({"random_positions": False}, "expected fixed_training_set=True with it"),
        ({"validations": (Validation("id", 16), Validation("id", 32))}, "validations: expected one or more different"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        narkit.TrainConfig(**{"algorithms": ("bfs",), **options})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("last", 16), "names a selection rule"),
        (("id_first", 16), "names a selection rule"),
        (("id", 0), "at least 1, got 0"),
        (("id_average", 16), "names a selection rule"),
        (("id", 16, 4, "trainin"), "did you mean 'training'"),
        (("id", 16, 4, "benchmark", 3), "draws the official test split"),
        (("id", 16, 4, "benchmark", -1), "expected a seed from 0"),
        (("id", 16, 4, "benchmark", 5, "no"), "selects: expected true or false"),
    ],
)
def test_mistakes_in_validations_are_named(values: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Validation(*values)


def test_a_processor_that_cannot_be_made_fails_where_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it ends one cell of a sweep, and not all."""

    def broken(hidden_size: int, *, key: Any) -> Any:
        raise ValueError("made to fail")

    monkeypatch.setitem(narkit.PROCESSORS, "broken", broken)
    assert narkit.TrainConfig(("bfs",), processor="broken").processor == "broken"


def test_unknown_options_name_the_nearest() -> None:
    with pytest.raises(ValueError, match="no training option is named 'step'; did you mean 'steps'"):
        narkit.TrainConfig.from_json({"algorithms": ["bfs"], "step": 3})
    with pytest.raises(ValueError, match="no training option is named 'seed'; did you mean 'seeds'"):
        preset("quick", algorithms="bfs", seed=3)
    with pytest.raises(ValueError, match="no preset is named 'papr'; did you mean 'paper'"):
        preset("papr", algorithms="bfs")


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name: str) -> None:
    config = preset(name, algorithms=("bfs", "minimum"), seeds=(3, 4))
    assert narkit.TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_plus_differs_from_paper_in_what_it_says() -> None:
    plus = preset("plus", algorithms="bfs", processor="triplet_gmpnn")
    differing = preset("paper", algorithms="bfs", processor="triplet_gmpnn").differences(plus)
    listed, chosen = differing.pop("rules")
    assert listed == [] and [rule["name"] for rule in chosen] == [
        *("id", "ood", "last", "id_average", "ood_average", "last_average")
    ]
    assert differing == {"average": (0.0, 0.999), "skipped_steps": (0, 50), "hint_gradient": (1.0, 0.5)}
    assert main_rule(plus) == "ood_average"
    assert main_rule(preset("paper", algorithms="bfs", processor="triplet_gmpnn")) == "ood"


def test_paper_preset_is_the_protocol() -> None:
    assert preset("paper", algorithms="bfs") == narkit.TrainConfig("bfs")  # type: ignore[arg-type]
