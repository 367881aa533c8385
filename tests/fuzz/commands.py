"""Commands to try: good ones, and mutations of them, made by walking the command tree.

Whatever command, option or setting is added is tried, too. What a case is made of is drawn by Hypothesis.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main
from hypothesis import strategies as st

from narkit.cli import app
from narkit.training.config import TrainConfig

from .material import GIVEN, mutated_bytes, mutated_json, mutated_weights

TRAIN = "train --algorithm {algorithm} --processor {processor} --preset quick --steps {small} --out run"
SWEEP = "sweep --preset quick --systems mpnn --algorithms {algorithm} --seeds {small} --out sweep"
BFS = "../given/records/mpnn/bfs.safetensors"

# Good commands, in which words in braces are drawn.
GOOD: tuple[str, ...] = (
    "list", "list processors", "list presets --json", "list systems", "--version", "--debug list --json",
    "data show {algorithm} --size {size} --seed {seed}", "data show {algorithm} --max-steps {small} --size {size}",
    "data show {graph} --size {size} --density {share}",
    "data export {algorithm} --size {size} --count {small} --seed {seed} --out x.npz",
    "data export {algorithm} --split val --out x.npz --force", "data export bfs --split val --transformed --out x.npz",
    "solve {sort} {numbers}", "solve {sort} {numbers} --json", "solve minimum {numbers}",
    "solve {path} --edges ../given/edges.csv --source {letter} --json",
    "solve bfs --matrix ../given/matrix.csv --source 0 --undirected", "solve kmp_matcher --text abab --pattern ba",
    "solve graham_scan --points ../given/points.csv", "solve {sort} --instances ../given/instances.jsonl",
    "solve activity_selector --activities ../given/activities.csv",
    "solve task_scheduling --tasks ../given/tasks.csv", "solve binary_search 1 2 5 --target 2",
    "solve lcs_length --first {letters} --second {letters}",
    "view {algorithm} --size 5 --seed {seed} --out x.html", "view {sort} {numbers}", "weights bfs", "weights --json",
    "view {path} --edges ../given/edges.csv --source {letter} --directed", "view binary_search 1 2 5 --target 2",
    "view bfs --matrix ../given/matrix.csv --source 0", "view graham_scan --points ../given/points.csv --out x.html",
    "view kmp_matcher --text abab --pattern ba", "view lcs_length --first {letters} --second {letters}",
    "view activity_selector --activities ../given/activities.csv", "view task_scheduling --tasks ../given/tasks.csv",
    TRAIN, f"{TRAIN} --set test={{flag}} --set sizes=3,{{size}}",
    f"{TRAIN} --seeds {{small}} --hidden-size 8 --batch-size {{small}} --save-every {{share}}",
    f"{TRAIN} --set learning_rate={{share}} --set hints={{hints}} --set average={{share}}",
    "train --resume stopped", "train --resume stopped --save-every {share}",
    f"eval {BFS} --size {{size}} --samples {{small}} --json x.json", f"eval {BFS} --size {{size}} --no-hints",
    "eval ../given/run --size {size} --rule last",
    f"{SWEEP} --status", f"{SWEEP} --plan --set validate_every={{seed}}", f"{SWEEP} --status --budget 9m --whole-cells",
    f"{SWEEP} --status --weights mpnn --threads {{small}} --save-every {{share}} --processes {{small}}",
    f"{SWEEP} --status --no-weights --hidden-size 8 --steps {{small}} --batch-size {{small}} --retry-failed",
    "records check records", "records check records --set-aside", "records manifest records",
    "records check records --rescore {small}", "compare ../given/records/mpnn/bfs.json records/mpnn/bfs.json",
    "compare records/mpnn/bfs.json records/mpnn/bfs.json --rule last",
    "report records --preset quick --empty --out report", "report records --empty --readme README.md",
    "demo --steps {small} --seed {seed} --out demo",
    "bench data --algorithms {algorithm} --sizes {size} --seconds 0.01 --out speed",
    "bench train --algorithm {algorithm} --processor {processor} --sizes {size} --seeds {small} --steps {small} "
    "--hidden-size 8 --batch-size {small}",
)  # fmt: skip

SLOTS: dict[str, st.SearchStrategy[str]] = {
    # Few by default, which are soon compiled; ten thousand cases are of all.
    "algorithm": st.sampled_from(["bfs", "dijkstra", "insertion_sort", "kmp_matcher", "minimum", "segments_intersect"]),
    "processor": st.sampled_from(["mpnn", "pgn", "team", "triplet_gmpnn", "memnet", "deepsets"]),
    "graph": st.sampled_from(["bfs", "dfs", "dijkstra", "mst_prim"]),
    "path": st.sampled_from(["bfs", "dijkstra", "bellman_ford"]),
    "sort": st.sampled_from(["quicksort", "heapsort", "insertion_sort", "bubble_sort"]),
    "size": st.integers(4, 24).map(str),
    "small": st.integers(1, 5).map(str),
    "seed": st.integers(1, 2**31 - 1).map(str),
    "share": st.floats(0.01, 0.99).map(lambda value: f"{value:.3f}"),
    "flag": st.sampled_from(["true", "False", "yes", "off"]),
    "hints": st.sampled_from(["encoded", "decoded", "none"]),
    "letter": st.sampled_from("abc"),
    "letters": st.text("abcd", min_size=2, max_size=8),
    "numbers": st.lists(st.integers(0, 99), min_size=2, max_size=9, unique=True).map(lambda v: " ".join(map(str, v))),
}

ANY = (
    "", " ", "-", "💥", "a" * 3000, "../../x", "None", "nan", "[", "{}", "-1", "\\", "a\nb", "%s", "~", "\udcff",
    "[bold]x[/]", "$HOME", "*", "'", "\x1b[31m", "true", "{0}",
)  # fmt: skip
BY_KIND: dict[str, tuple[str, ...]] = {
    "int": ("-1", "0", "1.5", "abc", "1e3", "9" * 22, "100000", "0x10", "--", "1_0", "True", "4,7", "٣", "+3", " 3"),
    "float": ("nan", "inf", "-1", "1e400", "abc", "", "--", "1,5", "-0.0", "0", "1e-320"),
    "Path": (
        "nowhere", "no/such/x", "folder", "../given/empty.csv", "../given/bytes.bin", "../given/words.csv", "",
        ".", "/dev/null", "/proc/nowhere/x", "../given/edges.csv/x", "../given/link", "stopped", "x" * 300,
        "../given/records", "/dev/full", "/sys/x",
    ),
    "str": (
        "bfs,,dfs", "bfs,bfs", "BFS", "bsf", ",", "team,nope", "paper ", "quick", "9m9", "0s", "-3h", "16;64", "16,64",
        "0", "mpnn", "last", "ood", "1,2,x", "team/dijkstra", "nope/bfs",
    ),
}  # fmt: skip
VALUES_OF_SETTINGS = (*BY_KIND["int"], *BY_KIND["float"], *ANY, "maybe", "False", "4,7", "[4, 7]", '[{"name": "x"}]')
# What nobody thought of. A command line holds no zero bytes; one that cannot be decoded is among `ANY`.
ANYTHING = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.integers().map(str),
    st.floats().map(repr),
)


@dataclass(frozen=True)
class Case:
    """A command to run: its words, whether it is a good one, what was done to it, and a file that it reads."""

    words: tuple[str, ...]
    good: bool
    what: str
    option: str = ""  # whose value is not as it was, with its command; or the setting
    file: tuple[str, bytes] | None = None  # its name below the folder that commands may change, and its content


def leaves(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that lead to it."""
    command = typer.main.get_command(app) if command is None else command
    inner = getattr(command, "commands", None)
    if not inner:
        yield path, command
        return
    for name, each in inner.items():
        yield from leaves(each, (*path, name))


