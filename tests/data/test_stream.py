"""The training stream is a pure function of (seed, step), whoever makes it and wherever it starts."""

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import narkit
from narkit.algorithms.compilation import run_loop, sample_loop
from narkit.data.execution import FIRST_VALIDATION_STEP
from narkit.data.stream import Prefetcher

SOURCE = Path(narkit.__file__).parents[1]


def arrays_of(batch):
    return {**batch.inputs, **batch.hints, **batch.outputs, "lengths": batch.lengths}


def assert_equal(first, second):
    first, second = arrays_of(first), arrays_of(second)
    assert list(first) == list(second)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], name)


def test_sizes_cycle_one_per_step():
    stream = narkit.TrainingStream("bfs")
    assert [stream.batch(step).num_nodes for step in range(6)] == [4, 7, 11, 13, 16, 4]
    assert [narkit.TrainingStream("kmp_matcher").batch(step).num_nodes for step in range(3)] == [20, 20, 20]
    assert {len(stream.batch(step)) for step in range(3)} == {32}


def test_seeds_steps_and_samples_differ():
    batches = [
        narkit.sample("insertion_sort", size=8, seed=seed, step=step) for seed, step in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    keys = np.concatenate([batch.inputs["key"].ravel() for batch in batches])
    assert len(np.unique(keys)) > 0.999 * len(keys)


def test_large_seeds_and_steps_are_their_own():
    pairs = ((0, 0), (2**32, 0), (0, 2**32), (2**62, 2**39), (2**62, 0))
    first = [narkit.sample("insertion_sort", size=8, seed=s, step=t).inputs["key"][0, 0] for s, t in pairs]
    assert len(set(first)) == len(pairs)


def test_any_thread_makes_the_same_batch_and_any_step_can_be_resumed():
    stream = narkit.TrainingStream("bfs", seed=7, batch_size=8)
    steps = list(range(12))
    expected = [stream.batch(step) for step in steps]
    with ThreadPoolExecutor(4) as executor:
        for batch, wanted in zip(executor.map(stream.batch, reversed(steps)), reversed(expected), strict=True):
            assert_equal(batch, wanted)
    for start in (0, 5):
        with stream.ahead(start, look_ahead=3, threads=2) as batches:
            for step in range(start, 12):
                assert_equal(next(batches), expected[step])


def test_a_batch_does_not_depend_on_the_room_that_earlier_ones_needed():
    code = (
        "import narkit, hashlib; b = narkit.sample('insertion_sort', size=9, seed=2, step=5);"
        "print(hashlib.sha256(b.hints['pred_h'].tobytes() + b.inputs['key'].tobytes()).hexdigest())"
    )
    for size in (40, 9):
        narkit.sample("insertion_sort", size=size, seed=1)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    fresh = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    namespace: dict[str, object] = {}
    exec(code.replace("print(", "digest = ("), namespace)
    assert fresh.stdout.strip() == namespace["digest"]


def test_several_seeds_at_once():
    streams = [narkit.TrainingStream("bfs", seed=seed, batch_size=4) for seed in range(3)]
    with Prefetcher(lambda step: [stream.batch(step) for stream in streams], start=2) as batches:
        for step in (2, 3):
            for seed, batch in enumerate(next(batches)):
                assert_equal(batch, streams[seed].batch(step))


def test_look_ahead_is_bounded_and_closing_ends_the_threads():
    made = []

    def make(step):
        made.append(step)
        return step

    before = threading.active_count()
    with Prefetcher(make, start=10, look_ahead=4, threads=2) as numbers:
        assert [next(numbers) for _ in range(5)] == [10, 11, 12, 13, 14]
        assert max(made) <= 14 + 4
    assert threading.active_count() == before
    with pytest.raises(StopIteration):
        next(numbers)
    numbers.close()


def test_errors_reach_the_consumer_in_order():
    def make(step):
        if step == 2:
            raise RuntimeError("step two fails")
        return step

    with Prefetcher(make, look_ahead=8) as numbers:
        assert [next(numbers), next(numbers)] == [0, 1]
        with pytest.raises(RuntimeError, match="step two fails"):
            next(numbers)
        with pytest.raises(StopIteration):
            next(numbers)


def test_wrong_streams_are_refused():
    with pytest.raises(ValueError, match="did you mean 'bfs'"):
        narkit.TrainingStream("bsf")
    with pytest.raises(ValueError, match="at least one size"):
        narkit.TrainingStream("bfs", sizes=())
    with pytest.raises(ValueError, match="size of at least"):
        narkit.TrainingStream("bfs", sizes=(4, 0))
    with pytest.raises(ValueError, match="at least 1 sample"):
        narkit.TrainingStream("bfs", batch_size=0)
    with pytest.raises(ValueError, match="look_ahead >= 1"):
        narkit.TrainingStream("bfs").ahead(look_ahead=0)
    for wrong in ({"seed": -1}, {"step": -1}, {"step": FIRST_VALIDATION_STEP}):
        with pytest.raises(ValueError, match=f"expected a {next(iter(wrong))} in"):
            narkit.sample("bfs", size=4, **wrong)
    with pytest.raises(ValueError, match=r"seed: expected a whole number and below 2\^63"):
        narkit.sample("bfs", size=4, seed=2**63)


@pytest.mark.parametrize("name", narkit.ALGORITHMS)
def test_loops_release_the_gil(name):
    for loop in (run_loop, sample_loop):
        assert getattr(loop(narkit.ALGORITHMS[name]), "targetoptions")["nogil"] is True  # noqa: B009


def test_a_read_only_install_works(tmp_path):
    """Neither the package's directory nor the user's can take a cache: both are files, which stops root too."""
    install = tmp_path / "narkit"
    shutil.copytree(SOURCE / "narkit", install, ignore=shutil.ignore_patterns("__pycache__"))
    for directory in [install, *(path for path in install.rglob("*") if path.is_dir())]:
        (directory / "__pycache__").write_text("in the way")
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(tmp_path), "HOME": str(blocked), "XDG_CACHE_HOME": str(blocked)}
    code = (
        "import narkit; print(narkit.__file__);"
        "print(narkit.sample('insertion_sort', size=5, batch_size=2).inputs['key'].tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    where, keys = result.stdout.splitlines()
    assert Path(where).is_relative_to(tmp_path)
    assert keys == str(narkit.sample("insertion_sort", size=5, batch_size=2).inputs["key"].tolist())
    assert not list(tmp_path.rglob("*.nbi"))
