"""Files of older versions are read by this one: a checkpoint of format 1, a record of format 2, weights of format 1."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import narkit
from narkit.training import rules
from narkit.training.record_checks import check_record
from narkit.training.run_directory import RunDirectory

GOLDEN = Path(__file__).parents[1] / "golden" / "formats" / "0.1.0"
OLD_RULES = ["id", "ood", "id_first", "ood_first", "last"]


def resumed(folder: Path) -> narkit.RunRecord:
    shutil.copytree(GOLDEN / "stopped", folder)
    return narkit.train(RunDirectory(folder).config(), folder)


def assert_as_before(record: narkit.RunRecord) -> None:
    """It ended with the parameters that version 0.1.0 ended with.

    They are the same to the last bit where the compiler is free to optimise; the tests do not let it. Four of the 1070
    have gradients that are nothing but rounding, which Adam makes as large as others: four steps of 1e-3.
    """
    with np.load(GOLDEN / "finished.npz") as finished:
        assert list(record.choices()) == list(finished) == OLD_RULES
        for rule, values in record.choices().items():
            difference = np.abs(values - finished[rule])
            assert difference.max() < 4.1e-3, rule
            assert np.mean(difference > 1e-6) < 0.005, rule


def test_a_checkpoint_of_format_1_resumes(tmp_path: Path) -> None:
    record = resumed(tmp_path / "run")
    assert_as_before(record)
    assert record.steps == 10 and [point.step for point in record.curve] == [4, 8, 10]
    assert list(check_record(record)) == []


def test_a_new_rule_makes_no_old_run_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run goes on with the rules that it began with, and its record is checked against those."""
    old_default = rules.default_rules

    def new_default(validations: Sequence[narkit.Validation], averaged: bool) -> list[narkit.Rule]:
        return [*old_default(validations, averaged), narkit.Rule("new", "ood", ties="first")]

    monkeypatch.setattr(rules, "default_rules", new_default)
    record = resumed(tmp_path / "run")
    assert_as_before(record)
    assert list(check_record(narkit.RunRecord.load(tmp_path / "run"))) == []
    assert list(check_record(narkit.RunRecord.load(GOLDEN / "records" / "mpnn" / "bfs.json"))) == []


def test_a_record_of_format_2_is_read_as_it_is() -> None:
    file = GOLDEN / "records" / "mpnn" / "bfs.json"
    record, written = narkit.RunRecord.load(file), json.loads(file.read_text())
    assert record.format == 2 and list(record.rules) == written["rules"] == OLD_RULES
    assert (record.skipped, record.fast_path, record.system) == ([], {}, None)
    assert not record.config.averages and record.config.skipped_steps == 0
    assert list(check_record(record)) == []
    again = record.to_json()
    assert again["format"] == 3
    for name in set(written) - {"format", "rules", "config"}:
        assert again[name] == written[name], name
    assert {name: again["config"][name] for name in written["config"] if name != "validations"} == {
        name: value for name, value in written["config"].items() if name != "validations"
    }


def test_weights_of_format_1_are_read() -> None:
    record = narkit.RunRecord.load(GOLDEN / "records" / "mpnn" / "bfs.json")
    assert record.weights is not None
    reasoner = record.reasoner(record.weights.rule, record.weights.seed)
    assert (reasoner.algorithms, reasoner.processor_name, reasoner.hidden_size) == (("bfs",), "mpnn", 4)


def test_a_field_that_is_lacking_is_off(tmp_path: Path) -> None:
    """What a later version adds to a record, a configuration or a rule has a default."""
    from narkit.training.record import sealed

    values = narkit.RunRecord.load(GOLDEN / "records" / "mpnn" / "bfs.json").to_json()
    for name in ("skipped", "fast_path", "system", "weights", "preset"):
        del values[name]
    for name in ("rules", "average", "average_horizon", "skipped_steps"):
        del values["config"][name]
    for rule in values["rules"].values():
        del rule["weights"]
    record = narkit.RunRecord.from_json(sealed(values))
    assert list(check_record(record)) == []
    assert record.weights is None and {rule.weights for rule in record.rules.values()} == {"raw"}


@pytest.mark.parametrize(
    "place", [("steps",), ("curve", 0, "scores", "id", 0), ("config", "learning_rate"), ("digest",)]
)
def test_a_record_that_was_edited_is_refused(place: tuple[str | int, ...]) -> None:
    """A number anywhere in it is another one; only who also makes the digest anew is believed."""
    values: Any = narkit.RunRecord.load(GOLDEN / "records" / "mpnn" / "bfs.json").to_json()
    assert narkit.RunRecord.from_json(values).format == 3
    inner = values
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = inner[place[-1]][::-1] if place == ("digest",) else inner[place[-1]] + 1
    with pytest.raises(ValueError, match="the digest in it is of something else"):
        narkit.RunRecord.from_json(values)
