"""`narkit bench train`: what it stores, how it goes on, and how it ends where something is wrong."""

import dataclasses
import json
import stat
import sys
from pathlib import Path

import jax
import pytest
from typer.testing import CliRunner, Result

from narkit.bench import training_steps
from narkit.bench.evaluations import Evaluations
from narkit.bench.train import BenchOptions, pipelined, warm_up
from narkit.bench.train_record import (
    NARKIT,
    PLAIN,
    BenchRecord,
    Compilation,
    EvaluationTime,
    FailedMeasurement,
    Measurement,
)
from narkit.bench.train_report import as_markdown
from narkit.bench.training_steps import NarkitStep
from narkit.cli import app
from narkit.data.stream import TrainingStream
from narkit.spec import ALGORITHMS
from narkit.training.config import TrainConfig, Validation
from narkit.training.evaluation import LARGEST_WHOLE, TEST_PART
from narkit.training.feed import Feed, TrainingBatch
from narkit.training.trainer import IN_FLIGHT, TURN, Trainer

SMALL = ["--algorithm", "bfs", "--processor", "mpnn", "--sizes", "4,5", "--seeds", "2", "--steps", "2"]
SMALL += ["--hidden-size", "4", "--batch-size", "2", "--threads", "1"]


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "train", *arguments])


def words(result: Result) -> str:
    """What was printed, without the frame and the line breaks of error messages."""
    return " ".join(result.output.replace("│", " ").split())


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "train.json"
    result = bench(*SMALL, "--out", str(path))
    assert result.exit_code == 0, result.output
    assert "not counted" in words(result)  # kernels are counted on GPUs
    return path


def test_the_record_has_every_size_with_its_times(stored: Path) -> None:
    record = BenchRecord.from_json(stored.read_text())
    assert record.complete and not record.failures and record.backend == "cpu"
    assert [cell.place for cell in record.cells] == [(NARKIT, "mpnn", "bfs", 4), (NARKIT, "mpnn", "bfs", 5)]
    for cell in record.cells:
        assert cell.step_ms > cell.processor_step_ms > 0
        assert 1 <= cell.processor_steps <= cell.size
        assert 0 <= cell.waiting_share < 1
        assert cell.launches is None and cell.launched("forward") is None
        assert cell.compile_seconds and min(cell.compile_seconds) > 0
        assert cell.program_bytes is not None and cell.program_bytes > 0
        assert set(cell.paths.values()) <= {"fused", "plain"}
    assert [c.programs for c in record.compilations] == [sum(len(cell.compile_seconds) for cell in record.cells)]


def test_the_page_is_written_beside_the_record(stored: Path) -> None:
    page = stored.with_suffix(".md").read_text()
    assert page == as_markdown(BenchRecord.from_json(stored.read_text()))
    assert "## mpnn (narkit)" in page and page.count("| bfs | 4 |") == 1
    assert "plain JAX" not in page and "Failures" not in page


def test_the_stored_page_is_that_of_the_stored_record() -> None:
    folder = Path(__file__).parents[2] / "benchmarks"
    record = BenchRecord.from_json((folder / "train.json").read_text())
    assert (folder / "train.md").read_text() == as_markdown(record), "make it with train_report.as_markdown"


def test_appending_measures_only_what_is_missing(stored: Path) -> None:
    before = BenchRecord.from_json(stored.read_text()).cells
    result = bench(*SMALL, "--out", str(stored), "--append")
    assert result.exit_code == 0, result.output
    assert BenchRecord.from_json(stored.read_text()).cells == before


def test_appending_to_other_measurements_is_refused(stored: Path) -> None:
    result = bench(*SMALL, "--hidden-size", "8", "--out", str(stored), "--append")
    assert result.exit_code == 2 and "hidden_size 4" in words(result)
    other = stored.with_name("other.json")
    other.write_text(json.dumps(json.loads(stored.read_text()) | {"schema": 1}))
    result = bench(*SMALL, "--out", str(other), "--append")
    assert result.exit_code == 2 and "cannot be continued" in words(result)


