"""Thousands of good and bad inputs: each ends in success or in one clear line with the right exit code.

By default a few hundred in this process; behind the marker `fuzz` ten thousand, and some as processes of their own:

    pytest tests/fuzz -m fuzz
    NARKIT_FUZZ_CASES=2000 NARKIT_FUZZ_SEED=7 pytest tests/fuzz -m fuzz

In this process commands are stopped where their long work would begin (training, measuring, running a network, drawing
a report): by then all that was typed has been accepted. Processes of their own do all of it.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from narkit.cli import main

from . import material
from .calls import REFUSALS, call
from .commands import Case, commands, of_files, options

SEED = int(os.environ.get("NARKIT_FUZZ_SEED", "0"))
MANY = int(os.environ.get("NARKIT_FUZZ_CASES", "10000"))
FEW, PROCESSES = 300, 50
LONGEST_REFUSAL = 20.0  # seconds of this process's own time
SHARE_OF_FILES, SHARE_OF_CALLS = 0.12, 0.15


class WorkBegins(BaseException):
    """All was accepted, and the long work would begin."""


def _begin(*arguments: object, **options: object) -> None:
    raise WorkBegins


LONG_WORK = (
    "narkit.training.trainer.Trainer.__init__",
    "narkit.training.evaluation.EvaluationSet.scores",
    "narkit.bench.train.measure",
    "narkit.bench.data.our_microseconds",
    "narkit.inference._compiled_predict",
    "narkit.report.writing.all_tables",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    material.prepare(folder)
    (folder / "logs").mkdir()
    return folder


@contextlib.contextmanager
def stopped_before_long_work() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name in LONG_WORK:
            stack.enter_context(mock.patch(name, _begin))
        yield


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file outside of what commands may change."""
    found = {}
    for place, _, names in os.walk(folder / material.GIVEN):
        for name in names:
            about = os.lstat(os.path.join(place, name))
            found[os.path.join(place, name)] = (about.st_size, about.st_mtime_ns)
    found["above"] = (len(os.listdir(folder)), 0)
    return found


def in_this_process(words: tuple[str, ...], out: Path) -> tuple[int, str]:
    """The exit code of a command, and all that it printed."""
    printed, here = io.StringIO(), os.getcwd()
    os.chdir(out)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            main(list(words))
    except WorkBegins:
        return 0, printed.getvalue()
    except SystemExit as ending:
        return int(ending.code or 0), printed.getvalue()
    finally:
        os.chdir(here)


def wrong(case: Case, code: int, printed: str, took: float, folder: Path, before: dict) -> str | None:
    """What is wrong with how a command ended, or None."""
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if case.good and code != 0:
        return f"a good command ended in exit code {code}"
    if "Traceback" in printed:
        return "a traceback"
    if code != 0 and not any(word in printed for word in ("Error", "expected", "Usage", "damaged", ": ")):
        return "refused without a word"
    if code == 2 and took > LONGEST_REFUSAL:
        return f"refused after {took:.0f} s"
    left = [str(path) for path in folder.rglob("*.part")] + [str(path) for path in (folder / "logs").iterdir()]
    if left:
        return f"left behind: {left}"
    if state(folder) != before:
        return "something outside of --out was changed"
    return None


def run_cases(folder: Path, seed: int, count: int) -> tuple[list[str], Counter]:
    """Runs so many cases in this process: what was wrong, and how many there were of what."""
    problems, counts, rng = [], Counter(), random.Random(seed)
    cases = commands(seed, count)
    for number in range(count):
        share = rng.random()
        if share < SHARE_OF_CALLS:
            counts["calls"] += 1
            problems += _try_call(seed, number)
            continue
        out = material.refresh(folder)
        case = of_files(folder, seed, number) if share < SHARE_OF_CALLS + SHARE_OF_FILES else next(cases)
        before, began = state(folder), time.process_time()
        code, printed = in_this_process(case.words, out)
        took = time.process_time() - began
        counts["good" if case.good else "mutated"] += 1
        counts[f"ended in {code}"] += 1
        if case.option:
            counts[case.option] += 1
        if problem := wrong(case, code, printed, took, folder, before):
            problems.append(
                f"{problem}: narkit {' '.join(map(repr, case.words))[:300]} ({case.what}): {printed[-700:]}"
            )
            for log in (folder / "logs").iterdir():
                problems[-1] += log.read_text()[-900:]
                log.unlink()
    return problems, counts


def _try_call(seed: int, number: int) -> list[str]:
    words, make = call(seed, number)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make()
    except REFUSALS as error:
        return [] if str(error).strip() else [f"{words[:300]}: {type(error).__name__} without a word"]
    except Exception as error:
        return [f"{words[:300]}: {type(error).__name__}: {error}"]
    return []


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("tempfile.tempdir", str(folder / "logs"))


@pytest.mark.usefixtures("quiet")
def test_a_few_hundred_inputs(folder: Path) -> None:
    with stopped_before_long_work():
        problems, counts = run_cases(folder, SEED, FEW)
    assert not problems, f"{len(problems)} of {FEW}:\n" + "\n\n".join(problems[:8])
    assert 0.2 < counts["good"] / FEW < 0.45


@pytest.mark.fuzz
@pytest.mark.usefixtures("quiet")
def test_ten_thousand_inputs(folder: Path) -> None:
    began = time.process_time()
    with stopped_before_long_work():
        problems, counts = run_cases(folder, SEED + 1, MANY)
    tried = [counts[f"{' '.join(path)} {parameter.opts[-1]}"] for path, parameter in options()]
    summary = {name: counts[name] for name in ("good", "mutated", "calls", "ended in 0", "ended in 1", "ended in 2")}
    print(f"\n{MANY} cases, {time.process_time() - began:.0f} s: {summary}; {len(tried)} options, each >= {min(tried)}")
    assert not problems, f"{len(problems)} of {MANY}:\n" + "\n\n".join(problems[:40])
    assert min(tried) >= 3 or MANY < 10_000


@pytest.mark.fuzz
def test_processes_of_their_own(folder: Path) -> None:
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1", "TMPDIR": str(folder / "logs")}
    problems = []
    for number, case in enumerate(commands(SEED + 2, PROCESSES)):
        out, before, began = material.refresh(folder), state(folder), time.monotonic()
        command = [sys.executable, "-m", "narkit", *case.words]
        done = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, timeout=900)
        took = time.monotonic() - began
        if problem := wrong(case, done.returncode, done.stdout + done.stderr, 0.0, folder, before):
            problems.append(f"{number}: {problem}: {case.words} after {took:.0f} s: {done.stderr[-600:]}")
    assert not problems, "\n\n".join(problems)
