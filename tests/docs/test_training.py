"""The names that the Python in docs/training.md uses exist, and presets and files are described."""

import ast
import dataclasses
import re
from pathlib import Path

import narkit
from narkit.training.presets import PRESETS
from narkit.training.rules import rules
from narkit.training.run_directory import CHECKPOINTS, CONFIG, LOCK, METRICS, RECORD

TEXT = (Path(__file__).parents[2] / "docs" / "training.md").read_text()


def test_python_names_what_there_is() -> None:
    code, configuration, callback = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict = {}
    exec(configuration, names)  # what makes configurations only is run
    assert list(rules(names["config"])) == ["ood_average", "ood_first", "last"]
    exec(callback.rpartition("narkit.train(")[0], names)
    methods = {name for name in vars(names["PrintScores"]) if name.startswith("on_")}
    assert methods and methods <= set(dir(narkit.Callback))
    options = {
        keyword.arg for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) for keyword in node.keywords
    }
    fields = {field.name for field in dataclasses.fields(narkit.TrainConfig)}
    assert options <= fields | {"out", "rule", "seed"}
    attributes = {node.attr for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)}
    assert all(hasattr(narkit, name) or hasattr(narkit.RunRecord, name) for name in attributes)


def test_presets_and_files_are_described() -> None:
    for name in (*PRESETS, CONFIG, METRICS, RECORD, LOCK, f"{CHECKPOINTS}/"):
        assert f"`{name}`" in TEXT