def test_a_preset_gives_the_settings_of_a_step(stored: Path) -> None:
    config = BenchOptions(("bfs",), preset="clrs2022", sizes=(16,)).config("mpnn", "bfs")
    assert (config.teacher_forcing, config.reprediction, config.gradient_clip) == (0.5, "hard", 0.0)
    assert not config.fixed_training_set  # which a step does not depend on
    plus = BenchOptions(("bfs",), preset="plus").config("team", "bfs")
    assert plus.averages and plus.skipped_steps == 50 and plus.hint_gradient == 0.5
    assert BenchOptions(("bfs",)).config("team", "bfs").unrolling == TrainConfig(("bfs",)).unrolling
    further = BenchOptions(("bfs",), preset="plus", settings={"hint_gradient": 0.7}).config("team", "bfs")
    assert further.averages and further.hint_gradient == 0.7
    record = BenchRecord.from_json(stored.read_text())
    assert record.preset == "paper" and "preset" not in as_markdown(record)
    assert "hint_gradient = 0.7" in as_markdown(dataclasses.replace(record, settings={"hint_gradient": 0.7}))
    assert "settings of the preset plus" in as_markdown(dataclasses.replace(record, preset="plus"))
    older = json.loads(stored.read_text())
    del older["preset"], older["settings"]  # as in records from before there was a choice
    path = stored.with_name("older.json")
    path.write_text(json.dumps(older))
    assert bench(*SMALL, "--budget", "0", "--out", str(path), "--append").exit_code == 0


def test_without_out_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    result = bench(*SMALL, "--budget", "0")
    assert result.exit_code == 0 and "not stored; --out FILE keeps it" in words(result)
    assert [path.name for path in tmp_path.rglob("*")] == ["benchmarks"]


@pytest.mark.parametrize(
    "name, value, options, problem",
    [
        ("device", "NVIDIA H200", [], "device NVIDIA H200"),
        ("sizes", [4, 5], ["--sizes", "4"], "sizes [4, 5]; this would be sizes [4]"),
        ("hidden_size", 4, ["--hidden-size", "8"], "hidden_size 4; this would be hidden_size 8"),
        ("batch_size", 2, ["--batch-size", "3"], "batch_size 2; this would be batch_size 3"),
        ("num_seeds", 2, ["--seeds", "1"], "num_seeds 2; this would be num_seeds 1"),
        ("preset", "paper", ["--preset", "plus"], "preset paper; this would be preset plus"),
        ("settings", {"average": 0.9}, [], "settings {'average': 0.9}; this would be settings {}"),
    ],
)
def test_other_measurements_are_not_replaced(
    name: str, value: object, options: list[str], problem: str, stored: Path
) -> None:
    other = stored.with_name(f"{name}.json")
    other.write_text(json.dumps(json.loads(stored.read_text()) | {name: value}))
    before = other.read_text()
    result = bench(*SMALL, *options, "--budget", "0", "--out", str(other))
    assert result.exit_code == 2 and problem in words(result), result.output
    assert "give another --out" in words(result) and other.read_text() == before


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON"])
def test_a_file_that_is_no_record_is_not_replaced(text: str, tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text(text)
    result = bench(*SMALL, "--budget", "0", "--out", str(path))
    assert result.exit_code == 2 and "no record of such measurements" in words(result) and path.read_text() == text


def test_the_same_measurements_are_replaced(stored: Path) -> None:
    path = stored.with_name("again.json")
    path.write_text(stored.read_text())
    result = bench(*SMALL, "--budget", "0", "--out", str(path.with_suffix("")))
    assert result.exit_code == 0, result.output
    assert BenchRecord.from_json(path.read_text()).cells == []


def test_a_spent_budget_leaves_a_record(tmp_path: Path) -> None:
    result = bench(*SMALL, "--out", str(tmp_path / "train.json"), "--budget", "0")
    assert result.exit_code == 0, result.output
    record = BenchRecord.from_json((tmp_path / "train.json").read_text())
    assert record.cells == [] and not record.complete
    assert "--append goes on" in words(result)


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["--processor", "teem"], "'team'"),
        (["--algorithm", "bsf"], "bfs"),
        (["--sizes", "4,x"], "whole numbers"),
        (["--sizes", "1"], "size"),
        (["--plain"], "expected team among the processors, got mpnn"),
        (["--append"], "expected --out with it"),
        (["--preset", "clrs2020"], "did you mean 'clrs2022'"),
        (["--processor", "team", "--plain", "--preset", "plus"], "expected --plain or this, got both"),
        (["--processor", "team", "--plain", "--set", "average=0.9"], "expected --plain or this, got both"),
        (["--set", "sizes=4"], "expected sizes by an option of its own"),
        (["--set", "edge_pointer=lossless"], "did you mean 'edge_pointers'"),
        (["--every-algorithm"], "expected --algorithm or this, got both"),
        (["--no-evaluation"], "expected --every-algorithm with it"),
    ],
)
def test_mistakes_are_named(arguments: list[str], problem: str) -> None:
    result = bench(*SMALL, *arguments)
    assert result.exit_code == 2 and problem in words(result)


