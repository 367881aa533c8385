"""Wheels carry the published weights: one of them is built, installed where nothing else is, and solves."""

import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
LARGEST_WHEEL = 100_000_000  # bytes
CHECK = """
import json, pathlib, narkit
from narkit.solve.weights import published
answer = narkit.solve("dijkstra", [("Ulm", "Augsburg", 80), ("Augsburg", "Munich", 66)], source="Ulm")
assert "site-packages" in narkit.__file__, narkit.__file__
print(json.dumps({"names": [entry.full_name for entry in published()], "truth": answer.truth["lengths"]}))
"""


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_published_weights_go_into_the_wheel(hook: ModuleType) -> None:
    files, left_out = hook.chosen(ROOT / "results")
    assert {file for file in files if file.suffix == ".safetensors"} | {
        file for name in left_out for file in (ROOT / "results" / name).glob("*.safetensors")
    } == set((ROOT / "results").glob("*/*/*.safetensors"))
    assert all(file.with_suffix(".json") in files for file in files)
    assert sum(file.stat().st_size for file in files) <= hook.LARGEST_SUM < LARGEST_WHEEL


def test_the_lowest_scores_go_first(hook: ModuleType, tmp_path: Path) -> None:
    for system, score in (("weak", 0.2), ("strong", 0.9), ("middling", 0.5)):
        folder = tmp_path / "sweep" / system
        folder.mkdir(parents=True)
        (folder / "bfs.safetensors").write_bytes(bytes(1000))
        record = {"config": {"seeds": [3]}, "weights": {"seed": 3, "rule": "ood"}}
        (folder / "bfs.json").write_text(json.dumps(record | {"test": {"bfs": {"ood": [{"score": score}]}}}))
    files, left_out = hook.chosen(tmp_path, largest_sum=2500)
    assert [file.parent.name for file in files] == ["strong", "strong", "middling", "middling"]
    assert left_out == ["sweep/weak"]


@pytest.mark.slow
def test_a_wheel_solves_on_its_own(tmp_path: Path) -> None:
    own = ("PYTHON", "NARKIT", "JAX_", "NUMBA_", "XLA_")  # what the tests set for themselves
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            [str(word) for word in command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    options = ("--quiet", "--disable-pip-version-check", "--constraint", ROOT / "constraints.txt")
    run(sys.executable, "-m", "pip", "wheel", *options, "--no-deps", "--wheel-dir", tmp_path / "wheels", ROOT)
    (wheel,) = (tmp_path / "wheels").glob("narkit-*.whl")
    assert wheel.stat().st_size <= LARGEST_WHEEL
    with zipfile.ZipFile(wheel) as archive:
        assert "narkit/py.typed" in archive.namelist()  # type checkers of others read narkit's annotations
        carried = [name for name in archive.namelist() if name.endswith(".safetensors")]
    assert len(carried) == len(set(carried)) >= 30

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", *options, wheel)
    said = json.loads(run(python, "-c", CHECK).splitlines()[-1])
    assert said["truth"] == {"Ulm": 0, "Augsburg": 80, "Munich": 146}
    assert {f"narkit/weights/{name}.safetensors" for name in said["names"]} == set(carried)
    narkit = python.with_name("narkit")
    assert "--steps" in run(narkit, "demo", "--help")
    for words, name in ((), "dijkstra"), (("processors",), "triplet_gmpnn"), (("presets",), "paper"):
        assert name in run(narkit, "list", *words)
    assert run(narkit, "solve", "quicksort", "5", "3", "1", "2").startswith("quicksort on 4 nodes")
