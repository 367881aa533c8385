"""Sweeps in processes of their own: killed, racing each other, or without room on the disk, they lose nothing."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from narkit.sweeps.cells import Cell, SweepDirectory
from narkit.sweeps.checks import check_file, record_files
from narkit.sweeps.sweep import run_sweep
from narkit.training.record import RunRecord

from ..killing import Experiment, Forked, Starter, environment_of, folder_of, kill_many_times

KILLS = int(os.environ.get("NARKIT_SWEEP_KILLS", "4"))  # of sweeps, at random moments

PROCESS = """
import resource, sys
largest = int(sys.argv.pop(1))
if largest:
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
from narkit.cli import main
main()
"""


@pytest.fixture(scope="module")
def whole(tiny_sweep: Path) -> dict[str, dict]:
    """The results of the sweep that nothing happened to, by cell."""
    return results(tiny_sweep)


def results(folder: Path) -> dict[str, dict]:
    """What the records of a folder say, but for times; each must pass its check."""
    files = record_files(folder)
    assert [check_file(file).problems for file in files] == [()] * len(files)
    return {f"{file.parent.name}/{file.stem}": RunRecord.load(file).result() for file in files}


def start(arguments: list[str], folder: Path, cache: Path) -> subprocess.Popen[str]:
    """A process that imports everything itself: for other files, whose sweeps run on Ray."""
    command = [sys.executable, "-c", PROCESS, "0", *arguments, "--out", str(folder)]
    environment = environment_of(cache)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def fork(starter: Starter, arguments: list[str], folder: Path, pipes: Path, largest_file: int = 0) -> Forked:
    return starter.start(PROCESS, [str(largest_file), *arguments, "--out", str(folder)], pipes)


def run_and_kill(
    starter: Starter, arguments: list[str], folder: Path, pipes: Path, seconds: float, number: int = signal.SIGKILL
) -> str:
    """Runs the sweep and sends a signal so many seconds after the first cell has begun. Returns what was printed."""
    with fork(starter, arguments, folder, pipes) as process:
        printed = process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(number)
        return printed + process.stdout.read()


def finish(starter: Starter, arguments: list[str], folder: Path, pipes: Path) -> str:
    with fork(starter, arguments, folder, pipes) as process:
        printed = process.stdout.read()
    assert process.returncode == 0, printed
    return printed


@pytest.fixture
def pipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what processes print, apart from that of the sweep."""
    return tmp_path_factory.mktemp("pipes")


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


FILES = ["mpnn/bfs.json", "mpnn/bfs.safetensors", "mpnn/minimum.json", "mpnn/minimum.safetensors"]


def test_killed_sweeps_end_as_if_nothing_had_happened(
    whole: dict[str, dict], tiny_arguments: list[str], starter: Starter, pipes: Path, tmp_path: Path
) -> None:
    rng = random.Random(1)
    for _ in range(2):
        run_and_kill(starter, tiny_arguments, tmp_path, pipes, rng.uniform(0.5, 4.0))
    printed = finish(starter, tiny_arguments, tmp_path, pipes)
    assert "all cells are finished" in printed
    assert results(tmp_path) == whole
    assert files_of(tmp_path) == FILES


@pytest.fixture(scope="module")
def four_cells(
    tiny_cells: Callable[..., list[Cell]], program_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict]:
    """The results of a sweep of four cells that nothing happened to."""
    folder = tmp_path_factory.mktemp("four")
    run_sweep(tiny_cells(systems=("mpnn", "pgn")), SweepDirectory(folder))
    return results(folder)


