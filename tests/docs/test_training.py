"""The Python in docs/training.md names what there is and runs (marker `slow`); presets and files are described."""

import ast
import dataclasses
import re
from pathlib import Path

import pytest

import narkit
from narkit.training.presets import PRESETS
from narkit.training.rules import rules
from narkit.training.run_directory import CHECKPOINTS, CONFIG, LOCK, METRICS, RECORD

TEXT = (Path(__file__).parents[2] / "docs" / "training.md").read_text()


def test_python_names_what_there_is() -> None:
    code, configuration, scored, callback = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict = {}
    exec(scored, names)  # what makes configurations only is run
    exec(configuration, names)
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


@pytest.mark.slow
def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """All blocks, one after the other, with fewer steps of a narrower network."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(compile(code.replace("steps=200", "steps=2, hidden_size=4"), "docs/training.md", "exec"), names)
    assert (tmp_path / "bfs.safetensors").exists()
    assert narkit.RunRecord.load(tmp_path / "runs/bfs-quick").config.steps == 2
    assert "done after" in capsys.readouterr().out
