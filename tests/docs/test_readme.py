"""The README's Python runs, and its targets of make exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = README.split("```")[1::2]  # what stands between fences
SHELL = "".join(block for block in BLOCKS if block.startswith("\n"))


def test_python_examples_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    answer, data = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(answer, "README.md", "exec"), {})
    assert "Ulm → Augsburg → Munich → Rosenheim" in capsys.readouterr().out
    assert (tmp_path / "run.html").stat().st_size > 10_000
    exec(compile(data, "README.md", "exec"), {})
    predecessors, scores = capsys.readouterr().out.splitlines()
    assert predecessors == "[[0 0 1]]" and scores.startswith("{'pi': ")


def test_it_is_short_and_says_every_term_once() -> None:
    assert len(README.splitlines()) <= 200
    words = " ".join(README.split())
    terms = ("CLRS-30", "trajectory", "probe", "hints", "out of distribution", "TEAM", "TEAM+")
    for term in (*terms, "Triplet Edge Attention (TEA)"):
        assert words.count(f"**{term}**") == 1, term


def test_it_goes_from_what_it_is_to_where_to_read_on() -> None:
    picture, *headings = re.findall(r"^(?:## (.*)|!\[.*)$", README, re.MULTILINE)
    assert picture == ""  # before the first heading
    assert [heading for heading in headings if heading][:5] == [
        *("For whom, for what", "Install, and a first answer", "The two commands", "Results", "Beside other software"),
    ]
    assert "Citing" in headings
    example = README.split("```python\n")[1].split("```")[0]
    assert len(example.splitlines()) <= 10 and ".save(" in example  # ends in something to look at


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make (\w+)", SHELL, re.MULTILINE)) <= targets