COMPARED = ["--processor", "mpnn", "--steps", "2", "--hidden-size", "4", "--batch-size", "2"]


def test_a_reference_that_is_not_there_is_named() -> None:
    result = bench(*COMPARED, "--reference-python", "no/such/python")
    assert result.exit_code == 2 and "could not be started" in words(result)


@pytest.mark.parametrize(
    "unused",
    [
        ["--algorithm", "dfs"], ["--sizes", "4"], ["--seeds", "5"], ["--plain"], ["--every-algorithm"],
        ["--no-evaluation"], ["--budget", "3"], ["--append"], ["--profile", "traces"], ["--threads", "1"],
    ],
    ids=lambda unused: unused[0],
)  # fmt: skip
def test_the_comparison_refuses_what_it_does_not_take(unused: list[str]) -> None:
    result = bench(*COMPARED, "--reference-python", "no/such/python", *unused)
    name = unused[0].replace("--no-", "--")
    assert result.exit_code == 2 and f"expected none of {name} with it" in words(result)
    assert "without --reference-python" in words(result)


@pytest.mark.slow
def test_what_cannot_be_built_is_a_failure_and_the_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    wanted = ["--algorithm", "insertion_sort,bfs", "--processor", "team", "--sizes", "4", "--seeds", "1", "--plain"]
    result = bench(*SMALL, *wanted, "--out", str(path))
    assert result.exit_code == 0, result.output
    record = BenchRecord.from_json(path.read_text())
    measured = [(cell.implementation, cell.algorithm) for cell in record.cells]
    assert measured == [(NARKIT, "insertion_sort"), (NARKIT, "bfs"), (PLAIN, "bfs")]
    (failure,) = record.failures
    assert (failure.implementation, failure.algorithm, failure.size) == (PLAIN, "insertion_sort", None)
    assert "without the noise of permutations" in failure.error and record.complete
    assert "failed: insertion_sort, team (plain JAX), the network: ValueError: the plain" in words(result)


@pytest.mark.parametrize("size, where", [(None, "the network"), (0, "validation and test"), (16, "n = 16")])
def test_failures_say_what_failed(size: int | None, where: str) -> None:
    record = full_record()
    with record.recording_failures(NARKIT, "team", "bfs", size):
        raise MemoryError("too much\nof it")
    (failure,) = record.failures
    assert failure.where == where and failure.error == "MemoryError: too much"


def test_a_missing_transcription_is_not_blamed_on_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_steps, "PLAIN_SCRIPT", tmp_path / "plain_team.py")
    result = bench(*SMALL, "--processor", "team", "--plain", "--out", str(tmp_path / "train.json"))
    assert result.exit_code == 2 and "comes with the source tree" in words(result)
    assert "--plain" in words(result) and "--out" not in words(result)


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = bench(*SMALL, "--budget", "0", "--out", str(tmp_path / "file" / "train.json"))
    assert result.exit_code == 2 and "--out" in words(result)


