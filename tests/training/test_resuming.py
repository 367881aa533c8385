"""Nothing is lost: a run that was stopped, killed or hit by a full disk ends as if nothing had happened."""

import json
import os
import random
import re
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import narkit
from narkit.training.callbacks import Callback
from narkit.training.checkpoint import CheckpointError
from narkit.training.interruption import Interrupted
from narkit.training.run_directory import RunDirectory, RunDirectoryError
from narkit.training.trainer import Trainer

from ..killing import Experiment, Starter, folder_of, kill_many_times

pytestmark = pytest.mark.usefixtures("kept_programs")
# Where a read or write fails, Orbax leaves the others that it had begun without an event loop to end in.
LOOSE_ENDS = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
Tiny = Callable[..., narkit.TrainConfig]


class At(Callback):
    """Does something once a given step is reached."""

    def __init__(self, step: int, act: Callable[[], None]):
        self.at, self.act = step, act

    def on_step(self, trainer: Trainer) -> None:
        if trainer.progress.step == self.at:
            self.act()


def crash() -> None:
    raise RuntimeError("crash")


def assert_same(record: narkit.RunRecord, expected: narkit.RunRecord) -> None:
    """Everything but timings is the same, to the last bit."""
    assert record.curve == expected.curve
    assert record.selected == expected.selected
    assert record.steps == expected.steps
    assert record.diverged == expected.diverged
    for rule, values in expected.choices().items():
        assert np.array_equal(record.choices()[rule], values), rule


@pytest.fixture(scope="module")
def whole(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> narkit.RunRecord:
    """The run that nothing happened to."""
    return narkit.train(tiny(), tmp_path_factory.mktemp("whole") / "run", save_every=0)


def test_folder_holds_what_it_should(whole: narkit.RunRecord) -> None:
    folder = whole._directory
    assert folder is not None
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "lock", "metrics.jsonl", "record.json", "checkpoints",
    }  # fmt: skip
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["00000008", "00000010"]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [4, 8, 10]
    assert [line["id_score"] for line in lines] == [point.scores["id"] for point in whole.curve]
    loaded = narkit.RunRecord.load(folder)
    assert loaded == whole
    for rule, values in whole.choices().items():
        assert np.array_equal(loaded.choices()[rule], values)
    assert narkit.train(whole.config, folder) == whole  # complete: nothing is trained again


def test_without_a_folder_it_is_the_same(tiny: Tiny, whole: narkit.RunRecord) -> None:
    assert_same(narkit.train(tiny()), whole)


@pytest.mark.parametrize("step", [3, 6, 9])
def test_a_crash_loses_nothing(step: int, tiny: Tiny, whole: narkit.RunRecord, tmp_path: Path) -> None:
    """Stopped without a word, before the first checkpoint and after others."""
    with pytest.raises(RuntimeError, match="crash"):
        narkit.train(tiny(), tmp_path, callbacks=[At(step, crash)], save_every=0)
    record = narkit.train(tiny(), tmp_path, save_every=0)
    assert_same(record, whole)
    assert whole._directory is not None
    assert (tmp_path / "metrics.jsonl").read_text() == (whole._directory / "metrics.jsonl").read_text()


def test_checkpoints_are_written_between_validations(tiny: Tiny, tmp_path: Path) -> None:
    """A run that never lives until its next validation goes on, too."""
    config = tiny(validate_every=10)
    with pytest.raises(RuntimeError, match="crash"):
        narkit.train(config, tmp_path, callbacks=[At(7, crash)], save_every=1e-9)
    assert [path.name for path in sorted((tmp_path / "checkpoints").iterdir())] == ["00000006", "00000007"]
    steps: list[int] = []
    with pytest.raises(RuntimeError, match="crash"):
        narkit.train(config, tmp_path, callbacks=[At(9, crash)], save_every=1e-9)
    record = narkit.train(config, tmp_path, callbacks=[At(10, lambda: steps.append(10))], save_every=1e-9)
    assert steps == [10]
    assert_same(record, narkit.train(config))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_save_first(number: int, tiny: Tiny, whole: narkit.RunRecord, tmp_path: Path) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=r"stopped at step 7; saved in") as raised:
        narkit.train(tiny(), tmp_path, callbacks=[At(7, lambda: os.kill(os.getpid(), number))])
    assert raised.value.signal_number == number
    assert signal.getsignal(number) is before
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["00000007"]
    assert_same(narkit.train(tiny(), tmp_path), whole)


def test_another_configuration_is_refused(tiny: Tiny, whole: narkit.RunRecord) -> None:
    assert whole._directory is not None
    with pytest.raises(RunDirectoryError, match=r"another configuration: steps \(10 there, 11 now\)\. Give"):
        narkit.train(tiny(steps=11), whole._directory)