@dataclass(frozen=True)
class Target:
    """What is changed: an option or argument of a command, or a setting behind its `--set`."""

    path: tuple[str, ...]
    parameter: Any
    setting: str = ""

    @property
    def name(self) -> str:
        return f"{' '.join(self.path)} {self.parameter.opts[-1]} {self.setting}".strip()


@functools.cache
def targets() -> tuple[Target, ...]:
    """Every parameter of every command, those of narkit itself with no command in front, and every setting."""
    found = [Target((), parameter) for parameter in typer.main.get_command(app).params]
    found += [Target(path, parameter) for path, command in leaves() for parameter in command.params]
    settings = [field.name for field in dataclasses.fields(TrainConfig)]
    train = next(target for target in found if target.path == ("train",) and "--set" in target.parameter.opts)
    return (*found, *(Target(train.path, train.parameter, name) for name in settings))


@functools.cache
def good_lines() -> dict[tuple[str, ...], list[str]]:
    """Good commands by the words that lead to them."""
    paths = [path for path, _ in leaves()]
    found: dict[tuple[str, ...], list[str]] = {path: [] for path in [*paths, ()]}
    for line in GOOD:
        words = line.split()
        found[next((path for path in paths if tuple(words[: len(path)]) == path), ())].append(line)
    return found


class _Drawn(dict[str, str]):
    """Draws the words in braces when they are asked for."""

    def __init__(self, draw: st.DrawFn):
        self._draw = draw

    def __missing__(self, name: str) -> str:
        return self._draw(SLOTS[name])


def _filled(draw: st.DrawFn, line: str) -> list[str]:
    return line.format_map(_Drawn(draw)).split()


@st.composite
def good_commands(draw: st.DrawFn) -> Case:
    return Case(tuple(_filled(draw, draw(st.sampled_from(GOOD)))), True, "good")


