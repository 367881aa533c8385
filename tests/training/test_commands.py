"""`narkit train`, `narkit eval` and `narkit demo`, on tiny runs."""

import io
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import narkit
from narkit.cli import app, demo
from narkit.cli.training_display import LiveDisplay
from narkit.data.splits import SPLITS, benchmark_set
from narkit.training.config import Validation
from narkit.training.tensorboard import TensorBoard
from narkit.training.trainer import Trainer

Tiny = Callable[..., narkit.TrainConfig]
Curves = dict[str, list[tuple[int, float]]]

pytestmark = pytest.mark.usefixtures("kept_programs")
# The configuration of `tiny`, so that no further program is compiled.
OPTIONS = [
    *("--algorithm", "bfs", "--processor", "mpnn", "--seeds", "2", "--preset", "quick", "--steps", "10"),
    *("--hidden-size", "8", "--batch-size", "4", "--set", "sizes=[5]", "--set", "validate_every=4"),
    *("--set", 'validations=[{"name": "id", "size": 5, "num_samples": 4}]', "--set", "test=false"),
    *("--set", "learning_rate=1e-3"),
]  # fmt: skip


def command(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160", "NO_COLOR": "1"}, terminal_width=160)


def test_train_eval_and_resume(tiny: Tiny, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    result = command("train", *OPTIONS, "--out", run, "--tensorboard")
    assert result.exit_code == 0, result.output
    assert "step 8/10" in result.output
    assert "the network runs by plain formulas: JAX runs on no NVIDIA GPU here" in result.output
    record = narkit.RunRecord.load(run)
    assert record.config == tiny()
    assert record.fast_path["fast"] is False and "GPU" in record.fast_path["reason"]
    assert drawn(tmp_path / "run") == told(tmp_path / "run")

    assert command("train", "--resume", run).exit_code == 0
    other = command("train", *OPTIONS, "--out", run, "--hidden-size", "9")
    assert other.exit_code == 2
    assert "hidden_size (8 there, 9 now)" in " ".join(other.output.replace("│", " ").split())

    scores = tmp_path / "scores.json"
    result = command("eval", run, "--size", "6", "--samples", "3", "--rule", "last", "--json", str(scores))
    assert result.exit_code == 0, result.output
    for probe in ("output pi", "hint pi_h", "hint reach_h"):
        assert probe in result.output
    (written,) = json.loads(scores.read_text())
    assert written["size"] == 6
    assert [row["seed"] for row in written["seeds"]] == [0, 1]
    wrong = command("eval", run, "--rule", "lst")
    assert wrong.exit_code == 2
    assert "did you mean 'last'" in wrong.output


def test_eval_of_saved_weights(tmp_path: Path) -> None:
    file, scores = tmp_path / "bfs.safetensors", tmp_path / "scores.json"
    reasoner = narkit.Reasoner("bfs", "mpnn", 8, key=jax.random.key(3))
    narkit.save(reasoner, file)
    result = command("eval", str(file), "--size", "6", "--samples", "3", "--json", str(scores))
    assert result.exit_code == 0, result.output
    assert "one network" in " ".join(result.output.split())
    (written,) = json.loads(scores.read_text())
    batch = benchmark_set("bfs", 6, 3, SPLITS["test"].seed)
    right = np.asarray(narkit.predict(reasoner, batch).outputs["pi"]) == batch.outputs["pi"]
    assert written["seeds"][0]["outputs"]["pi"] == pytest.approx(right.mean())
    wrong = command("eval", str(file), "--rule", "last")
    assert wrong.exit_code == 2
    assert "holds one network" in " ".join(wrong.output.replace("│", " ").split())
    file.write_bytes(b"something else")
    assert command("eval", str(file)).exit_code == 2


def test_interrupted_training_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: LiveDisplay, trainer: Trainer) -> None:
        if trainer.progress.step == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(LiveDisplay, "on_step", interrupt)
    result = command("train", *OPTIONS, "--out", str(tmp_path))
    assert result.exit_code == 128 + signal.SIGTERM, result.output
    assert f"stopped at step 6; saved in {tmp_path}. Go on with: narkit train --resume {tmp_path}" in result.output
    monkeypatch.undo()
    result = command("train", "--resume", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "going on from step 6" in result.output


# Curves for TensorBoard, read back by TensorBoard itself.


def drawn(run: Path) -> Curves:
    """What TensorBoard draws: for each curve its steps and values."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(run / "tensorboard"))
    reader.Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def told(run: Path) -> Curves:
    """The same from the metrics, whose numbers TensorBoard keeps as float32."""
    curves: Curves = {}
    for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()):
        columns = {"loss/train": line["train_loss"], "score/id": line["id_score"], "loss/id": line["id_loss"]}
        for name, values in columns.items():
            for seed, value in zip(line["seeds"], values, strict=True):
                curves.setdefault(f"{name}/seed_{seed}", []).append((line["step"], float(np.float32(value))))
    return curves


class CrashingTensorBoard(TensorBoard):
    """Stops the run without a word at step 9."""

    def on_step(self, trainer: Trainer) -> None:
        if trainer.progress.step == 9:
            raise RuntimeError("crash")


@pytest.mark.parametrize("save_every", [0.0, 1000.0], ids=["from the last point", "from the beginning"])
def test_after_a_crash_every_point_is_drawn_once(save_every: float, tiny: Tiny, tmp_path: Path) -> None:
    """Both where the run goes on from a point that was drawn, and where points are drawn again."""
    folder = tmp_path / "tensorboard"
    with pytest.raises(RuntimeError, match="crash"):
        narkit.train(tiny(), tmp_path, callbacks=[CrashingTensorBoard(folder)], save_every=save_every)
    assert drawn(tmp_path) == told(tmp_path)
    narkit.train(tiny(), tmp_path, callbacks=[TensorBoard(folder)])
    assert len(list(folder.iterdir())) == 2
    curves = drawn(tmp_path)
    assert curves == told(tmp_path)
    assert {tag: [step for step, _ in points] for tag, points in curves.items()} == {
        f"{name}/seed_{seed}": [4, 8, 10] for name in ("loss/train", "score/id", "loss/id") for seed in (0, 1)
    }


def test_without_tensorboard_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    result = command("train", *OPTIONS, "--out", str(tmp_path / "run"), "--tensorboard")
    assert result.exit_code == 2
    assert "expected the package tensorboard; pip install 'narkit[tensorboard]'" in result.output
    assert not (tmp_path / "run").exists()


def test_live_display(tiny: Tiny) -> None:
    """On a terminal a line is kept up to date."""
    console = Console(file=io.StringIO(), force_terminal=True, width=160)
    with LiveDisplay(console) as display:
        narkit.train(tiny(), callbacks=[display])
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "steps/s" in shown
    assert "compiling 2 programs for training steps of 1 size, 1 validation set: a minute or more the first" in shown


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrunk to seconds: the real one is a command of its own."""
    monkeypatch.setattr("narkit.data.splits.load_split", lambda name, split: benchmark_set(name, 5, 2, 3))
    monkeypatch.setattr(demo, "ATTENDED", ("bfs", 5, 1, 0.6))
    options = {"hidden_size": 8, "batch_size": 2, "sizes": (4,), "steps": 2}
    validations = (Validation("id", 4, 2), Validation("ood", 5, 2))
    console = Console(file=io.StringIO(), width=160)
    record = demo.run_demo(console, tmp_path, demo.demo_config(**options, validations=validations))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "the result" in printed
    assert "the paper's TEAM reaches 99." in printed
    pictures = ["attention.png", "dijkstra.png", "learning_curves.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*pictures, "bfs.safetensors", "record.json"])
    for name in pictures:
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert narkit.load(tmp_path / "bfs.safetensors").hidden_size == 8
    assert narkit.RunRecord.load(tmp_path / "record.json") == record
