"""Damaged and edited records are found and named, and set aside where that is asked for."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from narkit.cli import app
from narkit.sweeps.checks import check_file, record_files
from narkit.training.record import sealed

GOLDEN = Path(__file__).parents[1] / "golden" / "formats" / "0.1.0"


@pytest.fixture
def folder(tiny_sweep: Path, tmp_path: Path) -> Path:
    """A copy of a sweep, whose records have test scores as well."""
    shutil.copytree(tiny_sweep, tmp_path / "results")
    for file in record_files(tmp_path / "results"):
        change(file, add_test)
    return tmp_path / "results"


def change(file: Path, edit: Callable[[dict[str, Any]], None], seal: bool = True) -> None:
    """Edits a record; by default its digest is made anew, so that only what it says is wrong."""
    values = json.loads(file.read_text())
    edit(values)
    file.write_text(json.dumps(sealed(values) if seal else values))


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
        "format": (assign("format", value=1), "expected a run record of format 2 or 3, got 1"),
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
        "no rules": (assign("rules", value={}), "rules: expected one or more, got none"),
        "set of a rule": (
            assign("rules", "id", "validation", value="odd"),
            "one of the validation sets ['id']",
        ),
        "weights of a rule": (assign("rules", "id", "weights", value="averaged"), "id: expected raw weights"),
        "ties": (assign("rules", "id", "ties", value="last"), "way to decide between equal scores (rule id)"),
        "averages": (assign("curve", 0, "average_scores", value={"id": [0.1, 0.1]}), "expected the validation sets []"),
        "skipped": (
            assign("skipped", value=[{"seed": 0, "algorithm": "bfs", "size": 4, "steps": [3]}]),
            "expected no steps, since the configuration lets none be skipped",
        ),
        "hint": (assign("test_hints", "bfs", "id", 0, value={"reach_h": 7.0}), "reach_h: expected 0 to 1, got 7.0"),
        "no hint": (assign("test_hints", "bfs", "id", 0, value={"reach": 1.0}), "bfs has no hint 'reach'"),
        "diverged": (assign("diverged", value=[{"seed": 9, "step": 3, "algorithm": "bfs", "size": 4}]), "got [9]"),
        "time": (assign("timings", "training", value=-1.0), "training: expected a time of at least 0, got -1.0"),
        "share": (assign("waiting_share", value=1.5), "waiting_share: expected a number from 0 to 1, got 1.5"),
        "date": (assign("finished_at", value="yesterday"), "expected a date and time, got 'yesterday'"),
        "hash": (assign("weights", "sha256", value="0" * 64), "its SHA-256 differs"),
        "file": (assign("weights", "file", value="dfs.safetensors"), "expected the name bfs.safetensors"),
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
    for options in ([], ["--dry-run"]):  # it only looks unless told otherwise
        code, printed = check(folder, *options)
        assert code == 1
        assert f"{file}: damaged, left where it is" in printed
        assert file.exists()

    code, printed = check(folder, "--set-aside")
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
    check(folder, "--set-aside")
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


def test_edited_scores_are_found(folder: Path) -> None:
    """All that is checked of the content stays possible; only the digest is another."""
    file = folder / "mpnn" / "bfs.json"

    def better(values: dict[str, Any]) -> None:
        values["test"]["bfs"]["id"][0] = {"pi": 0.75, "score": 0.75}

    change(file, better, seal=False)
    assert check_file(file).problems == ("its content is not what was written: the digest in it is of something else",)


def test_a_folder_without_records_fails(tmp_path: Path) -> None:
    code, printed = check(tmp_path)
    assert code == 1
    assert "0 records, 0 good, 0 damaged" in printed
    assert "expected records at any depth" in printed


def test_what_may_not_be_read_is_not_called_damaged(folder: Path) -> None:
    (folder / "mpnn" / "dfs.json").symlink_to(folder / "nowhere.json")
    code, printed = check(folder, "--set-aside")
    assert code == 1
    assert "dfs.json: not checked" in printed and "may not be read: No such file or directory" in printed
    assert "3 records, 2 good, 0 damaged, 1 not checked" in printed
    assert (folder / "mpnn" / "dfs.json").is_symlink()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder with a record of format 2."""
    shutil.copytree(GOLDEN / "records", tmp_path / "results")
    return tmp_path / "results"


def manifest(folder: Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["records", "manifest", str(folder)], env={"NO_COLOR": "1"})
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def test_old_records_stand_in_a_manifest(old: Path) -> None:
    record, listed = old / "mpnn" / "bfs.json", old / "manifest.json"
    before = record.read_bytes()
    assert check(old)[0] == 0  # without a manifest they cannot be proven
    assert manifest(old) == (0, f"{listed}: digests of 1 records")
    assert check(old) == (0, f"{old}: 1 records, 1 good, 0 damaged\n")
    assert record.read_bytes() == before

    def better(values: dict[str, Any]) -> None:
        for scores in values["test"]["bfs"]["id"]:
            scores.update(pi=0.75, score=0.75)

    change(record, better, seal=False)
    code, printed = check(old)
    assert code == 1
    assert "another SHA-256 of it" in printed
    code, printed = manifest(old)  # an edited record does not become a good one this way
    assert code == 2
    assert "is not the file that" in printed

    record.write_bytes(before)
    shutil.copytree(old / "mpnn", old / "pgn")
    assert "not named in" in "; ".join(check_file(old / "pgn" / "bfs.json").problems)
    shutil.rmtree(old / "pgn")
    record.unlink()
    code, printed = check(old)
    assert code == 1
    assert f"{record}: named in the manifest, but it is not there" in printed


def test_records_with_a_digest_need_no_manifest(folder: Path) -> None:
    code, printed = manifest(folder)
    assert code == 0
    assert "each carries its own digest" in printed
    assert not (folder / "manifest.json").exists()


def test_published_weights_are_scored_again(old: Path) -> None:
    code, printed = check(old, "--rescore", "1")
    assert code == 0, printed
    assert "agrees" in printed and "1 of 1 records scored again, 0 scores differ" in printed

    def better(values: dict[str, Any]) -> None:
        for seeds in values["test"]["bfs"].values():
            for scores in seeds:
                scores.update(pi=scores["pi"] + 0.01, score=scores["score"] + 0.01)

    change(old / "mpnn" / "bfs.json", better, seal=False)
    code, printed = check(old, "--rescore")
    assert code == 1
    assert "differs by more than 0.5 points" in printed

    code, printed = check(old, "3")
    assert code == 2
    assert "expected --rescore with it" in printed
