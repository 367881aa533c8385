"""The development runs behind docs/beyond.md: its tables are what the results say."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import narkit

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


def test_the_reading_with_the_highest_mean_is_taken(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    readings = importlib.import_module("readings")
    assert readings.section(readings.scores(readings.FOLDER)) in (ROOT / "docs" / "reproduction.md").read_text()
    some = {"second_to_sender": {row: [60.0, 70.0] for row in readings.ALGORITHMS}}
    assert "| 65.0 ± 7.1 (2) | 65.0 |\n\nNot all of it has been run" in readings.section(some)
    assert "| not run yet |" in readings.section({"second_to_sender": {"mst_prim": [60.0, 70.0]}})
    all_of_them = {
        name: {row: [float(i), i + 1.0] for row in readings.ALGORITHMS} for i, name in enumerate(readings.VARIANTS)
    }
    assert "Taken: edges from third nodes, values of the receiver's edges." in readings.section(all_of_them)
    for system in readings.VARIANTS.values():
        config = system.config("mst_prim")
        assert (config.average, config.hint_gradient, config.test) == (0.0, 1.0, False) and config.scored
        del narkit.SYSTEMS[system.name]


def test_the_ablation_is_a_table_of_systems(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    tables = importlib.import_module("tables")
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    assert tables.ablation() == "It has not been run.\n"
    for system, score in (("team_plus", 0.9), ("without_scale", 0.7)):
        scores = {key: [{"score": score}, {"score": score}] for key in ("ood", "ood_average", "last_average")}
        timings = dict.fromkeys(("compiling", "training", "validating"), 2.0)
        path = tmp_path / "ablation" / system / "bfs.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"scored": {"dev": {"bfs": scores}}, "steps": 4000, "timings": timings}))
    assert "| `without_scale` | -20.0 over 1 | 70.0 ± 0.0 (2) |" in tables.ablation()
    assert "`ablation`" not in tables.development_runs()


def test_early_binary_search_is_a_table_of_systems(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    tables = importlib.import_module("tables")
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    assert tables.early_binary_search() == "It has not been run.\n"
    for system, (first, second) in {"team_plus": (0.7, 0.8), "without_scale": (0.8, 0.9)}.items():
        curve = [{"average_scores": {"id": [first, second], "ood": [value, second]}} for value in (first, second)]
        path = tmp_path / "early" / system / "binary_search.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"curve": curve}))
    page = tables.early_binary_search()
    assert "| `team_plus` | 75.0 ± 7.1 (2) | 77.5 ± 3.5 (2) |  |  |" in page
    assert "| `without_scale` | 85.0 ± 7.1 (2) | 87.5 ± 3.5 (2) | +10.0 | +2.8 |" in page


def test_every_system_of_the_ablation_differs_in_one_option(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    systems = importlib.import_module("ablation")
    try:
        whole = systems.WHOLE.config("bfs")
        for system in (*systems.ARMS.values(), systems.COPYING):
            config = system.config("bfs")
            differing = [name for name, value in vars(config).items() if value != getattr(whole, name)]
            options = dict(config.processor_options)
            assert len(differing) == 1 and len(options) <= 1
            assert system.under("development").config("bfs").seeds == (100, 101, 102)
    finally:
        for system in (*systems.ARMS.values(), systems.COPYING):
            narkit.SYSTEMS.pop(system.name)
        sys.modules.pop("ablation")
