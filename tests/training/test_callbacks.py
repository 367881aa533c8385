"""Callbacks are told everything in order, and are closed however a run ends."""

import json
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import narkit
from narkit.cli import app
from narkit.training.progress import Point
from narkit.training.trainer import Trainer

Tiny = Callable[..., narkit.TrainConfig]


class Log(narkit.Callback):
    """Notes what it is told."""

    def __init__(self, fail_at: int | None = None):
        self.events: list[str] = []
        self._fail_at = fail_at

    def on_prepare(self, trainer: Trainer) -> None:
        self.events.append("prepare")

    def on_start(self, trainer: Trainer) -> None:
        self.events.append(f"start {trainer.progress.step}")

    def on_step(self, trainer: Trainer) -> None:
        if trainer.progress.step == self._fail_at:
            raise RuntimeError("mine")
        self.events.append(str(trainer.progress.step))

    def on_point(self, trainer: Trainer, point: Point) -> None:
        assert point is trainer.progress.curve[-1] and point.step == trainer.progress.step
        self.events.append("point")

    def on_test(self, trainer: Trainer) -> None:
        self.events.append("test")

    def on_end(self, record: narkit.RunRecord) -> None:
        self.events.append(f"end {record.steps}")

    def on_close(self) -> None:
        self.events.append("close")


def test_a_run_tells_its_callbacks(tiny: Tiny, tmp_path: Path) -> None:
    first, second = Log(fail_at=7), Log()
    with pytest.raises(RuntimeError, match="mine"):
        narkit.train(tiny(), tmp_path, callbacks=[second, first], save_every=0)
    begin = ["prepare", "start 0", "1", "2", "3", "4", "point", "5", "6"]
    assert first.events == [*begin, "close"]
    assert second.events == [*begin, "7", "close"]
    again = Log()
    narkit.train(tiny(), tmp_path, callbacks=[again])
    assert again.events == ["prepare", "start 4", *"5678", "point", "9", "10", "point", "end 10", "close"]


def test_only_callbacks_are_taken(tiny: Tiny) -> None:
    with pytest.raises(TypeError, match=r"expected objects of narkit\.Callback, got <built-in function print>"):
        narkit.train(tiny(), callbacks=[print])  # type: ignore[list-item]


def test_numbers_have_names_of_their_own() -> None:
    point = Point(3, [1.0, 2.0], {"id": [0.5, 0.25]}, {"id": [3.0, 4.0]}, {"id": [0.75, 1.0]}, {"id": [5.0, 6.0]})
    assert point.per_seed((7, 9)) == {
        "loss/train/seed_7": 1.0,
        "loss/train/seed_9": 2.0,
        "score/id/seed_7": 0.5,
        "score/id/seed_9": 0.25,
        "loss/id/seed_7": 3.0,
        "loss/id/seed_9": 4.0,
        "average_score/id/seed_7": 0.75,
        "average_score/id/seed_9": 1.0,
        "average_loss/id/seed_7": 5.0,
        "average_loss/id/seed_9": 6.0,
    }


def test_without_wandb_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    command = ["train", "--algorithm", "bfs", "--out", str(tmp_path / "run"), "--wandb"]
    result = CliRunner().invoke(app, command, env={"NO_COLOR": "1", "COLUMNS": "160"})
    assert result.exit_code == 2
    assert "expected the package wandb; pip install 'narkit[wandb]'" in result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.wandb
@pytest.mark.filterwarnings("default")  # of the package's own
def test_weights_and_biases_offline(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent, and what the package wrote is read back by itself; a resumed run has the same id."""
    from narkit.training.weights_and_biases import WeightsAndBiases

    monkeypatch.setenv("WANDB_MODE", "offline")
    folder = tmp_path / "wandb"
    with pytest.raises(RuntimeError, match="mine"):
        narkit.train(tiny(), tmp_path / "run", callbacks=[WeightsAndBiases(folder), Log(fail_at=6)], save_every=0)
    record = narkit.train(tiny(), tmp_path / "run", callbacks=[WeightsAndBiases(folder)])
    runs = sorted((folder / "wandb").glob("offline-run-*"))
    assert len(runs) == 2
    files = [file for run in runs for file in run.glob("*.wandb")]
    assert len(files) == 2 and all((folder / "id.txt").read_text() in file.name for file in files)
    rows: dict[int, dict[str, float]] = {}
    end = time.monotonic() + 60  # a process of the package writes the file, and may not be done when the run is
    while sorted(rows) != [4, 8, 10] and time.monotonic() < end:
        time.sleep(0.1)
        rows = {step: row for file in files for step, row in history(file).items()}
    assert sorted(rows) == [4, 8, 10]
    for point in record.curve:
        for name, value in point.per_seed(record.config.seeds).items():
            assert np.isclose(rows[point.step][name], value)


def history(file: Path) -> dict[int, dict[str, float]]:
    """The numbers by step in a file of the package: protocol buffers in blocks, as LevelDB logs have them."""
    from wandb.proto import wandb_internal_pb2  # type: ignore[import-not-found]

    data, at, content, rows = file.read_bytes(), 7, b"", {}
    while at + 7 <= len(data):
        if (left := 2**15 - at % 2**15) < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        content += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
            record.ParseFromString(content)
            content = b""
            if record.history.item:
                items = record.history.item
                row = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}
                rows[record.history.step.num] = row
    return rows
