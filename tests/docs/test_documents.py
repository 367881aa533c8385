"""Every document: its commands parse, its links lead somewhere, and the files and Python that it names are there."""

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from narkit.cli import app

ROOT = Path(__file__).parents[2]
OUTSIDE_OF_DOCS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md")
DOCUMENTS = [ROOT / name for name in OUTSIDE_OF_DOCS if (ROOT / name).exists()] + sorted((ROOT / "docs").rglob("*.md"))
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in DOCUMENTS}
FOLDERS = ("src", "tests", "docs", "benchmarks", "examples")  # which source archives have, too
FILES = [path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
NEED_EXTRAS = ("narkit.interop.torch", "narkit.interop.pyg")  # modules that import what may not be installed
# A word before the command may set a variable: NAME=value narkit ...
LINE = re.compile(r"^(?: {4})?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(narkit (?!=).*)$", re.MULTILINE)
INLINE = re.compile(r"`(?:[A-Z_]+=\S+ )*(narkit [^`]+)`")


def code_of(text: str) -> str:
    """What stands between fences, and indented lines."""
    fenced = "".join(f"{block}\n" for block in text.split("```")[1::2])
    code = fenced + "\n".join(line for line in text.splitlines() if line.startswith("    "))
    return re.sub(r"\s*\\\n\s*", " ", code)  # a command may go on in the next line


def lines_of_commands() -> list[tuple[str, str]]:
    return [(name, line) for name, text in TEXTS.items() for line in dict.fromkeys(LINE.findall(code_of(text)))]


def commands_in_sentences() -> list[tuple[str, str]]:
    return [(name, line) for name, text in TEXTS.items() for line in dict.fromkeys(INLINE.findall(text))]


def found(words: list[str]) -> tuple[Any, list[str]]:
    """The command or group of commands that words name, and the words that are left for it."""
    command: Any = get_command(app)
    while words and hasattr(command, "commands"):
        while words[0].startswith("--"):  # an option of the group, with its value
            assert words[0] in {option for parameter in command.params for option in parameter.opts}, words[0]
            words = words[2:]
        assert words[0] in command.commands, f"{words[0]!r} is no command; there are {', '.join(command.commands)}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


def test_there_is_something_to_look_at() -> None:
    assert {"README.md", "docs/adding_an_algorithm.md", "docs/benchmarks.md", "docs/sweeps.md", "docs/training.md"} <= {
        name for name, _ in lines_of_commands()
    }
    assert "docs/architecture.md" in TEXTS and len(commands_in_sentences()) > 10


@pytest.mark.parametrize("name, line", lines_of_commands(), ids=lambda part: part)
def test_commands_parse(name: str, line: str) -> None:
    command, words = found(shlex.split(line, comments=True)[1:])
    assert not hasattr(command, "commands"), f"expected one of {', '.join(command.commands)} after it"
    if "--import" in line:  # its arguments may be names from a module of the user's own
        check_options(command, words)
    else:
        command.make_context(line, words)


def check_options(command: Any, words: list[str]) -> None:
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("name, line", commands_in_sentences(), ids=lambda part: part)
def test_commands_in_sentences_exist(name: str, line: str) -> None:
    """They may leave out arguments, or name a group."""
    check_options(*found(shlex.split(line)[1:]))


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXTS[name]):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), target
        if heading:
            assert heading in headings(file.read_text()), target


def headings(text: str) -> set[str]:
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", TEXTS)
def test_named_files_exist(name: str) -> None:
    text = TEXTS[name]
    users_own = set(re.findall(r"```python\n# (\w+\.py)\n", text))  # examples that begin with their file's name
    for path in re.findall(r"`([\w./-]+\.(?:py|cu|cuh))`", text):
        assert path in users_own or any(f"/{file}".endswith(f"/{path}") for file in FILES), path
    for path in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", text):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"^(?: {4})?\S*python\S* ([\w/]+\.py)\b", text, re.MULTILINE):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "CHANGELOG.md"])  # which tells of old names, too
def test_names_of_python_exist(name: str) -> None:
    for dotted in set(re.findall(r"\bnarkit(?:\.[A-Za-z_]+)+(?![\w/])", TEXTS[name])):
        if not dotted.startswith(NEED_EXTRAS):
            named(dotted)


def named(dotted: str) -> Any:
    """What a dotted name stands for: a module or something in one."""
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError:
        within, _, last = dotted.rpartition(".")
        return getattr(named(within), last)


def test_scripts_have_the_options_that_they_are_called_with() -> None:
    """In documents and in their own descriptions."""
    scripts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "benchmarks").glob("*.py")}
    called = set()
    for text in (*TEXTS.values(), *scripts.values()):
        for script, arguments in re.findall(r"python (benchmarks/\w+\.py)(.*)$", text, re.MULTILINE):
            called.add(script)
            for option in re.findall(r"--[\w-]+", arguments):
                assert f'add_argument("{option}"' in scripts[script], f"{script} {option}"
    assert called == {script for script, text in scripts.items() if "def main(" in text}


@pytest.mark.parametrize("name", TEXTS)
def test_lists_stand_apart(name: str) -> None:
    """The site's Markdown takes a list that follows a line of text for a part of it; other readers do not."""
    fenced, before = False, ""
    for line in TEXTS[name].splitlines():
        fenced ^= line.startswith("```")
        starts = re.match(r"([-*]|\d+\.) ", line) and not re.match(r"([-*]|\d+\.) |\s", before)
        assert fenced or not starts or not before.strip(), f"put an empty line before: {line}"
        before = line


@pytest.mark.parametrize("name", [*TEXTS, "benchmarks/LOG.md"])
def test_rows_have_the_columns_of_their_table(name: str) -> None:
    """What stands in a column too many is not shown."""
    text = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(), flags=re.DOTALL | re.MULTILINE)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = [re.sub(r"`[^`]*`|\\\|", "", row).count("|") for row in table.splitlines()]
        assert set(rows) == {rows[0]}, table.splitlines()[[count != rows[0] for count in rows].index(True)]


@pytest.mark.parametrize("name", TEXTS)
def test_code_fits_the_site(name: str) -> None:
    """A page 1400 pixels wide shows 120 letters of code; commands may be broken, comments may stand above them."""
    for block in TEXTS[name].split("```")[1::2]:
        for line in block.splitlines():
            assert len(line) <= 120, line


@pytest.mark.parametrize("name", TEXTS)
def test_prose_wraps_at_120_letters(name: str) -> None:
    """But for tables, pictures and links, and what is written from records."""
    written_by_hand = re.sub(r"<!-- [^\n]*: begin.*?: end -->", "", TEXTS[name], flags=re.DOTALL)
    for part in written_by_hand.split("```")[::2]:
        for line in part.splitlines():
            assert len(line) <= 120 or line.lstrip().startswith(("|", "![", "<", "[")), line
