"""The scripts in examples/ run, each as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run_script(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_has_a_test() -> None:
    scripts = {"ask_a_network.py", "own_algorithm.py", "train_small.py"}
    in_a_test_of_its_own = {"team_in_one_file.py"}  # of the models, which it is compared with
    assert {path.name for path in EXAMPLES.glob("*.py")} == scripts | in_a_test_of_its_own
    for path in EXAMPLES.glob("*.py"):
        assert f"python examples/{path.name}" in path.read_text()


@pytest.mark.slow  # the page "Getting started" runs the same by default
def test_ask_a_network() -> None:
    assert "Ulm → Augsburg → Munich" in run_script("ask_a_network.py")


def test_own_algorithm() -> None:
    output = run_script("own_algorithm.py")
    assert output.startswith("largest: 1 after 4 steps\n<transformed Batch of largest: 32 samples, 8 nodes")


@pytest.mark.slow
def test_train_small() -> None:
    output = run_script("train_small.py", "--steps", "2", "--hidden-size", "4", "--processors", "mpnn")
    assert output.startswith("mpnn: ") and "on 64 nodes, one per seed" in output
