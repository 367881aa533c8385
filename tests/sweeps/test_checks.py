"""Damaged records are found, named and set aside."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from narkit.cli import app
from narkit.sweeps.checks import check_file, record_files


@pytest.fixture
def folder(tiny_sweep: Path, tmp_path: Path) -> Path:
    """A copy of a sweep, whose records have test scores as well."""
    shutil.copytree(tiny_sweep, tmp_path / "results")
    for file in record_files(tmp_path / "results"):
        change(file, add_test)
    return tmp_path / "results"


def change(file: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    values = json.loads(file.read_text())
    edit(values)
    file.write_text(json.dumps(values))


def add_test(values: dict[str, Any]) -> None:
    name = values["config"]["algorithms"][0]
    values["config"]["test"] = True
    output, hint = ("pi", "reach_h") if name == "bfs" else ("min", "min_h")
    values["test"] = {name: {rule: [{output: 0.25, "score": 0.25}] * 2 for rule in values["rules"]}}
    values["test_hints"] = {name: {rule: [{hint: 0.5}] * 2 for rule in values["rules"]}}


def check(folder: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["records", "check", str(folder), *options], env={"NO_COLOR": "1"})
    return result.exit_code, result.output


def test_good_records_stay(folder: Path) -> None:
    assert [path.name for path in record_files(folder)] == ["bfs.json", "minimum.json"]
    assert check(folder) == (0, f"{folder}: 2 records, 2 good, 0 damaged\n")
    assert check(folder / "mpnn") == (0, f"{folder / 'mpnn'}: 2 records, 2 good, 0 damaged\n")


def damages() -> dict[str, tuple[Callable[[dict[str, Any]], None], str]]:
    """Name -> what is done to a record, and what must be said about it."""

    def assign(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
        def edit(values: dict[str, Any]) -> None:
            inner: Any = values
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value

        return edit

    return {
        "format": (assign("format", value=1), "expected a run record of format 2, got 1"),
        "missing": (lambda values: values.pop("curve"), "misses ['curve']"),
        "unknown": (assign("remark", value="mine"), "has the unknown ['remark']"),
        "type": (assign("curve", value=3), "not iterable"),
        "option": (assign("config", "stepss", value=3), "did you mean 'steps'?"),
        "algorithm": (assign("config", "algorithms", value=["minimum"]), "expected scores of ['minimum'], got ['bfs']"),
        "processor": (assign("config", "processor", value="pgn"), "is the record of pgn/bfs, not of mpnn/bfs"),
        "preset": (assign("preset", value="papr"), "preset: expected one of"),
        "steps": (assign("steps", value=10), "steps: expected 12, got 10"),
        "seeds": (assign("config", "seeds", value=[0, 1, 2]), "expected 3 numbers everywhere"),
        "point": (lambda values: values["curve"].pop(2), "expected a point at each of 6 validations up to 12, got 5"),
        "score": (assign("curve", 0, "scores", "id", value=[1.5, 0.0]), "expected scores from 0 to 1 on id"),
        "no score": (assign("curve", 0, "scores", "id", value=[None, 0.0]), "expected scores from 0 to 1 on id"),
        "choice": (assign("selected", "last", "steps", value=[12, 10]), "rule last: by the curve the steps are"),
        "chosen score": (assign("selected", "id", "scores", value=[1.0, 1.0]), "by the curve the scores are"),
        "test": (assign("test", "bfs", "id", 0, "pi", value=1.25), "expected scores from 0 to 1 of ['pi']"),
        "mean": (assign("test", "bfs", "id", 0, "score", value=0.75), "is not the mean of its outputs"),
        "nan": (assign("test", "bfs", "id", 0, value={"pi": None, "score": None}), "expected scores from 0 to 1"),
        "rules": (assign("test", "bfs", value={}), "expected 2 seeds under each of the rules"),
        "hint": (assign("test_hints", "bfs", "id", 0, value={"reach_h": 7.0}), "reach_h: expected 0 to 1, got 7.0"),
        "no hint": (assign("test_hints", "bfs", "id", 0, value={"reach": 1.0}), "bfs has no hint 'reach'"),
        "diverged": (assign("diverged", value=[{"seed": 9, "step": 3, "algorithm": "bfs", "size": 4}]), "got [9]"),
        "time": (assign("timings", "training", value=-1.0), "training: expected a time of at least 0, got -1.0"),
        "share": (assign("waiting_share", value=1.5), "waiting_share: expected a number from 0 to 1, got 1.5"),
        "date": (assign("finished_at", value="yesterday"), "expected a date and time, got 'yesterday'"),
        "hash": (assign("weights", "sha256", value="0" * 64), "its SHA-256 differs"),
        "file": (assign("weights", "file", value="dfs.safetensors"), "expected the file bfs.safetensors"),
        "parameters": (assign("parameters", value=3), "with 3 parameters, got"),
    }


@pytest.mark.parametrize("name", damages())
def test_damages_are_found(name: str, folder: Path) -> None:
    file = folder / "mpnn" / "bfs.json"
    edit, expected = damages()[name]
    change(file, edit)
    assert expected in "; ".join(check_file(file).problems)


def test_another_seeds_weights_are_found(folder: Path) -> None:
    file = folder / "mpnn" / "bfs.json"
    change(file, lambda values: values["weights"].update(seed=1 - values["weights"]["seed"]))
    assert "is not the best by validation under rule id" in check_file(file).problems[0]


def test_a_damaged_record_is_set_aside(folder: Path) -> None:
    file = folder / "mpnn" / "bfs.json"
    damaged = file.read_text()[:-200]
    file.write_text(damaged)
    code, printed = check(folder, "--dry-run")
    assert code == 1
    assert f"{file}: left where it is" in printed
    assert file.exists()

    code, printed = check(folder)
    assert code == 1
    assert f"{file}: set aside as {folder / 'mpnn' / 'set_aside' / 'bfs.json'}" in printed
    assert "2 records, 1 good, 1 damaged" in printed
    aside = folder / "mpnn" / "set_aside"
    assert sorted(path.name for path in aside.iterdir()) == ["bfs.json", "bfs.reason.txt", "bfs.safetensors"]
    assert (aside / "bfs.json").read_text() == damaged
    assert "expected a whole JSON file" in (aside / "bfs.reason.txt").read_text()
    assert not file.exists()
    assert check(folder)[0] == 0

    file.write_text(damaged)  # a second one does not replace the first
    check(folder)
    assert (aside / "bfs-2.json").exists() and (aside / "bfs.json").exists()


def test_other_files_are_left_alone(folder: Path) -> None:
    (folder / "notes.json").write_text('{"mine": 1}')
    (folder / "mpnn" / "dfs.safetensors").write_text("weights")
    code, printed = check(folder)
    assert code == 0
    assert "dfs.safetensors: weights without a record" in printed
    assert (folder / "notes.json").exists()


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    code, printed = check(tmp_path / "none")
    assert code == 2
    assert "expected a folder with records" in " ".join(printed.replace("│", " ").split())
