"""Thousands of good and bad inputs: each ends in success or in one clear line with the right exit code.

By default a few hundred in this process; behind the marker `fuzz` ten thousand, and some as processes of their own:

    pytest tests/fuzz -m fuzz -s
    NARKIT_FUZZ_CASES=2500 NARKIT_FUZZ_SEED=7 pytest tests/fuzz -m fuzz -s -k thousand
    NARKIT_FAULTS=kills pytest tests/fuzz -m fuzz -s -k thousand

The last one keeps what was found in a folder, part by part: stopped and started again, it goes on where it was.

Hypothesis draws them, about a third of them good. What goes wrong is gathered, so that one run tells of everything.
In this process commands are stopped where their long work would begin (training, measuring, running a network, drawing
a report): by then all that was typed has been accepted. Processes of their own do all of it.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
import pytest
import typer.main
from hypothesis import strategies as st

import narkit
from narkit.cli import main
from narkit.files import write_whole

from ..killing import folder_of
from . import material
from .calls import REFUSALS, Call, calls, entry_points
from .commands import SLOTS, Case, files, good_commands, good_lines, mutated_options, mutated_structures, targets

SEED = int(os.environ.get("NARKIT_FUZZ_SEED", "0"))
MANY = int(os.environ.get("NARKIT_FUZZ_CASES", "10000"))
PART = 500  # cases that are kept together
FEW, PROCESSES = 300, int(os.environ.get("NARKIT_FUZZ_PROCESSES", "50"))
LOGS = "narkit-error-*"  # of errors of ours; packages such as wandb make folders for temporary files beside them
WAYS = 3  # in which each option is changed, at least
LONGEST_REFUSAL = 20.0  # seconds of this process's own time


# Files that are open where work would begin are closed by nobody.
STOPPED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


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
    material.refresh(folder)
    return folder


@contextlib.contextmanager
def stopped_before_long_work() -> Iterator[None]:
    """In it no long work begins, and the tree of commands is built once: Typer builds it anew for every command."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("typer.main.get_command", functools.cache(typer.main.get_command)))
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
    """The exit code of a command, and all that it printed, to streams such as a shell gives."""
    printed, here = io.BytesIO(), os.getcwd()
    normal = io.TextIOWrapper(printed, "utf-8", write_through=True)
    errors = io.TextIOWrapper(printed, "utf-8", errors="backslashreplace", write_through=True)
    os.chdir(out)
    try:
        with contextlib.redirect_stdout(normal), contextlib.redirect_stderr(errors), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            main(list(words))
    except WorkBegins:
        code = 0
    except SystemExit as ending:
        code = int(ending.code or 0)
    finally:
        os.chdir(here)
    return code, printed.getvalue().decode(errors="replace")


def wrong(case: Case, code: int, printed: str, took: float, folder: Path, before: dict) -> str | None:
    """What is wrong with how a command ended, or None."""
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if case.good and code != 0:
        return f"a good command ended in exit code {code}"
    if "Traceback" in printed or "[Errno" in printed:
        return "Python's own words"
    if code != 0 and not any(word in printed for word in ("Error", "expected", "Usage", "damaged", ": ")):
        return "refused without a word"
    if code == 2 and took > LONGEST_REFUSAL:
        return f"refused after {took:.0f} s"
    left = [str(path) for path in [*folder.rglob("*.part"), *(folder / "logs").glob(LOGS)]]
    if left:
        return f"left behind: {left}"
    if state(folder) != before:
        return "something outside of --out was changed"
    return None


