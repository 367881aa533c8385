"""The command line: what it prints, what it writes, and that mistakes end in one clear line and exit code 2."""

import dataclasses
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner, Result

import narkit
from narkit.cli import app
from narkit.cli.listing import LISTS
from narkit.cli.show import print_run
from narkit.data.execution import random_run
from narkit.data.lengths import PROCESSOR_STEPS, SIZES, measured_steps
from narkit.interop import tables
from narkit.report.picture import draw
from narkit.training.presets import IN_WORDS, PRESETS

COMMANDS = [
    ["list"], ["data", "show"], ["data", "export"], ["bench", "data"], ["train"], ["eval"], ["report"], ["demo"],
    ["sweep"], ["records", "check"], ["compare"], ["view"],
]  # fmt: skip


def narkit_command(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160", "NO_COLOR": "1"}, terminal_width=160)


def error_of(result: Result) -> str:
    """The error as one line: it is printed in a box, which breaks lines."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("command", [[], ["data"], ["bench"], ["records"], *COMMANDS], ids=" ".join)
def test_help_ends_in_examples(command: list[str]) -> None:
    result = narkit_command(*command, "--help")
    assert result.exit_code == 0
    lines = [line.strip() for line in result.output.splitlines() if line.strip()]
    examples = lines[lines.index("Examples:") + 1 :]
    assert examples
    assert all(line.startswith(f"narkit {' '.join(command)}".strip()) or "--import" in line for line in examples)


def help_texts(command: Any, words: str = "narkit") -> Iterator[tuple[str, str]]:
    yield words, command.help or ""
    for parameter in command.params:
        if not getattr(parameter, "hidden", False) and parameter.name != "help":
            yield f"{words} {parameter.opts[0]}", getattr(parameter, "help", "") or ""
    for name, child in getattr(command, "commands", {}).items():
        yield from help_texts(child, f"{words} {name}")


def test_every_help_text_is_a_sentence() -> None:
    for where, text in help_texts(get_command(app)):
        sentence = text.split("\n\n")[0].strip()
        assert sentence.endswith(".") and sentence[0].isupper() and len(sentence.split()) > 2, f"{where}: {text!r}"
        assert sentence.split()[0] not in ("That", "Of"), f"{where}: {text!r} is a fragment"


def test_version() -> None:
    assert narkit_command("--version").output == f"narkit {narkit.__version__}\n"


def test_list_names_every_algorithm() -> None:
    output = narkit_command("list").output
    for name, algorithm in narkit.ALGORITHMS.items():
        row = next(line for line in output.splitlines() if f" {name} " in line)
        assert algorithm.category in row


@pytest.mark.parametrize("what", LISTS)
def test_lists_fit_80_columns_and_cut_no_word(what: str) -> None:
    result = CliRunner().invoke(app, ["list", what], env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    assert max(len(line.rstrip()) for line in result.output.splitlines()) <= 80
    assert "…" not in result.output
    listed = json.loads(narkit_command("list", what, "--json").output)
    assert listed and all(entry["name"] in result.output.split() for entry in listed)
    words = set(re.findall(r"[\w.-]+", result.output))
    for entry in listed:  # every word of a summary or category stands there whole
        text = entry["category"] if what == "algorithms" else entry.get("summary", "")
        assert set(re.findall(r"[\w.-]+", text)) <= words


def test_lists_for_machines() -> None:
    listed = {entry["name"]: entry for entry in json.loads(narkit_command("list", "--json").output)}
    assert set(listed) == set(narkit.ALGORITHMS)
    bfs = listed["bfs"]
    assert bfs["outputs"]["pi"] == {
        "location": "node", "kind": "pointer", "meaning": narkit.ALGORITHMS["bfs"].spec["pi"].meaning,
    }  # fmt: skip
    assert bfs["typical_steps"] == 8 and bfs["summary"].startswith("Breadth-first")
    names = [entry["name"] for entry in json.loads(narkit_command("list", "processors", "--json").output)]
    assert names == list(narkit.PROCESSORS)


def test_one_preset_has_every_setting() -> None:
    paper = json.loads(narkit_command("list", "presets", "paper", "--json").output)
    fields = {field.name for field in dataclasses.fields(narkit.TrainConfig)}
    assert set(paper["settings"]) >= fields - {"algorithms", "rules"}
    assert paper["settings"]["steps"] == 10_000 and paper["settings"]["hidden_size"] == 128  # also what is the default
    output = narkit_command("list", "presets", "paper").output
    assert "The protocol of Jung & Ahn (2023)" in output and re.search(r"^ +hidden_size +128 *$", output, re.MULTILINE)


@pytest.mark.parametrize(("what", "name", "expected"), [
    ("algorithms", "bfs", "nodes reached so far (node, mask)"),
    ("processors", "team_plus", "both_directions"),
    ("systems", "triplet_gmpnn_ood_val", "Triplet-GMPNN + OOD val"),
    ("rules", "ood_average", "averaged"),
])  # fmt: skip
def test_one_of_each_list_is_told_in_80_columns(what: str, name: str, expected: str) -> None:
    result = CliRunner().invoke(app, ["list", what, name], env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    assert max(len(line.rstrip()) for line in result.output.splitlines()) <= 80 and "…" not in result.output
    assert expected in " ".join(result.output.split())


def test_every_preset_is_told_in_words() -> None:
    assert set(IN_WORDS) == set(PRESETS)
    summaries = [entry["summary"] for entry in json.loads(narkit_command("list", "processors", "--json").output)]
    assert all(summaries) and len(set(summaries)) == len(summaries)  # no two processors are told alike


def test_the_steps_of_batches_are_those_measured() -> None:
    known = {name: steps[SIZES.index(16)] for name, steps in PROCESSOR_STEPS.items()}
    assert {name: measured_steps(name, 16) for name in known} == pytest.approx(known, abs=0.06)


def test_show_follows_the_run() -> None:
    result = narkit_command("data", "show", "bfs", "--size", "5", "--seed", "1")
    assert result.exit_code == 0, result.output
    for probe in narkit.ALGORITHMS["bfs"].spec.values():
        assert probe.meaning in result.output
    assert "step 3 of 3" in result.output
    assert "→4*" in result.output  # a pointer that has just changed
    assert narkit_command("data", "show", "bfs", "--size", "5", "--seed", "1").output == result.output


@pytest.mark.parametrize("name", sorted(narkit.ALGORITHMS))
def test_every_run_can_be_followed(name: str) -> None:
    console = Console(file=io.StringIO(), width=100)
    batch = random_run(name, size=6, seed=0, density=0.7)
    print_run(console, batch)
    output = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"step {batch.lengths[0]} of {batch.lengths[0]}" in output
    for probe_name, probe in batch.spec.items():
        assert len(probe.meaning.split()) > 1, f"{name}.{probe_name} needs its meaning in words"
        assert re.search(rf"^\s*{probe_name}\b", output, re.MULTILINE), f"{probe_name} is not shown"
    assert max(map(len, output.splitlines())) <= 100
    assert draw(batch) is not None


def test_show_stops_where_asked() -> None:
    output = narkit_command("data", "show", "insertion_sort", "--size", "6", "--max-steps", "2").output
    assert "step 2 of 6" in output
    assert "step 3 of 6" not in output
    assert "4 more steps" in output


@pytest.mark.parametrize("name", ["bfs", "insertion_sort"])
def test_show_draws(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "run.png"
    assert narkit_command("data", "show", name, "--picture", str(picture)).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_export_writes_what_the_split_holds(tmp_path: Path) -> None:
    out = tmp_path / "bfs.npz"
    result = narkit_command("data", "export", "bfs", "--split", "val", "--out", str(out))
    assert result.exit_code == 0, result.output
    batch = narkit.load_split("bfs", "val")
    with np.load(out) as written:
        assert set(written) == {
            "input_pos", "input_s", "input_A", "input_adj", "hint_reach_h", "hint_pi_h", "output_pi", "lengths",
        }  # fmt: skip
        assert np.array_equal(written["hint_pi_h"], batch.hints["pi_h"])
        assert np.array_equal(written["lengths"], batch.lengths)
    assert [file.name for file in tmp_path.iterdir()] == ["bfs.npz"]


def test_export_draws_new_samples(tmp_path: Path) -> None:
    out = tmp_path / "minimum.parquet"
    options = ("--size", "5", "--count", "3", "--seed", "1000", "--out", str(out))
    result = narkit_command("data", "export", "minimum", *options)
    assert result.exit_code == 0 and "3 samples, 5 nodes" in result.output
    assert out.read_bytes().startswith(b"PAR1")


def test_export_replaces_nothing_unasked(tmp_path: Path) -> None:
    out = tmp_path / "bfs.npz"
    out.write_text("mine")
    arguments = ("data", "export", "bfs", "--split", "val", "--out", str(out))
    assert "--force" in error_of(narkit_command(*arguments))
    assert out.read_text() == "mine"
    assert narkit_command(*arguments, "--force").exit_code == 0
    assert out.read_bytes().startswith(b"PK")


def test_export_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(KeyboardInterrupt):
        tables.write(narkit.sample("bfs", size=4), tmp_path / "bfs.npz")
    assert list(tmp_path.iterdir()) == []


def test_export_gives_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    tables.write(narkit.sample("bfs", size=4), tmp_path / "bfs.npz")
    assert (tmp_path / "bfs.npz").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["data", "show", "bsf"], "no algorithm is named 'bsf'; did you mean 'bfs'?"),
        (["data", "show", "bfs", "--sise", "4"], "--size"),
        (["data", "show", "bfs", "--size", "1"], "expected a size of at least 2, got 1"),
        (["data", "show", "bfs", "--seed", "-1"], "--seed"),
        (["data", "show", "bfs", "--picture", "run.bmp"], "ends in .png, .svg, .pdf, got 'run.bmp'"),
        (["data", "export", "bfs", "--split", "tset", "--out", "x.npz"], "did you mean 'test'?"),
        (["data", "export", "bfs", "--out", "no/such/folder/x.npz"], "no/such/folder does not exist"),
        (["data", "export", "bfs", "--out", "x.csv"], "a name that ends in .npz or .parquet, got .csv"),
        (["data", "export", "bfs", "--size", "1", "--out", "x.npz"], "expected a size of at least 2, got 1"),
        (["data", "export", "bfs", "--count", "0", "--out", "x.npz"], "expected at least 1 sample"),
        (["list", "processor"], "did you mean 'processors'?"),
        (["list", "presets", "papr"], "no preset is named 'papr'; did you mean 'paper'?"),
        (["bench", "data", "--sizes", "16;64"], "such as 16,64; got '16;64'"),
        (["bench", "data", "--sizes", "0"], "--sizes: expected sizes of at least 1, got 0"),
        (["bench", "data", "--algorithms", "bfs,dijkstr"], "did you mean 'dijkstra'?"),
        (["bench", "data", "--reference-python", "no_such_python"], "give a Python that has dm-clrs"),
        (["--import", "no_such_module", "list"], "No module named 'no_such_module'"),
        (["dat"], "data"),
        (["train", "--algorithm", "bsf"], "did you mean 'bfs'?"),
        (["train", "--algorithm", "bfs", "--processor", "tema"], "did you mean 'team'?"),
        (["train", "--algorithm", "bfs", "--preset", "papr"], "did you mean 'paper'?"),
        (["train", "--algorithm", "bfs", "--set", "step=3"], "did you mean 'steps'?"),
        (["train", "--algorithm", "bfs", "--set", "steps"], "expected name=value"),
        (["train", "--algorithm", "bfs", "--steps", "0"], "steps: expected at least 1, got 0"),
        (["train"], "expected a name, or --resume RUN"),
        (["train", "--resume", "no_such_run"], "expected the folder of a run"),
        (["train", "--resume", "no_such_run", "--steps", "3"], "expected no options of the run, got --steps"),
        (
            ["train", "--resume", "run", "--seeds", "3", "--preset", "quick"],
            "the run, got --seeds, --preset: its folder",
        ),
        (["train", "--resume", "run", "--preset", "paper", "--set", "a=1"], "the run, got --preset, --set: its folder"),
        (["eval", "no_such_run"], "expected the folder of a run"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_explained(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert expected in error_of(narkit_command(*arguments))
    assert list(tmp_path.iterdir()) == []


def test_bench_writes_its_record(tmp_path: Path) -> None:
    arguments = ("--algorithms", "bfs", "--sizes", "8", "--seconds", "0.01", "--out", str(tmp_path / "data"))
    result = narkit_command("bench", "data", *arguments)
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "data.json").read_text())
    assert record["cells"][0]["algorithm"] == "bfs"
    assert record["cells"][0]["ours"] > 0
    assert {"cpu", "commit", "versions", "startup"} <= set(record)
    assert "| bfs |" in (tmp_path / "data.md").read_text()