def test_a_folder_of_something_else_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"got one with \['thesis.tex'\]"):
        narkit.train(tiny(), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_in_use_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    with (
        RunDirectory(tmp_path).locked(),
        pytest.raises(RunDirectoryError, match=f"in use by another process .id {os.getpid()}."),
    ):
        narkit.train(tiny(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def interrupted_run(tiny: Tiny, folder: Path) -> None:
    """A run that ended after its checkpoints of steps 4 and 8."""
    with pytest.raises(RuntimeError, match="crash"):
        narkit.train(tiny(), folder, callbacks=[At(9, crash)], save_every=0)


def truncate_largest_file(folder: Path) -> None:
    largest = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)


@LOOSE_ENDS
def test_a_truncated_checkpoint_is_named_and_the_one_before_used(
    tiny: Tiny, whole: narkit.RunRecord, tmp_path: Path
) -> None:
    interrupted_run(tiny, tmp_path)
    truncate_largest_file(tmp_path / "checkpoints" / "00000008")
    with pytest.warns(RuntimeWarning, match=r"checkpoint of step 8 .* is damaged.* Going on from .* step 4"):
        record = narkit.train(tiny(), tmp_path)
    assert_same(record, whole)


@LOOSE_ENDS
def test_without_a_good_checkpoint_nothing_is_touched(tiny: Tiny, tmp_path: Path) -> None:
    interrupted_run(tiny, tmp_path)
    for step in ("00000004", "00000008"):
        truncate_largest_file(tmp_path / "checkpoints" / step)
    with pytest.raises(CheckpointError, match=r"no checkpoint can be read: .*step 8 .*step 4"):
        narkit.train(tiny(), tmp_path)
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"00000004", "00000008"}


@LOOSE_ENDS
def test_a_foreign_checkpoint_is_named(tiny: Tiny, whole: narkit.RunRecord, tmp_path: Path) -> None:
    import orbax.checkpoint as ocp

    interrupted_run(tiny, tmp_path)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "checkpoints" / "00000009", {"weights": np.ones(3)})
    with pytest.warns(RuntimeWarning, match=r"checkpoint of step 9 .* is damaged or not narkit's"):
        assert_same(narkit.train(tiny(), tmp_path), whole)


@LOOSE_ENDS
def test_a_full_disk_leaves_the_last_state(tiny: Tiny, whole: narkit.RunRecord, tmp_path: Path) -> None:
    """Files may not grow beyond a few bytes from step 6 on, which is what a full disk looks like to a process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(CheckpointError, match=r"step 8 could not be written .*step 4, is intact\. Make room"):
            narkit.train(
                tiny(),
                tmp_path,
                callbacks=[At(6, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard)))],
                save_every=0,
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_same(narkit.train(tiny(), tmp_path, save_every=0), whole)


KILLS = int(os.environ.get("NARKIT_KILLS", "6"))  # of a run, at random moments

PROCESS = """
import json, sys
import narkit
class Tell(narkit.Callback):
    def on_start(self, trainer):
        print("started", flush=True)
config = narkit.TrainConfig.from_json(json.loads(sys.argv[1]))
narkit.train(config, sys.argv[2], save_every=float(*sys.argv[3:]), callbacks=[Tell()])
print("finished", flush=True)
"""


def run_and_kill(
    starter: Starter,
    config: narkit.TrainConfig,
    folder: Path,
    pipes: Path,
    seconds: float | None,
    save_every: float = 0.0,
) -> str:
    """Trains in a process of its own and kills it so many seconds after its first step. Returns what it printed."""
    with starter.start(PROCESS, [json.dumps(config.to_json()), str(folder), str(save_every)], pipes) as process:
        printed = process.stdout.readline()
        if seconds is not None:
            time.sleep(seconds)
            process.kill()
        return printed + process.stdout.read()


def test_killed_processes_resume(tiny: Tiny, tmp_path: Path, starter: Starter) -> None:
    config = tiny(steps=40, validate_every=1, average=0.999, skipped_steps=50)
    expected = narkit.train(config)
    rng = random.Random(0)
    for _ in range(2):
        run_and_kill(starter, config, tmp_path / "run", tmp_path, rng.uniform(0.0, 1.0))
    assert "finished" in run_and_kill(starter, config, tmp_path / "run", tmp_path, None)
    assert_same(narkit.RunRecord.load(tmp_path / "run"), expected)


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends(tiny: Tiny, tmp_path: Path, starter: Starter) -> None:
    """Every process is killed soon after its first step, long before the only validation."""
    config = tiny(steps=3000, validate_every=3000, average=0.999, skipped_steps=50)
    expected = narkit.train(config)
    deaths = 0
    while "finished" not in run_and_kill(starter, config, tmp_path / "run", tmp_path, 0.5, save_every=0.05):
        deaths += 1
        assert deaths < 100
    assert deaths > 1
    assert_same(narkit.RunRecord.load(tmp_path / "run"), expected)


def look_at(place: Path) -> dict[str, Any]:
    """What a kill left: the newest checkpoint, and whether one lies there unfinished, of this kill or one before."""
    folder = place / "checkpoints"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    whole = [int(name) for name in names if re.fullmatch(r"\d{8}", name)]
    return {"step": max(whole, default=0), "unfinished": len(whole) < len(names)}


@pytest.mark.slow
def test_processes_killed_many_times_resume(tiny: Tiny, tmp_path: Path, starter: Starter) -> None:
    """Every run saves after every step, and is killed until it ends; then another one begins."""
    config = tiny(steps=100, validate_every=1, average=0.999, skipped_steps=50)
    expected = narkit.train(config)
    folder = folder_of("runs", tmp_path)
    words = json.dumps(config.to_json())
    experiment = Experiment(
        folder=folder,
        start=lambda place: starter.start(PROCESS, [words, str(place), "0"], folder),
        ended=lambda printed: "finished" in printed,
        compare=lambda place: assert_same(narkit.RunRecord.load(place), expected),
        look=look_at,
        seconds=2.0,
    )
    lines = kill_many_times(experiment, KILLS)
    kills = [line for line in lines if line["what"] == "killed"]
    unfinished = sum(line["unfinished"] for line in kills)
    runs: dict[str, list[int]] = {}
    for line in kills:
        runs.setdefault(line["place"], []).append(line["step"])
    print(
        f"\n{len(kills)} kills of {len(runs)} runs, {sum(line['early'] for line in kills)} of them while a process "
        f"started; after {unfinished} an unfinished checkpoint lay there; {len(lines) - len(kills)} runs ended the same"
    )
    assert all(steps == sorted(steps) for steps in runs.values()), "a checkpoint was lost"
    assert unfinished > 0 or KILLS < 50