def test_a_reference_without_dm_clrs_is_named(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    result = bench(*COMPARED, "--reference-python", str(script))
    assert result.exit_code == 2 and "exit code 3" in words(result)


def test_the_comparison_does_not_replace_other_measurements(stored: Path) -> None:
    before = stored.read_text()
    result = bench(*COMPARED, "--reference-python", "no/such/python", "--out", str(stored))
    assert result.exit_code == 2 and "no record of such measurements" in words(result)
    assert stored.read_text() == before


class TurnsOfThreads(NarkitStep):
    """A training step that only notes how long a turn of Python's threads is while it is taken."""

    def __init__(self, config: TrainConfig):
        self.config = config
        self.turns: list[float] = []

    def run(self, batch: TrainingBatch) -> jax.Array:
        self.turns.append(sys.getswitchinterval())
        return jax.numpy.zeros(1)


def test_threads_take_turns_as_often_as_in_training() -> None:
    training_step = TurnsOfThreads(TrainConfig(("bfs",), sizes=(4,), batch_size=2, seeds=(0,)))
    before = sys.getswitchinterval()
    run = pipelined(training_step, Feed(training_step.config), steps=3)
    assert len(run.processor_steps) == 3 and run.seconds > 0
    assert training_step.turns == pytest.approx([TURN] * (warm_up(3) + 3 + IN_FLIGHT))
    assert sys.getswitchinterval() == before


@pytest.mark.slow
def test_validation_and_test_are_the_programs_of_a_run() -> None:
    validations = (Validation("id", 4, 4), Validation("ood", LARGEST_WHOLE + 1, TEST_PART + 1))  # the latter in parts
    config = TrainConfig(("bfs",), "mpnn", hidden_size=4, sizes=(4,), batch_size=2, seeds=(0,), validations=validations)
    training_step = NarkitStep(config)
    evaluations = Evaluations(training_step)
    for compile_program in evaluations.compile_jobs():
        compile_program()
    compiled = set(training_step.programs._predictions)
    found = evaluations.timed()
    assert found.validation_seconds > 0 and found.test_seconds > 0
    assert set(training_step.programs._predictions) == compiled  # nothing was compiled while the clock ran
    trainer = Trainer(config)
    trainer.prepare()
    assert set(trainer.programs._predictions) == compiled


def full_record() -> BenchRecord:
    """Every algorithm: 2 ms a step, 4 processor steps, a validation of 0.1 s, a test of 1 s, 3 s of compilation."""
    sizes = [4, 16]
    record = BenchRecord(
        device="none", backend="gpu", cpu="", hidden_size=8, batch_size=2, num_seeds=5, sizes=sizes,
        compilation_cache=False, versions={}, commit="", date="",
    )  # fmt: skip
    for name, entry in ALGORITHMS.items():
        for size in entry.training_sizes(sizes):
            record.cells.append(
                Measurement(
                    NARKIT, "team", name, size, size, steps=100, processor_steps=4.0, step_ms=2.0,
                    processor_step_ms=0.5, loop_ms=0.4, outside_ms=0.4, waiting_share=0.0,
                    launches={"forward": {"fusion": 3}, "backward": {"fusion": 4}, "outside": {}},
                    compile_seconds=[1.0], program_bytes=1, peak_bytes=1, paths={"all": "plain"}, commit="", date="",
                )
            )  # fmt: skip
        record.compilations.append(Compilation(NARKIT, "team", name, 3, 3.0, 1, [1.0, 1.0, 1.0]))
        record.evaluations.append(EvaluationTime("team", name, 0.1, 1.0))
    return record


def test_the_page_compares_with_plain_jax_what_one_run_measured() -> None:
    record = full_record()
    slower = {"implementation": PLAIN, "step_ms": 9.0, "processor_step_ms": 1.0}
    ours = [cell for cell in record.cells if cell.algorithm == "bfs"]
    record.cells += [dataclasses.replace(cell, **slower) for cell in ours]
    assert "| team | bfs | 16 | 2.000 | 9.000 | 4.5× | 0.500 | 1.000 | 2.0× |" in as_markdown(record)
    record.cells[-1].commit = "another"
    assert "| team | bfs | 4 | 2.000 |" in as_markdown(record)
    assert "| team | bfs | 16 | 2.000 |" not in as_markdown(record)


def test_the_page_has_every_measurement_and_what_failed() -> None:
    record = full_record()
    assert "| bfs | 4 | 3 | 4 | 0 | 4.0 | 0.500 | 0.400 | 0.400 | 2.000 | 0.0 % | 1.0 | 0 |" in as_markdown(record)
    record.forget(NARKIT, "team", "bfs")
    record.failures.append(FailedMeasurement(NARKIT, "team", "bfs", 16, "MemoryError: too much"))
    page = as_markdown(record)
    assert "| bfs | 4 |" not in page and "- bfs, team (narkit), n = 16: MemoryError: too much\n" in page
    assert "Not complete" in page


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_sizes_are_those_of_training(name: str) -> None:
    sizes = (4, 16, 7)
    stream = TrainingStream(name, 0, sizes)
    assert {stream.size(step) for step in range(6)} == set(ALGORITHMS[name].training_sizes(sizes))


def test_a_record_reads_as_it_was_written() -> None:
    record = full_record()
    assert BenchRecord.from_json(record.to_json()) == record
    older = json.loads(record.to_json()) | {"projections": {}}  # which records had up to narkit 0.1
    assert BenchRecord.from_json(json.dumps(older)) == record


def test_measuring_the_plain_network_keeps_the_evaluations_of_the_other() -> None:
    record = full_record()
    record.forget(PLAIN, "team", "bfs")
    assert record == full_record()
    record.forget(NARKIT, "team", "bfs")
    assert "bfs" not in {entry.algorithm for entry in (*record.cells, *record.compilations, *record.evaluations)}
