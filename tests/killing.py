"""Processes that are killed at random moments again and again, several at a time, with a ledger of what happened.

A place is a folder in which one process at a time works, is killed, and is started again until its work is done. Then
the result is compared, and the place that follows is begun. Every kill is one line of the ledger, so that an experiment
that is stopped goes on where it was when it is started again with the same folder (`NARKIT_FAULTS`):

    NARKIT_KILLS=200 NARKIT_FAULTS=kills pytest -m slow tests/training/test_resuming.py -s -k many_times
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

AT_A_TIME = int(os.environ.get("NARKIT_KILLED_AT_A_TIME", min(16, len(os.sched_getaffinity(0)))))

SOURCE = Path(__file__).parents[1] / "src"


def environment_of(cache: Path) -> dict[str, str]:
    """Of processes that use this source tree and these compiled programs."""
    return {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


def folder_of(name: str, otherwise: Path) -> Path:
    """Where an experiment keeps its ledger and its places: a folder that lasts, if one was given."""
    given = os.environ.get("NARKIT_FAULTS")
    folder = Path(given).absolute() / name if given else otherwise / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Process(Protocol):
    """What is asked of a process: `subprocess.Popen` has it, and what a `Starter` starts."""

    stdout: Any

    def kill(self) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> Any: ...


STARTER = """
import json, os, signal, sys, warnings
import jax, orbax.checkpoint, narkit, narkit.cli
narkit.train, narkit.sample("bfs", size=4, batch_size=1), narkit.sample("minimum", size=4, batch_size=1)
import narkit.sweeps.sweep, narkit.training.run, narkit.cli.training_display
warnings.filterwarnings("ignore", "os.fork")
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    task = json.loads(line)
    if os.fork():
        continue
    # Here a process begins that only waits for the one which works, to say how it ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child:
        print(child, flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with open(task["prints_to"] + ".part", "w") as file:
            file.write(str(code))
        os.rename(task["prints_to"] + ".part", task["prints_to"] + ".code")
        os._exit(0)
    os.setsid()
    end = os.open(task["prints_to"], os.O_WRONLY)
    os.dup2(end, 1), os.dup2(end, 2), os.close(end), os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["-c", *task["arguments"]]
    exec(task["script"], {"__name__": "__main__"})
    break  # it ends as any process does
"""


class Starter:
    """A process that has imported everything and started nothing, and forks: what it starts need not import it again.

    On a machine with few cores that is half of the time of a process that lives for seconds.
    """

    def __init__(self, environment: Mapping[str, str]):
        command = [sys.executable, "-c", STARTER]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lock, self._pipes = threading.Lock(), 0
        assert self._process.stdout is not None and self._process.stdout.readline() == "ready\n"

    def start(self, script: str, arguments: Sequence[str], folder: Path) -> Forked:
        """Runs a script with arguments; what it prints goes through a pipe in the folder."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with self._lock:
            self._pipes += 1
            pipe = folder / f"pipe-{os.getpid()}-{self._pipes}"
            os.mkfifo(pipe)
            print(
                json.dumps({"script": script, "arguments": list(arguments), "prints_to": str(pipe)}), file=process.stdin
            )
            process.stdin.flush()
            child = int(process.stdout.readline())
        return Forked(child, pipe)

    def __enter__(self) -> Starter:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.__exit__(None, None, None)  # closes its pipes, so that it ends, and waits for it


class Forked:
    """A process that a `Starter` forked."""

    def __init__(self, child: int, pipe: Path):
        self.child, self._pipe = child, pipe
        self.stdout: TextIO = pipe.open()
        self.returncode = 0  # once it has ended; as `subprocess.Popen` has it

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(self.child, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *error: object) -> None:
        """Waits for its end."""
        self.stdout.close()
        code = self._pipe.with_name(f"{self._pipe.name}.code")
        while not code.exists():
            time.sleep(0.01)
        self.returncode = int(code.read_text())
        self._pipe.unlink()
        code.unlink()


@dataclass(frozen=True)
class Experiment:
    """What is started, killed and looked at.

    `start` starts the process that works in a place; it prints a line once it works. `ended` says from what it printed
    whether its work is done, `compare` raises unless a place whose work is done is as it should be, and `look` raises
    if a kill left something wrong, or else returns what the ledger shall say about it.
    """

    folder: Path
    start: Callable[[Path], Process]
    ended: Callable[[str], bool]
    compare: Callable[[Path], None]
    look: Callable[[Path], dict[str, Any]]
    seconds: float  # a process is killed within so many after the line that is waited for
    startup: float = 4.0  # one in eight is killed within so many seconds of its start
    lines: int = 1  # which line is waited for is drawn, too: the first, or one of so many


class Ledger:
    """Lines of JSON, one for every kill and for every place that was finished."""

    def __init__(self, file: Path):
        self.file, self._lock = file, threading.Lock()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def kills(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["what"] == "killed"]

    def add(self, **line: Any) -> None:
        with self._lock, self.file.open("a") as file:
            file.write(json.dumps(line) + "\n")


def kill_many_times(experiment: Experiment, times: int, at_a_time: int = AT_A_TIME) -> list[dict[str, Any]]:
    """Kills so many processes, those of earlier calls included, and lets what was begun end. Returns the ledger."""
    ledger = Ledger(experiment.folder / "ledger.jsonl")
    numbers = itertools.count(len(ledger.lines()))  # what a kill is drawn by
    left, lock = times - len(ledger.kills()), threading.Lock()

    def ticket() -> int | None:
        nonlocal left
        with lock:
            if left <= 0:
                return None
            left -= 1
            return next(numbers)

    def give_back() -> None:
        nonlocal left
        with lock:
            left += 1

    def work(worker: int) -> None:
        finished = {line["place"] for line in ledger.lines() if line["what"] == "finished"}
        number = 0
        while True:
            place = experiment.folder / f"{worker:02d}-{number:03d}"
            number += 1
            if place.name in finished:
                continue
            done = False
            while not done and (kill := ticket()) is not None:
                done = _run_and_kill(experiment, ledger, place, kill)
                if done:  # it had ended before it was killed
                    give_back()
            if not done and not place.exists():
                return
            if not done:
                with experiment.start(place) as process:
                    assert process.stdout is not None
                    printed = process.stdout.read()
                assert experiment.ended(printed), printed[-3000:]
            experiment.compare(place)
            ledger.add(what="finished", place=place.name)

    with ThreadPoolExecutor(at_a_time) as pool:
        for future in [pool.submit(work, worker) for worker in range(at_a_time)]:
            future.result()
    return ledger.lines()


def _run_and_kill(experiment: Experiment, ledger: Ledger, place: Path, kill: int) -> bool:
    """Starts, kills and looks. Returns whether the work was done before."""
    rng = random.Random(kill)
    early = rng.random() < 1 / 8
    seconds = rng.uniform(0.0, experiment.startup if early else experiment.seconds)
    with experiment.start(place) as process:
        assert process.stdout is not None
        printed = ""
        for _ in range(0 if early else rng.randint(1, experiment.lines)):
            printed += process.stdout.readline()  # nothing, if it has ended
        time.sleep(seconds)
        process.kill()
        printed += process.stdout.read()
    assert "Traceback" not in printed and "damaged" not in printed, printed[-3000:]
    if experiment.ended(printed):
        return True
    seen = experiment.look(place)
    ledger.add(what="killed", kill=kill, place=place.name, early=early, seconds=round(seconds, 3), **seen)
    return False
