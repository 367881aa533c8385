"""No traceback reaches a person: what cannot be done is refused beforehand, and one place catches what is left."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import narkit
from narkit import files, resources
from narkit.cli import listing, main
from narkit.data import memory
from narkit.data.execution import measured_lengths
from narkit.errors import MemoryNeedError
from narkit.spec import ALGORITHMS


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code of a command, and what it printed as one line."""
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    printed = capsys.readouterr()
    text = " ".join((printed.out + printed.err).replace("│", " ").split())
    return int(caught.value.code or 0), text


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_an_error_of_ours_is_one_line_a_log_and_exit_code_70(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("something\nwent wrong")

    monkeypatch.setattr(listing, "print_algorithms", broken)
    code, text = ended(capsys, "list")
    assert code == 70
    assert "an error in narkit itself: ZeroDivisionError: something went wrong" in text
    assert "Traceback (most" not in text and "narkit --debug list" in text
    (log,) = tmp_path.glob("narkit-error-*.log")
    assert str(log) in text and log.stat().st_mode & 0o077 == 0
    assert re.search(r"narkit list\n(.|\n)*Traceback(.|\n)*in broken", log.read_text())
    code, text = ended(capsys, "--debug", "list")
    assert code == 70 and "Traceback" in text and "in broken" in text


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError("Unable to allocate 9 TiB"), "Error: not enough memory: Unable to allocate 9 TiB; choose smaller"),
        (OSError(28, "No space left on device", "a.json"), "Error: a.json: No space left on device"),
    ],
)
def test_what_the_machine_cannot_do_ends_in_1(
    error: Exception,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(listing, "print_algorithms", fail)
    code, text = ended(capsys, "list")
    assert code == 1 and expected in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("data show bfs --size 1000000", "of memory would be needed"),
        ("data show bubble_sort --size 100000", "of memory would be needed"),
        ("data export minimum --count 1000000000 --out x.npz", "of memory would be needed"),
        ("bench data --sizes 1000000 --algorithms bfs", "bfs, 32 samples of size 1000000: about"),
        ("data show bfs --size 800", "values to print"),
        ("data show bfs --picture no/folder/x.png", "the folder no/folder does not exist; create it first"),
        ("data show bfs --picture .", "expected a name that ends in .png"),
        ("data export bfs --out file/x.npz", "file: expected a folder, got a file"),
        ("data export bfs --out folder.npz", "folder.npz exists already"),
        ("data export bfs --out folder.npz --force", "expected the name of a file, got that of a folder"),
        ("eval nowhere", "nowhere: expected the folder of a run, got nothing: it does not exist"),
        ("eval nowhere --json no/folder/x.json", "the folder no/folder does not exist"),
        ("train --algorithm bfs --out file", "file: expected a folder, or none yet, got a file"),
        ("train --algorithm bfs --out file/run", "file: expected a folder, or none yet, got a file"),
        ("train --algorithm bfs --out /proc/narkit", "/proc/narkit: No such file or directory"),
        ("train --algorithm bfs --out folder.npz/..", "expected a new or empty folder or that of a run, got one with"),
        ("train --resume file", "file: expected the folder of a run, got a file"),
        ("train --algorithm bfs --preset nope", "Known: clrs2022, development, paper, plus, quick"),
        ("demo --steps 9999999999999999999999", "steps: expected a whole number and below 2^63"),
        ("--import '' list", "expected the name of a module, such as my_algorithms, got ''"),
        ("--import ..x list", "expected the name of a module"),
        ("--import broken_module list", "the module broken_module cannot be imported: ValueError: of its own"),
        ("bench data --reference-python /bin/ls --algorithms bfs --sizes 8", "give a Python that has dm-clrs"),
        ("bench data --out= --algorithms bfs", "'--out': expected the name of a file, got '.'"),
        (
            "bench data --json folder.npz --algorithms bfs",
            "'--json': folder.npz: expected the name of a file, got that",
        ),
        ("bench train --out file/x", "'--out': file: expected a folder, or none yet, got a file"),
        ("solve quicksort --instances nowhere", "one JSON object a line: No such file or directory"),
        ("train --algorithm bfs --hidden-size 1000000", "networks of width 1000000: about"),
        ('train --algorithm bfs --set processor_options={"num_heads":3}', "heads that divides the hidden size, got 3"),
        ("train --algorithm bfs --save-every inf", "save_every: expected a finite number, such as 30, got inf"),
        ("report . --empty --readme none.md", "none.md: No such file or directory"),
        ("view bfs --out no/folder/x.html --seed 1", "the folder no/folder does not exist"),
    ],
)
def test_refused_before_anything_is_done(words: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("")
    Path("folder.npz").mkdir()
    Path("broken_module.py").write_text("raise ValueError('of its own')")
    before = sorted(path.name for path in Path().iterdir())
    code, text = ended(capsys, *("" if word == "''" else word for word in words.split()))
    assert code in (1, 2), text
    assert expected in text
    sys.modules.pop("broken_module", None)
    assert sorted(path.name for path in Path().iterdir() if path.name != "__pycache__") == before


def test_memory_is_estimated_from_how_lengths_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory.typical_steps(measured_lengths(ALGORITHMS["insertion_sort"]), 1000) == pytest.approx(1000, rel=0.05)
    assert memory.typical_steps(measured_lengths(ALGORITHMS["bubble_sort"]), 1000) == pytest.approx(500_000, rel=0.2)
    batch = narkit.run("insertion_sort", A=list(range(40, 0, -1)))
    actual = sum(v.nbytes for part in (batch.inputs, batch.hints, batch.outputs) for v in part.values())
    assert memory.batch_bytes(ALGORITHMS["insertion_sort"], 40, 1, batch.num_steps) == pytest.approx(actual, rel=0.6)
    monkeypatch.setattr(resources, "available_memory", lambda: 2**31)
    with pytest.raises(MemoryNeedError, match=r"about 3\.0 GiB of memory would be needed, 2\.0 GiB are there"):
        memory.check_memory("work", 3 * 2**30)
    memory.check_memory("work", 2**30)


def test_available_memory_is_that_of_the_system() -> None:
    there = resources.available_memory()
    assert there is not None and 2**20 < there <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_folders_to_write_into(tmp_path: Path) -> None:
    files.check_folder(tmp_path / "new" / "one")
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below" / "it"):
        with pytest.raises(NotADirectoryError, match="expected a folder, or none yet, got a file"):
            files.check_folder(place)


def test_help_says_nothing_of_the_type_of_flags(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ended(capsys, "train", "--help")
    assert code == 0 and "--tensorboard" in text and "--steps" in text
    assert "<bool>" not in text
