"""Settings are read by the types of their fields, on the command line, in files and in Python."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import narkit
from narkit import settings
from narkit.cli import app
from narkit.errors import UnknownNameError
from narkit.settings import SettingError
from narkit.training.config import TrainConfig, Validation, parse_settings
from narkit.training.run_directory import RunDirectory, RunDirectoryError


@dataclasses.dataclass
class Part:
    name: str
    size: int = 3


@dataclasses.dataclass
class Whole:
    flag: bool = True
    count: int = 7
    share: float = 0.5
    word: str = "soft"
    sizes: tuple[int, ...] = (4, 7)
    parts: tuple[Part, ...] = (Part("a"),)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    limit: int | None = None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("flag", "False", False), ("flag", "yes", True), ("flag", "off", False), ("flag", "TRUE", True),
        ("count", "12", 12), ("count", " 10_000 ", 10000), ("count", "-3", -3),
        ("share", "1e-3", 0.001), ("share", "2", 2.0),
        ("word", "hard", "hard"), ("word", '"hard"', "hard"),
        ("sizes", "4,7, 11", (4, 7, 11)), ("sizes", "[4, 7]", (4, 7)), ("sizes", "4", (4,)), ("sizes", "", ()),
        ("parts", '[{"name": "x"}]', (Part("x"),)), ("parts", '[{"name": "x", "size": 9}]', (Part("x", 9),)),
        ("options", '{"num_heads": 2}', {"num_heads": 2}),
        ("limit", "none", None), ("limit", "5", 5),
    ],
)  # fmt: skip
def test_text_is_read_by_the_type_of_its_field(name: str, text: str, expected: object) -> None:
    value = settings.parse(Whole, name, text)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("flag", "maybe", "flag: expected true or false, got 'maybe'"),
        ("flag", "1", "flag: expected true or false, got '1'"),
        ("count", "", "count: expected a whole number, such as 7, got ''"),
        ("count", "true", "count: expected a whole number, such as 7, got 'true'"),
        ("count", "1.5", "count: expected a whole number, such as 7, got '1.5'"),
        ("count", "9" * 25, "count: expected a whole number and below 2^63, such as 7, got 99999"),
        ("share", "NaN", "share: expected a finite number, such as 0.5, got 'NaN'"),
        ("share", "1e999", "share: expected a finite number"),
        ("share", "a", "share: expected a finite number, such as 0.5, got 'a'"),
        ("word", "", "word: expected a word, such as soft, got ''"),
        ("sizes", "4;7", "sizes: expected a whole number, such as 4,7, got '4;7'"),
        ("sizes", "[4", "sizes: expected a list of whole numbers as JSON, such as 4,7, got '[4'"),
        ("sizes", "[4, 7.5]", "sizes[1]: expected a whole number, such as 4, got 7.5"),
        ("parts", "x", 'parts: expected a list of mappings as JSON, such as [{"name": "a", "size": 3}], got \'x\''),
        ("parts", "[3]", "parts[0]: expected a mapping with name, got 3"),
        ("parts", '[{"size": 3}]', "parts[0]: expected a mapping with name"),
        ("parts", '[{"name": "x", "sise": 3}]', "no field of parts[0] is named 'sise'; did you mean 'size'?"),
        ("parts", '[{"name": "x", "size": "3"}]', "parts[0].size: expected a whole number, got '3'"),
        ("options", "[1]", "options: expected a mapping of names to values, got [1]"),
        ("options", "[" * 100_000, "options: expected a mapping of names to values as JSON"),
        ("flagg", "true", "did you mean 'flag'?"),
    ],
)
def test_text_that_does_not_fit_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises((SettingError, UnknownNameError)) as caught:
        settings.parse(Whole, name, text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": "False"}, "test: expected true or false, got 'False'"),
        ({"random_positions": "maybe"}, "random_positions: expected true or false"),
        ({"hidden_size": True}, "hidden_size: expected a whole number, such as 128, got True"),
        ({"hidden_size": 0}, "hidden_size: expected at least 1, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate: expected a finite number, such as 0.001, got nan"),
        ({"learning_rate": "fast"}, "learning_rate: expected a finite number"),
        ({"validate_every": 1.5}, "validate_every: expected a whole number, such as 200, got 1.5"),
        ({"sizes": "4,7"}, "sizes: expected whole numbers in a list, such as 4,7,11,13,16, got '4,7'"),
        ({"sizes": (4, "7")}, "sizes[1]: expected a whole number"),
        ({"seeds": range(10**30)}, "seeds: expected at most 100,000 whole numbers, got range(0, 1000"),
        ({"seeds": 3}, "seeds: expected whole numbers in a list, such as 0, got 3"),
        ({"validations": [{"name": "id"}]}, "validations[0]: expected a mapping with size"),
        ({"validations": [{"name": "id", "size": 1.5}]}, "validations[0].size: expected a whole number"),
        ({"processor_options": {"num_heads": "two"}}, "processor_options.num_heads: expected a whole number"),
        ({"processor_options": [1]}, "processor_options: expected a mapping"),
        ({"hints": None}, "hints: expected a word, such as encoded, got None"),
        ({"algorithms": 3}, "algorithms: expected words in a list, got 3"),
    ],
)
def test_the_same_checks_in_python(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        TrainConfig(**{"algorithms": ("bfs",), **options})
    assert message in str(caught.value)


def test_values_are_kept_in_one_form() -> None:
    config = TrainConfig("bfs", sizes=[4, 7], seeds=range(2), hidden_size=np.int64(8), learning_rate=1)  # type: ignore[arg-type]
    assert config.sizes == (4, 7) and config.seeds == (0, 1)
    assert type(config.hidden_size) is int and type(config.learning_rate) is float
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(ValueError, match="validation 'id': size: expected a whole number"):
        Validation("id", 4.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("content", ["[]", "3", '{"algorithms": ["bfs"], "steps": "many"}', "{}", "[" * 90_000])
def test_configuration_files_are_checked_too(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RunDirectoryError, match="expected a configuration as narkit writes it"):
        RunDirectory(tmp_path).config()


def test_an_edited_configuration_is_noticed(tmp_path: Path) -> None:
    config, file = TrainConfig(("bfs",)), tmp_path / "config.json"
    RunDirectory(tmp_path).create(config)
    assert RunDirectory(tmp_path).config() == config
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | {"learning_rate": 3e-3}))
    with pytest.raises(RunDirectoryError, match="it was changed after the run began"):
        RunDirectory(tmp_path).config()
    del values["digest"]  # as narkit 0.1 wrote it
    file.write_text(json.dumps(values))
    assert RunDirectory(tmp_path).config() == config


def test_settings_of_the_command_line() -> None:
    assert parse_settings(["test=False", "sizes=4,7", "learning_rate=1e-2"]) == {
        "test": False, "sizes": (4, 7), "learning_rate": 0.01,
    }  # fmt: skip
    with pytest.raises(ValueError, match="expected name=value"):
        parse_settings(["=3"])
    with pytest.raises(ValueError, match="steps: expected it once, got it twice"):
        parse_settings(["steps=3", "steps=3"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--algorithm", "bfs", "--set", "steps=1", "--steps", "2"], "expected --steps or --set steps=…"),
        (["train", "--algorithm", "bfs", "--set", "algorithms=dfs"], "expected --algorithm or --set algorithms=…"),
        (["train", "--algorithm", "bfs", "--seeds", "2", "--set", "seeds=3,4"], "expected --seeds or --set seeds=…"),
        (["sweep", "--set", "hidden_size=8", "--hidden-size", "8"], "expected --hidden-size or --set hidden_size=…"),
        (["train", "--algorithm", "bfs", "--set", "steps="], "steps: expected a whole number, such as 10000, got ''"),
        (["train", "--algorithm", "bfs", "--set", "test=maybe"], "test: expected true or false, got 'maybe'"),
        (["eval", "run", "--size", "0"], "--size"),
    ],
)
def test_contradictions_and_wrong_types_on_the_command_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "160", "NO_COLOR": "1"}, terminal_width=160)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_entry_points_in_python_refuse_the_wrong_kind() -> None:
    import jax

    with pytest.raises(ValueError, match=r"hidden_size: expected at least 1, got 0"):
        narkit.Reasoner("bfs", hidden_size=0, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"seed: expected a whole number, got 1.5"):
        narkit.sample("bfs", size=4, seed=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"size: expected a whole number, got '4'"):
        narkit.sample("bfs", size="4")  # type: ignore[arg-type]
    batch = narkit.sample("bfs", size=4, batch_size=3)
    with pytest.raises(TypeError, match=r"expected a slice or a list of samples, got 0; .* batch\[0:1\]"):
        batch[0]  # type: ignore[index]
    with pytest.raises(IndexError, match=r"expected samples 0..2, got 0..7"):
        batch[[0, 7]]
    with pytest.raises(IndexError, match="expected a mask of 3 samples, got one of 2"):
        batch[np.array([True, False])]
    with pytest.raises(TypeError, match="a list of whole numbers or a mask"):
        batch["pos"]  # type: ignore[index]
    assert [len(each) for each in batch] == [1, 1, 1]
    assert len(batch[np.array([True, False, True])]) == 2 and len(batch[[]]) == 0
    with pytest.raises(
        TypeError, match=r"predict: expected a narkit.Reasoner and a narkit.Batch, .* got dict and Batch"
    ):
        narkit.predict({}, batch)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"transform: expected a narkit.Batch, got int"):
        narkit.transform(3)  # type: ignore[arg-type]
    reasoner = narkit.Reasoner("bfs", hidden_size=4, key=jax.random.key(0))
    with pytest.raises(ValueError, match="predict: expected a batch with samples, got an empty one"):
        narkit.predict(reasoner, batch[3:])
    with pytest.raises(ValueError, match="evaluate: expected a batch with samples, got an empty one"):
        narkit.evaluate("bfs", batch[3:].outputs, batch[3:])
    with pytest.raises(ValueError, match="keep_hints: expected true or false, got 'no'"):
        narkit.predict(reasoner, batch, keep_hints="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a network of width 1000000: about .* of memory would be needed"):
        narkit.Reasoner("bfs", hidden_size=10**6, key=jax.random.key(0))
    with pytest.raises(FileNotFoundError, match="the folder nowhere does not exist"):
        narkit.save(reasoner, "nowhere/x.safetensors")
    config = narkit.TrainConfig("bfs")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="save_every: expected a finite number, such as 30, got nan"):
        narkit.train(config, save_every=float("nan"))
    with pytest.raises(ValueError, match="threads: expected at least 1, got -1"):
        narkit.train(config, threads=-1)