@dataclass
class Tried:
    """What was tried, and what was wrong with it."""

    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    ways: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by option, setting or entry
    longest_refusal: float = 0.0
    seconds: float = 0.0  # of computing

    def summary(self) -> str:
        fewest = min(len(self.ways[target.name]) for target in targets())
        counts = ", ".join(f"{self.counts[name]} {name}" for name in sorted(self.counts))
        return (
            f"{counts}; {len(targets())} options and settings, each changed in at least {fewest} ways; the longest "
            f"refusal took {self.longest_refusal:.1f} s"
        )

    def add(self, other: Tried) -> None:
        self.problems += other.problems
        self.counts += other.counts
        for name, ways in other.ways.items():
            self.ways[name] |= ways
        self.longest_refusal = max(self.longest_refusal, other.longest_refusal)
        self.seconds += other.seconds

    def to_json(self) -> dict[str, Any]:
        ways = {name: sorted(ways) for name, ways in self.ways.items()}
        return {**vars(self), "counts": dict(self.counts), "ways": ways}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Tried:
        ways = defaultdict(set, {name: set(ways) for name, ways in values["ways"].items()})
        return cls(**(values | {"counts": Counter(values["counts"]), "ways": ways}))

    @property
    def good_share(self) -> float:
        good = sum(count for name, count in self.counts.items() if name.startswith("good"))
        return good / sum(count for name, count in self.counts.items() if not name.startswith("ended"))


def parts(folder: Path) -> list[tuple[float, st.SearchStrategy[Case | Call]]]:
    """Shares of what is tried, a third of it good.

    Hypothesis leaves out what it has drawn before, and would soon be done with good ones, of which there are few. A
    number that nothing depends on keeps it going: the same command twice has to end in the same way twice.
    """
    number = st.integers(0, 2**48)
    good = [(0.24, good_commands()), (0.04, files(folder, changed=False)), (0.06, calls(folder, good=True))]
    bad = [(0.38, mutated_options()), (0.08, mutated_structures())]
    bad += [(0.1, files(folder, changed=True)), (0.1, calls(folder, good=False))]
    return [(share, st.tuples(number, strategy).map(lambda drawn: drawn[1])) for share, strategy in [*good, *bad]]


def drawn_by_hypothesis(strategy: st.SearchStrategy[Any], seed: int, count: int, run: Callable[[Any], None]) -> None:
    """Calls `run` with so many cases; every failure is for `run` to keep."""
    given = hypothesis.given(strategy)(lambda case: run(case))
    limits = hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
    )
    hypothesis.seed(seed)(limits(given))()


def run_cases(folder: Path, seed: int, count: int) -> Tried:
    """Runs so many cases in this process."""
    tried, began = Tried(), time.process_time()

    def run(case: Case | Call) -> None:
        if isinstance(case, Call):
            _try_call(tried, case)
        else:
            _try_command(tried, folder, case)

    for place, (share, strategy) in enumerate(parts(folder)):
        drawn_by_hypothesis(strategy, 10 * seed + place, round(share * count), run)
    tried.seconds = time.process_time() - began
    return tried


def _try_command(tried: Tried, folder: Path, case: Case) -> None:
    out = material.refresh(folder)
    if case.file:
        (out / case.file[0]).write_bytes(case.file[1])
    before, began = state(folder), time.process_time()
    code, printed = in_this_process(case.words, out)
    took = time.process_time() - began
    tried.counts["good commands" if case.good else "mutated commands"] += 1
    tried.counts[f"ended in {code}"] += 1
    if code:
        tried.longest_refusal = max(tried.longest_refusal, took)
    if case.option:
        tried.ways[case.option].add(case.what)
    if problem := wrong(case, code, printed, took, folder, before):
        words = " ".join(map(repr, case.words))[:300]
        tried.problems.append(f"{problem}: narkit {words} ({case.what}): {printed[-700:]}")
        if case.file:
            tried.problems[-1] += f"\n{case.file[0]}: {case.file[1][:300]!r}"
        for log in (folder / "logs").glob(LOGS):
            tried.problems[-1] += log.read_text()[-900:]
            log.unlink()


def _try_call(tried: Tried, call: Call) -> None:
    tried.counts["good calls" if call.good else "mutated calls"] += 1
    tried.ways[call.entry].add(call.words)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call.make()
    except WorkBegins:
        pass
    except REFUSALS as error:
        if call.good or not str(error).strip():
            tried.problems.append(f"{call.words}: {type(error).__name__}: {error}")
    except Exception as error:
        tried.problems.append(f"{call.words}: {type(error).__name__}: {error}")


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("tempfile.tempdir", str(folder / "logs"))


