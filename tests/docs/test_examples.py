"""The scripts in examples/ run."""

import runpy
from pathlib import Path

import pytest

import narkit

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_script(name: str, *arguments: str):
    return runpy.run_path(str(EXAMPLES / name))["main"](*([list(arguments)] if arguments else []))


def test_every_script_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"ask_a_network.py", "own_algorithm.py", "train_small.py"}
    for path in EXAMPLES.glob("*.py"):
        assert f"python examples/{path.name}" in path.read_text()


def test_ask_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    run_script("ask_a_network.py")
    assert "Ulm → Augsburg → Munich" in capsys.readouterr().out


def test_own_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        run_script("own_algorithm.py")
    finally:
        narkit.ALGORITHMS._algorithms.pop("largest", None)
    assert capsys.readouterr().out.startswith("largest: 1 after 4 steps\n<transformed Batch of largest: 32 samples, 8 ")


@pytest.mark.slow
def test_train_small(capsys: pytest.CaptureFixture[str]) -> None:
    scores = run_script("train_small.py", "--steps", "2", "--hidden-size", "4", "--processors", "mpnn")
    assert len(scores["mpnn"]) == 2
    assert "on 64 nodes, one per seed" in capsys.readouterr().out