@st.composite
def mutated_options(draw: st.DrawFn, target: Target | None = None) -> Case:
    """A good command, or what is required of one, with another value of one option: this one, or any."""
    # Hypothesis prefers some of many choices; a number that it draws is scattered over all of them.
    target = target or random.Random(draw(st.integers(0, 2**48))).choice(targets())
    path, parameter = target.path, target.parameter
    known = good_lines()[path]
    words = _filled(draw, draw(st.sampled_from(known))) if known else list(path)
    name, value = max(parameter.opts, key=len), _value(draw, target)
    if not name.startswith("-"):  # an argument: in place of one that is there, or behind
        places = [i for i in range(len(path), len(words)) if not words[i].startswith("-")][:2]
        if places:
            words[draw(st.sampled_from(places))] = value
        else:
            words.append(value)
        return Case(tuple(words), False, f"argument {value[:40]!r}", target.name)
    if getattr(parameter, "is_flag", False):
        ways = [[name, name], [f"{name}=yes"], [name, "x"], [name, *parameter.secondary_opts[:1]], [name], [f"{name}="]]
    else:
        ways = [[name, value], [f"{name}={value}"], [name, value], [name]]
        if name in words and not target.setting:
            place = words.index(name)
            del words[place : place + 2]
    given = draw(st.sampled_from(ways))
    words = [*given, "list"] if not path and name != "--version" else [*words, *given]
    return Case(tuple(words), False, " ".join(given)[:60], target.name)


def _value(draw: st.DrawFn, target: Target) -> str:
    if "--set" in target.parameter.opts:
        name = target.setting or draw(st.sampled_from(["nope", "", *(f.name for f in dataclasses.fields(TrainConfig))]))
        value = draw(st.one_of(st.sampled_from(VALUES_OF_SETTINGS), ANYTHING))
        return draw(st.sampled_from([name, f"{name}=", *[f"{name}={value}"] * 4]))
    kind = getattr(getattr(target.parameter, "type_descriptor", None), "annotation", None)
    by_kind = BY_KIND.get(getattr(kind, "__name__", "str"), BY_KIND["str"])
    return draw(st.one_of(st.sampled_from(by_kind), st.sampled_from(by_kind), st.sampled_from(ANY), ANYTHING))


@st.composite
def mutated_structures(draw: st.DrawFn) -> Case:
    """A command with a word too many, too few, twice, misspelt or in another place."""
    words = _filled(draw, draw(st.sampled_from(GOOD)))
    place = draw(st.integers(0, len(words) - 1))
    match draw(st.integers(0, 4)):
        case 0:
            del words[place]
        case 1:
            words.insert(place, draw(st.one_of(st.sampled_from(ANY), ANYTHING)))
        case 2:
            words.insert(place, words[place])
        case 3:
            words[place] = "".join(draw(st.permutations(words[place])))
        case _:
            words = draw(st.permutations(words))
    return Case(tuple(words), False, "another structure")


# Commands that read a file, in which {} is put: the file as it is given, and how it is changed.
READERS = (
    ("solve dijkstra --edges {} --source a", "edges.csv", mutated_bytes),
    ("solve bfs --matrix {} --source 0", "matrix.csv", mutated_bytes),
    ("solve graham_scan --points {}", "points.csv", mutated_bytes),
    ("solve activity_selector --activities {}", "activities.csv", mutated_bytes),
    ("solve task_scheduling --tasks {}", "tasks.csv", mutated_bytes),
    ("solve quicksort --instances {}", "instances.jsonl", mutated_bytes),
    ("solve bfs --edges ../given/edges.csv --source a --weights {}", "records/mpnn/bfs.safetensors", mutated_bytes),
    ("eval {} --size 5 --samples 2", "records/mpnn/bfs.safetensors", mutated_bytes),
    ("eval {} --size 5 --samples 2", "records/mpnn/bfs.safetensors", mutated_weights),
    ("solve bfs --edges ../given/edges.csv --source a --weights {}", "records/mpnn/bfs.safetensors", mutated_weights),
    ("train --resume stopped", "stopped/config.json", mutated_json),
    ("eval stopped --size 5", "stopped/config.json", mutated_bytes),
    ("records check records", "records/mpnn/bfs.json", mutated_json),
    ("records check records", "records/mpnn/bfs.json", mutated_bytes),
    ("records check records", "records/mpnn/bfs.safetensors", mutated_bytes),
    ("report records --preset quick --empty --out report", "records/mpnn/bfs.json", mutated_json),
    (f"{SWEEP.format(algorithm='bfs', small=1).replace('--out sweep', '--out records')} --status",
     "records/mpnn/bfs.json", mutated_json),
)  # fmt: skip


def files(folder: Path, changed: bool) -> st.SearchStrategy[Case]:
    """A command on a file as it is given, or with a mutation."""

    @st.composite
    def case(draw: st.DrawFn) -> Case:
        # The record is of other settings than the sweep, which has to be refused.
        line, name, change = draw(st.sampled_from(READERS if changed else READERS[:-1]))
        given = content = (folder / GIVEN / name.replace("stopped/", "run/")).read_bytes()
        if changed:
            content = change(draw, given)
        # Where the command names no file, it reads a folder that is beside it.
        target = f"changed{Path(name).suffix}" if "{}" in line else name
        what = f"{name} {'changed' if changed else 'as it is'}, {len(content)} bytes"
        # A change can leave a file good: a space in a table, say.
        return Case(tuple(line.format(target).split()), not changed, what, file=(target, content))

    return case()
