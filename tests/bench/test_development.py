"""The development runs behind docs/beyond.md: its tables are what the results say."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

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
    path = tmp_path / "one_direction" / "team_plus" / "bfs.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    row = "| bfs | `one_direction` | 2000 | 60.0 ± 14.1 (2) | 60.0 ± 14.1 (2) | 60.0 ± 14.1 (2) |  |  | 6 |"
    assert row in tables.development_runs()