@pytest.mark.slow
def test_sweeps_killed_many_times(
    four_cells: dict[str, dict], tiny_arguments: list[str], starter: Starter, tmp_path: Path
) -> None:
    """Until it is done, and then again in a new folder: kills fall into all four cells, and between them.

    A cell prints four lines (it begins, compiles, trains, is done). A kill waits for up to eight, so that it falls into
    the first cell that is not finished or into the one behind it, and then for a part of a second or two. Every second
    folder is swept by two processes side by side, whose parent is killed.
    """
    files = [file.replace("mpnn", system) for system in ("mpnn", "pgn") for file in FILES]

    def compare(place: Path) -> None:
        assert results(place) == four_cells
        assert files_of(place) == files

    def look(place: Path) -> dict[str, int]:
        """What a kill left: how many cells are finished; each passes its check."""
        return {"finished_cells": len(results(place)) if place.is_dir() else 0}

    folder = folder_of("sweeps", tmp_path)

    def start_in(place: Path) -> Forked:
        grid = ["--systems", "mpnn,pgn", "--processes", str(1 + int(place.name[-1]) % 2)]
        return fork(starter, [*_without_systems(tiny_arguments), *grid], place, folder)

    ending = "all cells are finished"
    experiment = Experiment(folder, start_in, lambda text: ending in text, compare, look, seconds=2.0, lines=8)
    lines = kill_many_times(experiment, KILLS)
    kills = [line for line in lines if line["what"] == "killed"]
    by_cells = Counter(line["finished_cells"] for line in kills)
    print(
        f"\n{len(kills)} kills of {len({line['place'] for line in kills})} sweeps of four cells, "
        f"{sum(line['early'] for line in kills)} of them while a process started; "
        f"{', '.join(f'{by_cells[count]} with {count} cells finished' for count in range(5))}; "
        f"{len(lines) - len(kills)} sweeps ended the same"
    )
    assert KILLS < 50 or all(by_cells[count] > 0 for count in range(4))


def _without_systems(arguments: list[str]) -> list[str]:
    place = arguments.index("--systems")
    return [*arguments[:place], *arguments[place + 2 :]]


@pytest.mark.parametrize("names", [["bfs"], ["bfs", "minimum"]], ids=["one", "side by side"])
def test_a_signal_saves_first(
    names: list[str], tiny_arguments: list[str], starter: Starter, pipes: Path, tmp_path: Path
) -> None:
    grid = ["--algorithms", ",".join(names), "--processes", str(len(names))]
    long = ["steps=100000" if word.startswith("steps=") else word for word in tiny_arguments]
    with fork(starter, [*long, *grid], tmp_path, pipes) as process:
        training = 0
        while training < len(names):
            line = process.stdout.readline()
            assert line, "the sweep ended before its cells were training"
            training += line.endswith(" training\n")
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        printed = process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM, printed
    assert all(f"mpnn/{name} stopped at step" in printed for name in names)
    ending = "interrupted; stopped by a signal, everything is saved: the same command goes on"
    assert f"{len(names)} {ending}" in printed


@pytest.mark.slow  # by default a claim that excludes others, and cells side by side, stand for it
@pytest.mark.parametrize("count", [2, 4])
def test_sweeps_in_one_folder_share_the_work(
    count: int, whole: dict[str, dict], tiny_arguments: list[str], starter: Starter, pipes: Path, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        all_of_them = [stack.enter_context(fork(starter, tiny_arguments, tmp_path, pipes)) for _ in range(count)]
        printed = [process.stdout.read() for process in all_of_them]
    assert [process.returncode for process in all_of_them] == [0] * count, printed
    for name in whole:
        assert sum(text.count(f"{name} done") for text in printed) == 1, printed
    assert results(tmp_path) == whole
    assert files_of(tmp_path) == FILES


def test_cells_side_by_side(
    whole: dict[str, dict], tiny_arguments: list[str], starter: Starter, pipes: Path, tmp_path: Path
) -> None:
    printed = finish(starter, [*tiny_arguments, "--processes", "2"], tmp_path, pipes)
    assert "all cells are finished" in printed
    assert results(tmp_path) == whole
    assert files_of(tmp_path) == FILES


def test_a_full_disk_ends_the_sweep_and_loses_nothing(
    whole: dict[str, dict],
    tiny_arguments: list[str],
    tiny_cells: Callable[..., list[Cell]],
    starter: Starter,
    pipes: Path,
    tmp_path: Path,
) -> None:
    """Files may not grow beyond some bytes, which is what a full disk looks like to a process."""
    one = [*tiny_arguments, "--algorithms", "bfs"]
    with fork(starter, one, tmp_path, pipes, largest_file=2_000) as process:
        printed = process.stdout.read()
    assert process.returncode == 1, printed
    assert "Error: the checkpoint of step 2 could not be written" in printed
    assert "FAILED" not in printed  # a cell is not to blame for the disk
    assert record_files(tmp_path) == []
    run_sweep(tiny_cells(algorithms=("bfs",)), SweepDirectory(tmp_path))
    assert results(tmp_path) == {"mpnn/bfs": whole["mpnn/bfs"]}
    assert files_of(tmp_path) == FILES[:2]
