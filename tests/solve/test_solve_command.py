"""`narkit solve` and `narkit weights`: what they print, and that mistakes end in one clear line and exit code 2."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import narkit
from narkit.cli import app
from narkit.solve.examples import EXAMPLES
from narkit.solve.weights import VARIABLE

QUICK = ("quicksort", "dijkstra", "kmp_matcher")


def narkit_command(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160", "NO_COLOR": "1"}, terminal_width=160)


def run_example(algorithm: str, *options: str) -> Result:
    for name, text in EXAMPLES[algorithm].files.items():
        Path(name).write_text(text)
    result = narkit_command(*shlex.split(EXAMPLES[algorithm].command(algorithm))[1:], *options)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def weights(make_weights: Callable[..., Path]) -> Path:
    return make_weights(*QUICK)


@pytest.fixture(autouse=True)
def _in_a_folder(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, str(weights))


@pytest.mark.parametrize("algorithm", QUICK)
def test_examples_run(algorithm: str) -> None:
    output = run_example(algorithm).output
    assert output.startswith(f"{algorithm} on ")
    read = json.loads(run_example(algorithm, "--json").output)
    assert read["algorithm"] == algorithm and read["weights"] == f"team/{algorithm}"
    assert {"outputs", "truth", "agrees", "differences", "first_error", "notes", "warnings"} <= set(read)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", EXAMPLES)
def test_examples_run_with_the_published_networks(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    read = json.loads(run_example(algorithm, "--json").output)
    assert read["scored"]["size"] >= 16
    assert set(read["outputs"]) >= set(read["truth"]) - {"left_out"}


def test_many_instances_at_once() -> None:
    lines = [{"keys": [3, 1, 2, 5]}, {"keys": [9, 8, 7, 6]}]
    Path("lists.jsonl").write_text("\n".join(map(json.dumps, lines)))
    read = json.loads(narkit_command("solve", "quicksort", "--instances", "lists.jsonl", "--json").output)
    assert [answer["truth"]["sorted"] for answer in read] == [[1, 2, 3, 5], [6, 7, 8, 9]]
    graphs = [{"edges": [["a", "b", 1], ["b", "c", 2], ["a", "c", 9]], "source": "a"}]
    Path("graphs.jsonl").write_text("\n".join(map(json.dumps, graphs)))
    read = json.loads(narkit_command("solve", "dijkstra", "--instances", "graphs.jsonl", "--json").output)
    assert read[0]["truth"]["lengths"] == {"a": 0, "b": 1, "c": 3}
    answers = narkit.solve("quicksort", instances=[[3, 1, 2, 5], {"keys": [4, 3, 2, 1]}, ([1, 2, 3, 4],)])
    assert [answer.truth["sorted"] for answer in answers] == [[1, 2, 3, 5], [1, 2, 3, 4], [1, 2, 3, 4]]


def test_a_matrix_from_a_file() -> None:
    Path("matrix.csv").write_text("0,2,0\n2,0,3\n0,3,0\n")
    read = json.loads(narkit_command("solve", "dijkstra", "--matrix", "matrix.csv", "--source", "0", "--json").output)
    assert read["truth"]["lengths"] == {"0": 0, "1": 2, "2": 5}


@pytest.mark.parametrize("command", ["solve", "weights"])
def test_help_ends_in_examples(command: str) -> None:
    lines = [line.strip() for line in narkit_command(command, "--help").output.splitlines() if line.strip()]
    examples = lines[lines.index("Examples:") + 1 :]
    assert examples and all(line.startswith(f"narkit {command}") for line in examples)


@pytest.mark.parametrize("algorithm", EXAMPLES)
def test_help_shows_the_example_of_an_algorithm(algorithm: str) -> None:
    result = narkit_command("solve", algorithm, "--help")
    assert result.exit_code == 0
    lines = [line.strip() for line in result.output.splitlines()]
    assert EXAMPLES[algorithm].command(algorithm) in lines
    for name, text in EXAMPLES[algorithm].files.items():
        assert f"{name}:" in lines and set(text.split("\n")) <= set(lines)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("solve", "Missing argument"),
        ("solve quiksort 1 2", "no algorithm is named 'quiksort'; did you mean 'quicksort'?"),
        ("solve quicksort", "quicksort needs keys; for example: narkit solve quicksort 5 3 1 2"),
        ("solve quicksort 5 x 1", "expected numbers only or strings only"),
        ("solve quicksort 5 nan", "expected a finite number"),
        ("solve quicksort 5 3 --source a", "quicksort takes no --source"),
        ("solve quicksort 5 3 --wights team/quicksort", "no option is named --wights"),
        ("solve quicksort 5 3 --weights team/quicksrt", "no network is named 'team/quicksrt'"),
        ("solve quicksort 5 3 --weights team/dijkstra", "expected a network for quicksort, got one for dijkstra"),
        ("solve dijkstra", "dijkstra needs either --edges or --matrix"),
        ("solve dijkstra --edges nowhere.csv --source a", "expected a CSV file, but there is none"),
        ("solve dijkstra --edges cities.csv", "dijkstra needs --source"),
        ("solve dijkstra --edges cities.csv --source Ulmm", "no node is named 'Ulmm'; did you mean 'Ulm'?"),
        ("solve binary_search 1 2 3", "binary_search needs --target"),
        ("solve binary_search 1 2 3 --target x", "expected a number like the keys"),
        ("solve kmp_matcher --text abc", "kmp_matcher needs --pattern"),
        ("solve optimal_bst --probabilities 1,x --gaps 1", "--probabilities: expected a number, got 'x'"),
        ("solve quicksort --instances nowhere.jsonl", "expected a file with one JSON object a line"),
        ("solve quicksort 1 2 --instances cities.csv", "expected --instances alone"),
        ("solve quicksort --instances cities.csv", "expected a JSON object"),
        ("weights bsf", "did you mean 'bfs'?"),
    ],
)
def test_mistakes_end_in_one_clear_line(line: str, message: str) -> None:
    Path("cities.csv").write_text(EXAMPLES["dijkstra"].files["cities.csv"])
    result = narkit_command(*shlex.split(line))
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.replace("│", " ").split()), result.output


def test_weights_are_listed(weights: Path) -> None:
    lines = narkit_command("weights").output.splitlines()
    assert [line.split()[0] for line in lines] == ["team/dijkstra", "team/kmp_matcher", "team/quicksort"]
    (row,) = json.loads(narkit_command("weights", "quicksort", "--json").output)
    assert row["file"] == str(weights / "team" / "quicksort.safetensors")
    assert row["score"] is None and row["record"] is None and len(row["sha256"]) == 64
    assert row["sha256"] in lines[2]


def test_published_weights_are_listed_with_their_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    rows = json.loads(narkit_command("weights", "--json").output)
    assert len(rows) >= 30
    for row in rows:
        assert 0 <= row["score"] <= 1 and row["agrees_with_record"] and Path(row["record"]).is_file()


@pytest.mark.slow
def test_a_second_process_compiles_nothing_but_a_probe(tmp_path: Path) -> None:
    """What the published network needs is on disk by then; the probe asks XLA whether it knows an option."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in (VARIABLE, "JAX_LOG_COMPILES", "JAX_COMPILATION_CACHE_DIR")
    }
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "JAX_LOG_COMPILES": "1"}
    command = [sys.executable, "-m", "narkit", "solve", "quicksort", "5", "3", "1", "2"]
    said = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=600).stderr
        for _ in range(2)
    ]
    assert "Persistent compilation cache hit for 'jit__predict'" not in said[0]
    assert "Persistent compilation cache hit for 'jit__predict'" in said[1]
    assert said[1].count("Compiling jit(") <= 2
