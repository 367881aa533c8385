"""What sweeps are predicted to need: processor steps, costs from the benchmark, what finished cells teach, memory."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

import narkit
from narkit import machine
from narkit.bench import train_record as bench
from narkit.cli.sweep_display import print_plan
from narkit.data import lengths
from narkit.sweeps.cells import Cell, SweepDirectory, make_cells
from narkit.sweeps.costs import MeasuredCosts, measured_costs
from narkit.sweeps.memory import predicted_memory
from narkit.sweeps.plan import Predictor
from narkit.training.config import Validation
from narkit.training.record import RunRecord

TinyCells = Callable[..., list[Cell]]
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "train.json"
SMALL = (Validation("ood", 4, 1),)  # needs less memory than training
pytestmark = pytest.mark.usefixtures("program_cache")


def bench_cell(nodes: int, **values) -> bench.Measurement:
    """A measurement of TEAM on bfs: without knowledge of the loop, five steps of 0.5 ms and 0.1 us per triplet."""
    per_step = 0.5 + 1e-4 * nodes**3
    plain = bench.Measurement(
        *("narkit", "team", "bfs", nodes, nodes, 50, 5.0, 5 * per_step, per_step),
        *(None, None, 0.0, None, [9.0], None, None, {}, "", ""),
    )
    return dataclasses.replace(plain, **values)


@pytest.fixture
def write_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bench.BenchRecord]:
    """Writes a record to where a command that runs in this folder looks for it."""

    def write(cells: list[bench.Measurement], **values) -> bench.BenchRecord:
        record = bench.BenchRecord(
            *("a GPU", "gpu", "a CPU", 128, 32, 5, [cell.size for cell in cells], True, {}, "", "", True),
            cells=cells,
            compilations=[bench.Compilation("narkit", "team", "bfs", 8, 40.0, 16, [9.0])],
        )
        record = dataclasses.replace(record, **values)
        (tmp_path / "benchmarks").mkdir()
        (tmp_path / "benchmarks" / "train.json").write_text(json.dumps(dataclasses.asdict(record)))
        monkeypatch.chdir(tmp_path)
        return record

    return write


def paper_cell(algorithm: str, system: str = "team", seeds: int = 5, **options) -> Cell:
    (cell,) = make_cells("paper", [system], [algorithm], seeds, options)
    return cell


@pytest.mark.parametrize("name", ["bfs", "naive_string_matcher", "quickselect"])
def test_lengths_are_those_measured(name: str) -> None:
    measured = [lengths.measured_steps(name, size) for size in lengths.SIZES]
    assert lengths.PROCESSOR_STEPS[name] == pytest.approx(measured, abs=0.06)
    assert set(lengths.PROCESSOR_STEPS) == set(narkit.ALGORITHMS)


# Costs.


def test_costs_come_from_the_benchmark(write_benchmark: Callable[..., bench.BenchRecord]) -> None:
    write_benchmark(
        [bench_cell(nodes) for nodes in (4, 7, 16)], evaluations=[bench.EvaluationTime("team", "bfs", 0.25, 2.0)]
    )
    found = measured_costs("a GPU")
    assert dataclasses.astuple(found.costs["team"]) == pytest.approx((0.5, 1e-4, 0.0))
    assert found.seconds_per_program == 5.0

    predictor = Predictor.of_device("a GPU", "gpu")
    prediction = predictor.predict(paper_cell("bfs", sizes=(4, 16)))
    assert prediction.training == pytest.approx(10_000 * 5e-3 * (1.0 + 1e-4 * (4**3 + 16**3)) / 2)
    assert (prediction.compiling, prediction.validating, prediction.testing) == (25.0, 50 * 0.25, 5 * 2.0)
    assert prediction.measured == {"training", "validating", "testing"}
    other = predictor.predict(paper_cell("bfs", seeds=4, sizes=(4, 16)))  # measured with five seeds
    assert other.testing != prediction.testing
    assert not other.measured
    assert "training" not in predictor.predict(paper_cell("bfs", sizes=(4, 11))).measured
    assert predictor.source("team") == "benchmarks/train.json"
    assert predictor.source("mpnn") == "those of team: benchmarks/train.json"
    assert predictor.is_known and prediction.is_known


def test_costs_are_those_of_the_device_without_waiting(write_benchmark: Callable[..., bench.BenchRecord]) -> None:
    """Small graphs wait for data; with that, a step would cost less the more nodes there are."""
    waiting = [bench_cell(nodes, waiting_share=share) for nodes, share in ((4, 0.75), (7, 0.5), (16, 0.0))]
    for cell in waiting:
        cell.step_ms /= 1 - cell.waiting_share
        cell.processor_step_ms /= 1 - cell.waiting_share
    write_benchmark(waiting)
    found = measured_costs("a GPU")
    assert dataclasses.astuple(found.costs["team"]) == pytest.approx((0.5, 1e-4, 0.0))
    assert found.training_steps["team", "bfs", 4] == pytest.approx(5e-3 * (0.5 + 1e-4 * 4**3))


def test_what_lies_outside_of_the_loop_counts_once(write_benchmark: Callable[..., bench.BenchRecord]) -> None:
    write_benchmark([bench_cell(n, loop_ms=0.2 + 1e-5 * n**3, outside_ms=1.5, waiting_share=0.3) for n in (4, 7, 16)])
    cost = measured_costs("a GPU").costs["team"]
    assert dataclasses.astuple(cost) == pytest.approx((0.2, 1e-5, 1.5))
    assert cost.milliseconds(7, 10, 160, 128) == pytest.approx(1.5 + 7 * (0.2 + 1e-2))
    assert cost.milliseconds(7, 10, 80, 64) == pytest.approx(1.5 + 7 * (0.2 + 0.25e-2))


@pytest.mark.parametrize(
    ("times", "wanted"),
    [((0.5, 0.3), (0.4, 0.0)), ((0.0, 0.1), (0.0, 0.1 * 16**3 / (16**6 + 4**6)))],
    ids=["falling", "below zero"],
)
def test_noise_makes_no_cost_negative(
    times: tuple[float, float], wanted: tuple[float, float], write_benchmark: Callable[..., bench.BenchRecord]
) -> None:
    cells = [bench_cell(n, loop_ms=ms, outside_ms=-0.1) for n, ms in zip((4, 16), times, strict=True)]
    write_benchmark(cells)
    launch, triplet, outside = dataclasses.astuple(measured_costs("a GPU").costs["team"])
    assert (launch, triplet, outside) == pytest.approx((*wanted, 0.0))


@pytest.mark.parametrize(("backend", "measured", "other"), [("gpu", "a GPU", "a CPU"), ("cpu", "a CPU", "a GPU")])
def test_costs_are_of_the_device_that_was_measured(
    backend: str, measured: str, other: str, write_benchmark: Callable[..., bench.BenchRecord]
) -> None:
    write_benchmark([bench_cell(4)], backend=backend)
    assert measured_costs(measured) != MeasuredCosts()
    assert measured_costs(other) == MeasuredCosts()  # the host of a GPU is not what was measured
    assert measured_costs("another") == MeasuredCosts()


def test_the_measurements_that_ship_are_found() -> None:
    record = bench.BenchRecord.from_json(BENCHMARK.read_text())
    measured = Predictor.of_device(record.device, record.backend)
    assert set(measured.measured.costs) == {"team", "triplet_gmpnn"}
    assert measured.predict(paper_cell("bfs")).is_known


def test_nothing_is_predicted_on_a_device_that_was_not_measured(make_record: Callable[..., RunRecord]) -> None:
    """Until a cell was finished there: then the others take as much longer as it did."""
    predictor = Predictor.of_device("another GPU", "gpu")
    before = predictor.predict(paper_cell("bfs"))
    assert not before.is_known
    assert predictor.source("team") == "not measured on this device"
    record = make_record("dfs")
    timings = dataclasses.replace(record.timings, training=7 * predictor.predict(paper_cell("dfs")).training)
    predictor.learn(dataclasses.replace(record, device="another GPU", timings=timings))
    after = predictor.predict(paper_cell("bfs"))
    assert after.is_known and after.training == pytest.approx(7 * before.training)
    assert predictor.source("team") == "finished cells"


# What finished cells teach.


def test_what_was_measured_is_not_corrected(
    write_benchmark: Callable[..., bench.BenchRecord], make_record: Callable[..., RunRecord]
) -> None:
    write_benchmark([bench_cell(nodes, program_bytes=2**30) for nodes in (4, 16)])
    predictor = Predictor.of_device("a GPU", "gpu")
    measured, guessed = paper_cell("bfs", sizes=(4, 16)), paper_cell("dfs", sizes=(4, 16))
    before = {cell.name: predictor.predict(cell) for cell in (measured, guessed)}
    assert before[measured.name].measured == {"training", "memory"}
    assert before[guessed.name].measured == set()

    def took(algorithm: str, times: float) -> RunRecord:
        """As long, and as much memory, as predicted, times something."""
        record = make_record(algorithm, sizes=(4, 16))
        needed = before[f"team/{algorithm}"]
        phases = {phase: times * getattr(needed, phase) for phase in ("training", "validating", "testing")}
        timings = dataclasses.replace(record.timings, **phases)
        memory = round(times * needed.memory)
        return dataclasses.replace(record, device="a GPU", timings=timings, peak_memory=memory)

    predictor.learn(took("bfs", 5.0))  # only its guesses teach something: validation and test
    after = predictor.predict(guessed)
    assert (after.training, after.memory) == (before[guessed.name].training, before[guessed.name].memory)
    assert after.validating == pytest.approx(5 * before[guessed.name].validating)
    assert after.testing == pytest.approx(5 * before[guessed.name].testing)
    predictor.learn(took("dfs", 3.0))
    after = predictor.predict(guessed)
    assert after.training == pytest.approx(3 * before[guessed.name].training)
    assert after.memory == pytest.approx(3 * before[guessed.name].memory)
    after = predictor.predict(measured)
    assert (after.training, after.memory) == (before[measured.name].training, before[measured.name].memory)


def test_records_of_other_code_teach_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_record: Callable[..., RunRecord]
) -> None:
    monkeypatch.setenv("NARKIT_COMMIT", "abcdef012345")
    directory, cells = SweepDirectory(tmp_path), [paper_cell("bfs"), paper_cell("dfs"), paper_cell("minimum")]
    for cell, commit in zip(cells, (machine.commit(), "0123456789ab", None), strict=True):
        record = dataclasses.replace(make_record(cell.algorithm), commit=commit, device=machine.device_name())
        directory.record(cell).parent.mkdir(exist_ok=True)
        record.save(directory.record(cell))
    predictor = Predictor.from_records(directory, cells)
    assert len(predictor.learned) == 1
    predictor.learn(RunRecord.load(directory.record(cells[1])))  # as of a cell that this process ran
    assert len(predictor.learned) == 2


# Memory.


def test_memory_on_a_gpu_is_near_what_programs_need() -> None:
    record = bench.BenchRecord.from_json(BENCHMARK.read_text())
    cells = [cell for cell in record.cells if cell.implementation == "narkit"]
    assert cells
    for cell in cells:
        config = paper_cell(cell.algorithm, cell.processor, sizes=(cell.size,), validations=SMALL, test=False).config
        assert cell.program_bytes is not None
        assert 0.65 < predicted_memory(config, "gpu") / cell.program_bytes < 1.4, cell.place
        assert predicted_memory(config, "cpu") < predicted_memory(config, "gpu")


def test_triplets_that_nothing_reads_need_no_memory() -> None:
    def memory(algorithm: str, system: str) -> int:
        return predicted_memory(paper_cell(algorithm, system, validations=SMALL, test=False).config, "gpu")

    assert memory("minimum", "triplet_gmpnn") < 0.6 * memory("minimum", "team")  # hints of nodes only
    assert memory("insertion_sort", "triplet_gmpnn") == memory("insertion_sort", "team")


def test_large_instances_are_validated_in_parts_of_32() -> None:
    def cell(samples: int) -> Cell:
        return paper_cell("bfs", validations=(Validation("far", 64, samples),), test=False)

    assert predicted_memory(cell(128).config, "gpu") == predicted_memory(cell(32).config, "gpu")
    predictor = Predictor.of_device("a GPU", "gpu")
    whole, part = (predictor.predict(cell(samples)).validating for samples in (128, 32))
    assert whole == pytest.approx(4 * part)


def test_the_plan_says_which_memory_is_a_guess(
    write_benchmark: Callable[..., bench.BenchRecord], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [paper_cell("bfs", sizes=(4,)), paper_cell("dfs", sizes=(4,))]
    write_benchmark([bench_cell(4, program_bytes=20_100_000_000)], backend="cpu", cpu=machine.device_name())

    def plan(cells: list[Cell]) -> str:
        print_plan(Console(width=200), SweepDirectory(tmp_path / "sweep"), cells)
        return capsys.readouterr().out

    both = plan(cells)
    assert " 20.1 GB\n" in both and "up to 20.1 GB. Costs: team: benchmarks/train.json. Device: " in both
    assert both.count("~") == 2 and both.endswith("Memory with ~ is a rough guess.\n")
    assert "~" not in plan(cells[:1])
    assert "rough guess" not in plan(cells[:1])