@pytest.mark.usefixtures("quiet")
@STOPPED
def test_a_few_hundred_inputs(folder: Path) -> None:
    with stopped_before_long_work():
        tried = run_cases(folder, SEED, FEW)
    print(f"\n{tried.summary()}")
    assert not tried.problems, f"{len(tried.problems)} of {FEW}:\n" + "\n\n".join(tried.problems[:8])
    assert 0.3 < tried.good_share < 0.37


def test_every_command_has_a_good_line() -> None:
    """From which its mutations are made; without one they would never get beyond what is missing."""
    assert [path for path, lines in good_lines().items() if not lines] == []


def test_every_public_name_is_tried(folder: Path) -> None:
    """All that can be called of what narkit promises, but for what has no arguments to get wrong."""
    types = {"Callback", "DenseProcessor", "Processor", "Kind", "Location", "Stage", "Predictions", "Probe"}
    decorators = {"algorithm"}  # which tests/algorithms looks after
    names = {name for name in narkit._MODULES if callable(getattr(narkit, name))}
    assert names - types - decorators <= set(entry_points(folder))


@pytest.mark.fuzz
@pytest.mark.usefixtures("quiet")
@STOPPED
def test_ten_thousand_inputs(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(SLOTS, "algorithm", st.sampled_from(sorted(narkit.ALGORITHMS)))
    tried, kept = Tried(), folder_of("fuzz", tmp_path)
    for part, first in enumerate(range(0, MANY, PART)):
        file = kept / f"seed-{SEED}-part-{part:03d}-of-{MANY}.json"
        if not file.exists():
            with stopped_before_long_work():
                found = run_cases(folder, 1000 * SEED + part + 1, min(PART, MANY - first))
            write_whole(file, json.dumps(found.to_json()))
        tried.add(Tried.from_json(json.loads(file.read_text())))
    rest = [target for target in targets() if len(tried.ways[target.name]) < WAYS and MANY >= 10_000]
    with stopped_before_long_work():
        for target in rest:  # which chance has left out
            drawn_by_hypothesis(mutated_options(target), SEED, 20, lambda case: _try_command(tried, folder, case))
    print(
        f"\n{MANY} cases, and 20 for each of {len(rest)} options; {tried.seconds:.0f} s of CPU time: {tried.summary()}"
    )
    assert not tried.problems, f"{len(tried.problems)} of {MANY}:\n" + "\n\n".join(tried.problems[:40])
    assert 0.3 < tried.good_share < 0.37
    assert [target.name for target in rest if len(tried.ways[target.name]) < WAYS] == []


@pytest.mark.fuzz
def test_processes_of_their_own(folder: Path) -> None:
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1", "TMPDIR": str(folder / "logs")}
    problems: list[str] = []
    codes: Counter[int] = Counter()

    def run(case: Case) -> None:
        out, before, began = material.refresh(folder), state(folder), time.monotonic()
        words = [word.encode(errors="surrogateescape") for word in case.words]
        command = [sys.executable.encode(), b"-m", b"narkit", *words]
        done = subprocess.run(command, cwd=out, env=environment, capture_output=True, timeout=1800)
        took, printed = time.monotonic() - began, (done.stdout + done.stderr).decode(errors="replace")
        codes[done.returncode] += 1
        print(f"\nended in {done.returncode} after {took:.0f} s: narkit", *map(repr, case.words), flush=True)
        if problem := wrong(case, done.returncode, printed, 0.0, folder, before):
            problems.append(f"{problem}: {case.words} after {took:.0f} s: {printed[-600:]}")

    of_each = PROCESSES // 5
    kinds = [(2, good_commands()), (2, mutated_options()), (1, mutated_structures())]
    for place, (times, strategy) in enumerate(kinds):
        drawn_by_hypothesis(strategy, 10 * SEED + place, times * of_each, run)
    print(f"\n{codes.total()} processes, exit codes {dict(sorted(codes.items()))}")
    assert not problems, "\n\n".join(problems)
