"""Sets that what the rules chose is scored on at the end, and that choose nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import narkit
from narkit.data.splits import benchmark_set
from narkit.data.transforms import transform
from narkit.models.scoring import evaluate
from narkit.report.comparing import side
from narkit.sweeps.cells import Cell
from narkit.sweeps.plan import Predictor
from narkit.training import trainer
from narkit.training.config import Validation, parse_settings
from narkit.training.record import RunRecord, readable_json, sealed
from narkit.training.record_checks import check_record
from narkit.training.run_directory import TESTED, RunDirectory

Tiny = Callable[..., narkit.TrainConfig]
LARGE = Validation("large", 9, 3, "benchmark", seed=1000, selects=False)


@pytest.fixture(scope="module")
def record(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    folder = tmp_path_factory.mktemp("run")
    narkit.train(tiny(scored=(LARGE,), average=0.9), folder / "run")
    return RunRecord.load(folder / "run")


def test_every_rule_is_scored_at_the_end(record: RunRecord) -> None:
    assert not list(check_record(record)) and record.test == {}
    assert all("large" not in point.scores for point in record.curve)
    found = record.scored["large"]["bfs"]
    assert set(found) == set(record.rules) and "large" not in record.rules
    instances = transform(benchmark_set("bfs", 9, 3, 1000), random_positions=False)
    for rule in ("id", "last_average"):
        for row, seed in enumerate(record.config.seeds):
            predictions = narkit.predict(record.reasoner(rule, seed), instances)
            expected = evaluate("bfs", predictions.outputs, instances)["score"]
            assert found[rule][row]["score"] == pytest.approx(expected)
            assert record.scores_on("large", "bfs", rule)[row] == pytest.approx(100 * expected)


def test_it_changes_nothing_else(record: RunRecord, tiny: Tiny) -> None:
    without = narkit.train(tiny(average=0.9))
    assert without.scored == {} and "scored" not in without.to_json()
    assert without.selected == record.selected and without.curve == record.curve


def test_development_runs_are_compared_by_what_they_scored(record: RunRecord) -> None:
    assert record._directory is not None
    found = side(str(record._directory), Path("results"), "last")
    assert (
        "set large" in found.title and found.scores["bfs"].tolist() == record.scores_on("large", "bfs", "last").tolist()
    )


def test_records_are_checked(record: RunRecord, tmp_path: Path) -> None:
    values = record.to_json()
    values["scored"]["large"]["bfs"]["id"][0]["score"] = 0.123
    (tmp_path / "record.json").write_text(readable_json(sealed(values)))
    assert any("is not the mean of its outputs" in line for line in check_record(RunRecord.load(tmp_path)))
    del values["scored"]
    (tmp_path / "record.json").write_text(readable_json(sealed(values)))
    assert list(check_record(RunRecord.load(tmp_path))) == ["scored: expected the sets ['large'], got []"]


@pytest.mark.usefixtures("kept_programs")
def test_what_was_scored_before_a_kill_is_not_scored_again(tiny: Tiny, tmp_path: Path, monkeypatch) -> None:
    """A run that stops after its first set has been scored goes on with the second."""
    config = tiny(scored=(LARGE, Validation("larger", 10, 2, "benchmark", seed=1000, selects=False)))
    scored: list[int] = []
    scores = trainer.EvaluationSet.scores

    def counted(self, *arguments, **options):
        scored.append(self.batch.num_nodes)
        if self.batch.num_nodes == 10 and 9 in scored and len(scored) < 100:
            raise RuntimeError("killed")
        return scores(self, *arguments, **options)

    monkeypatch.setattr(trainer.EvaluationSet, "scores", counted)
    with pytest.raises(RuntimeError, match="killed"):
        narkit.train(config, tmp_path / "run")
    kept = json.loads((tmp_path / "run" / TESTED).read_text())["found"]
    assert {network[0] for network, _ in kept} == {"large/bfs"}
    scored += [0] * 100
    record = narkit.train(config, tmp_path / "run")
    assert list(record.scored) == ["large", "larger"] and 9 not in scored[100:]
    assert RunDirectory(tmp_path / "run").kept(TESTED) is None


def test_settings(tiny: Tiny) -> None:
    word = 'scored=[{"name": "dev", "size": 64, "distribution": "benchmark", "seed": 1000}]'
    config = tiny(**parse_settings([word]))
    assert config.scored == (Validation("dev", 64, 128, "benchmark", 1000),)
    assert narkit.TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(ValueError, match="scored: expected other names than those of the validation sets"):
        tiny(scored=(Validation("id", 5, 4),))
    with pytest.raises(ValueError, match="which draws the official test split"):
        tiny(scored=({"name": "dev", "size": 64, "distribution": "benchmark", "seed": 3},))


def test_plans_count_them(tiny: Tiny) -> None:
    predictor = Predictor.of_device("a machine that nobody has measured", "cpu")
    system = narkit.System("mpnn", "MPNN", "mpnn")
    without, with_set = (predictor.predict(Cell(system, tiny(scored=scored))) for scored in ((), (LARGE,)))
    assert with_set.programs == without.programs + 1
    assert without.testing == 0 < with_set.testing
