"""The development runs behind docs/beyond.md: its table is what the results say, and a run can be repeated."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "benchmarks" / "development"


def call(*arguments: str | Path) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_the_table_is_what_the_results_say():
    assert call(SCRIPTS / "tables.py", "--check").returncode == 0


def test_records_are_lines_of_the_table(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    tables = importlib.import_module("tables")
    scores = {rule: [{"score": 0.5}, {"score": 0.7}] for rule in ("ood", "ood_average", "last_average")}
    timings = dict.fromkeys(("compiling", "training", "validating"), 2.0)
    record = {"scored": {"dev": {"bfs": scores}}, "steps": 2000, "timings": timings}
    path = tmp_path / "no_mean" / "team_plus" / "bfs.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    row = "| bfs | `no_mean` | 2000 | 60.0 ± 14.1 (2) | 60.0 ± 14.1 (2) | 60.0 ± 14.1 (2) |  |  | 6 |"
    assert row in tables.development_runs()


@pytest.mark.slow
def test_a_run_trains_and_scores_an_arm(tmp_path):
    results = tmp_path / "results.jsonl"
    small = ["--width", "8", "--every", "6", "--sizes", "4", "5", "--validation-size", "5", "--test-size", "6"]
    done = call(SCRIPTS / "run.py", "floyd_warshall", "ank", "12", "2", results, *small)
    assert done.returncode == 0, done.stderr
    line = json.loads(results.read_text())
    assert line["steps"] == 12 and line["seeds"] == [100, 101] and len(line["curve"]) == 2
    assert all(0 <= score <= 100 for scores in line["score"].values() for score in scores)


@pytest.mark.slow
def test_gradients_of_the_loop_are_those_of_an_unrolled_one():
    done = call(SCRIPTS / "gradients.py", "matrix_chain_order", "all", "4", "8")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 1e-5


@pytest.mark.slow
def test_a_run_of_a_protocol_is_a_line_for_every_validation(tmp_path):
    results = tmp_path / "results.jsonl"
    small = ["--width", "8", "--points", "2", "--seeds", "2", "--sizes", "4", "--far", "6"]
    done = call(SCRIPTS / "protocol.py", "bfs", "plus_through", "4", results, *small)
    assert done.returncode == 0, done.stderr
    first, last = (json.loads(line) for line in results.read_text().splitlines())
    assert (first["step"], last["step"]) == (2, 4) and last["seeds"] == [100, 101]
    assert set(last["average_scores"]) == {"ood", "far"}
