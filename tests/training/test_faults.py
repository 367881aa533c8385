"""Faults that stay tested: damage at every place, no room at every write, a clock set back, many in one folder.

How often processes are killed is said by two variables, here and in tests/sweeps/test_sweep_processes.py:

    NARKIT_KILLS=200 NARKIT_SWEEP_KILLS=50 pytest -m slow tests/training tests/sweeps/test_sweep_processes.py -k kill
"""

from __future__ import annotations

import datetime
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
import time_machine

import narkit
from narkit.training.checkpoint import CheckpointError, Checkpoints, CheckpointWriteError
from narkit.training.progress import Snapshot

from ..killing import environment_of
from .test_resuming import PROCESS, At, assert_same, crash

Tiny = Callable[..., narkit.TrainConfig]

BLOCK = 4096
# Orbax leaves loose ends behind what it could not read or write.
LOOSE_ENDS = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::RuntimeWarning")


@pytest.fixture
def _swept() -> Iterator[None]:
    """What Orbax leaves of reads and writes that failed is collected here, where it is ignored."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def expected(tiny: Tiny) -> narkit.RunRecord:
    """The run that nothing happened to."""
    return narkit.train(tiny())


@pytest.mark.slow
@pytest.mark.usefixtures("_swept")
@LOOSE_ENDS
def test_a_checkpoint_cut_at_every_block_is_refused(tmp_path: Path) -> None:
    """Every file of a checkpoint is cut at every 4 KB and at both ends: what is read is right, or refused.

    As large as that of a narrow network: random numbers, which no compression makes smaller.
    """
    arrays = {name: np.random.default_rng(place).random(size, np.float32) for place, (name, size) in enumerate(
        {"parameters": 20_000, "moments": 40_000, "choices": 10_000}.items()
    )}  # fmt: skip
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(Snapshot(arrays, {"step": 3}))
    whole, cuts, harmless = tmp_path / "whole", 0, 0
    shutil.copytree(tmp_path / "checkpoints" / "00000003", whole)
    like = {name: jax.ShapeDtypeStruct(values.shape, values.dtype) for name, values in arrays.items()}
    for file in sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file()):
        size = (whole / file).stat().st_size
        for length in sorted({*range(0, size, BLOCK), 1, size - 1} - {size, -1}):
            place = tmp_path / "checkpoints" / "00000003"
            shutil.rmtree(place)
            shutil.copytree(whole, place)
            os.truncate(place / file, min(length, size))
            cuts += 1
            reader = Checkpoints(tmp_path / "checkpoints")
            try:
                read = reader.load(lambda progress: like)
            except CheckpointError as error:
                assert "step 3" in str(error) and len(str(error)) < 1500
                continue
            finally:
                reader.close()
            assert read is not None and read.progress == {"step": 3}
            assert all(np.array_equal(read.arrays[name], values) for name, values in arrays.items())
            harmless += 1
    print(f"\n{cuts} cuts, {cuts - harmless} refused, {harmless} of files that nothing is read from")
    assert cuts > 60 and cuts - harmless > 60


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Callable[[int], None]]]:
    """A file system of a few kilobytes, and a way to make it larger."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(kilobytes: int, how: str) -> bool:
        options = f"{how}size={kilobytes}k"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        return shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0

    if not mount(16, ""):  # which takes root: without it there is no disk of a size of our own
        pytest.skip("this user may not mount a file system")

    def grow(kilobytes: int) -> None:
        assert mount(kilobytes, "remount,"), "it cannot be made larger"

    yield place, grow
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.slow
@pytest.mark.usefixtures("_swept")
@LOOSE_ENDS
def test_a_disk_that_is_full_at_every_write(
    tiny: Tiny, expected: narkit.RunRecord, small_disk: tuple[Path, Callable[[int], None]]
) -> None:
    """The disk grows by a few pages at a time. The run goes on until there is no room again, and ends the same."""
    place, grow = small_disk
    kilobytes, refusals, steps = 16, 0, set()
    while True:
        try:
            record = narkit.train(tiny(), place / "run", save_every=0)
            break
        except (CheckpointWriteError, OSError) as error:
            assert "No space left" in str(error) or "could not be written" in str(error), error
            refusals += 1
            folder = place / "run" / "checkpoints"
            steps |= {path.name for path in folder.glob("*") if path.name.isdigit()} if folder.is_dir() else set()
            kilobytes += 24
            assert kilobytes < 4000
            grow(kilobytes)
    print(f"\nno room {refusals} times, up to {kilobytes} KB; checkpoints seen: {sorted(steps)}")
    assert refusals >= 5
    assert_same(record, expected)


@pytest.mark.slow
def test_a_clock_that_is_set_back(tiny: Tiny, expected: narkit.RunRecord, tmp_path: Path) -> None:
    """A run that was stopped goes on two years before it began, from the latest step and not from the latest time."""
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    with time_machine.travel(now), pytest.raises(RuntimeError, match="crash"):
        narkit.train(tiny(), tmp_path, callbacks=[At(9, crash)], save_every=0)
    with time_machine.travel(now - datetime.timedelta(days=730)), pytest.raises(RuntimeError, match="crash"):
        narkit.train(tiny(), tmp_path, callbacks=[At(10, crash)], save_every=0)
    with time_machine.travel(now - datetime.timedelta(days=1)):
        assert_same(narkit.train(tiny(), tmp_path, save_every=0), expected)


ALLOWED = 20  # seconds of computing, after which the system kills a process

COMMAND = """
import resource, sys
allowed = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_CPU, (allowed, allowed))
from narkit.cli import main
main()
"""


@pytest.mark.slow
def test_a_command_that_is_killed_every_twenty_seconds_ends(tmp_path: Path) -> None:
    """`narkit train --save-every 5`, typed again after every kill, long before its only validation.

    The seconds are of computing, so that the test is the same on a busy machine, where starting alone takes longer; and
    no program has been compiled before, for the same reason.
    """
    options = "--algorithm bfs --processor mpnn --preset quick --steps 1500 --set test=false --set validate_every=1500"
    words = ["train", *options.split(), "--save-every", "5", "--out", str(tmp_path / "run")]
    environment = environment_of(tmp_path / "programs")
    ended: list[int] = []
    while 0 not in ended:
        command = [sys.executable, "-c", COMMAND, str(ALLOWED), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        ended.append(done.returncode)
        assert done.returncode in (0, -signal.SIGKILL), done.stdout[-2000:] + done.stderr[-2000:]
        assert len(ended) < 100
    config = narkit.RunRecord.load(tmp_path / "run").config
    print(f"\nkilled {len(ended) - 1} times after {ALLOWED} s of computing, and it ended")
    assert len(ended) > 2
    assert_same(narkit.RunRecord.load(tmp_path / "run"), narkit.train(config))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_processes_in_one_folder(
    count: int, tiny: Tiny, expected: narkit.RunRecord, tmp_path: Path, program_cache: Path
) -> None:
    """One trains, the others are told so; or they come late, find the run finished and train nothing."""
    environment = environment_of(program_cache)
    command = [sys.executable, "-c", PROCESS, json.dumps(tiny().to_json()), str(tmp_path / "run")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, env=environment, **pipes) for _ in range(count)]
    printed = [process.communicate(timeout=600) for process in started]
    ended = [process.returncode for process in started]
    assert 0 in ended, [errors[-600:] for _, errors in printed]
    for code, (_, errors) in zip(ended, printed, strict=True):
        assert code == 0 or "is in use by another process" in errors, errors
    assert_same(narkit.RunRecord.load(tmp_path / "run"), expected)
