"""Commands to try: good ones, and mutations of them, made by walking the command tree.

Whatever command or option is added is tried, too. A case follows from a seed and its number alone.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main

from narkit.cli import app
from narkit.training.config import TrainConfig

from .material import GIVEN, OUT, mutated_bytes, mutated_json

TRAIN = "train --algorithm bfs --processor mpnn --preset quick --steps 3 --out run"
SWEEP = "sweep --preset quick --systems mpnn --algorithms bfs --seeds 1 --out sweep"

# Good commands. Those without any here are tried with what they require.
GOOD: tuple[str, ...] = (
    "list", "list processors", "list presets --json", "--version",
    "data show bfs --size 4 --seed 1", "data show insertion_sort --max-steps 2 --seed 3 --density 0.5",
    "data export minimum --size 5 --count 3 --seed 9 --out x.npz", "data export bfs --split val --out x.npz --force",
    "data export bfs --split val --transformed --out x.npz",
    "solve quicksort 5 3 1 2", "solve dijkstra --edges ../given/edges.csv --source a --json",
    "solve bfs --matrix ../given/matrix.csv --source 0 --undirected", "solve kmp_matcher --text abab --pattern ba",
    "solve graham_scan --points ../given/points.csv", "solve quicksort --instances ../given/instances.jsonl",
    "solve activity_selector --activities ../given/activities.csv",
    "solve task_scheduling --tasks ../given/tasks.csv", "solve binary_search 1 2 5 --target 2",
    "solve lcs_length --first abc --second bcd",
    "view bfs --size 5 --seed 1 --out x.html", "view quicksort 5 3 1 2", "weights bfs", "weights --json",
    TRAIN, f"{TRAIN} --set test=false --set sizes=4,5", f"{TRAIN} --seeds 2 --hidden-size 8 --batch-size 4",
    "train --resume stopped",
    "eval ../given/records/mpnn/bfs.safetensors --size 5 --samples 2 --json x.json",
    "eval ../given/records/mpnn/bfs.safetensors --size 6 --no-hints", "eval ../given/run --size 5 --rule last",
    f"{SWEEP} --status", f"{SWEEP} --plan --set validate_every=7", f"{SWEEP} --status --budget 9m --whole-cells",
    f"{SWEEP} --status --weights mpnn --threads 1 --save-every 5 --processes 2", f"{SWEEP} --status --no-weights",
    "records check records", "records check records --set-aside", "records manifest records",
    "report records --preset quick --empty --out report", "report records --empty --readme README.md",
    "demo --steps 2 --seed 1 --out demo",
    "bench data --algorithms bfs --sizes 8 --seconds 0.01 --out speed",
    "bench train --algorithm bfs --processor mpnn --sizes 4 --seeds 1 --steps 1 --hidden-size 8 --batch-size 2",
)  # fmt: skip

ANY = ("", " ", "-", "💥", "a" * 3000, "../../x", "None", "nan", "[", "{}", "-1", "\\", "a\nb", "%s", "~")
BY_KIND: dict[str, tuple[str, ...]] = {
    "int": ("-1", "0", "1.5", "abc", "1e3", "9" * 22, "100000", "0x10", "--", "1_0", "True", "4,7"),
    "float": ("nan", "inf", "-1", "1e400", "abc", "", "--", "1,5", "-0.0", "0"),
    "Path": (
        "nowhere", "no/such/x", "../given/folder", "../given/empty.csv", "../given/bytes.bin", "../given/words.csv", "",
        ".", "/dev/null", "/proc/nowhere/x", "../given/edges.csv/x", "../given/link", "../given/run", "x" * 300,
        "../given/records", "/dev/full",
    ),
    "str": (
        "bfs,,dfs", "bfs,bfs", "BFS", "bsf", ",", "team,nope", "paper ", "quick", "9m9", "0s", "-3h", "16;64", "16,64",
        "0", "mpnn", "last", "ood", "1,2,x", "team/dijkstra", "nope/bfs",
    ),
}  # fmt: skip
VALUES_OF_SETTINGS = (*BY_KIND["int"], *BY_KIND["float"], *ANY, "maybe", "False", "4,7", "[4, 7]", '[{"name": "x"}]')


@dataclass(frozen=True)
class Case:
    """A command to run: its words, whether it is a good one, and what was done to it."""

    words: tuple[str, ...]
    good: bool
    what: str
    option: str = ""  # whose value is not as it was, with its command


def leaves(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that lead to it."""
    command = typer.main.get_command(app) if command is None else command
    inner = getattr(command, "commands", None)
    if not inner:
        yield path, command
        return
    for name, each in inner.items():
        yield from leaves(each, (*path, name))


def options() -> list[tuple[tuple[str, ...], Any]]:
    """Every parameter of every command, those of narkit itself with no command in front."""
    found = [((), parameter) for parameter in typer.main.get_command(app).params]
    return found + [(path, parameter) for path, command in leaves() for parameter in command.params]


def good_commands() -> dict[tuple[str, ...], list[list[str]]]:
    """Good commands by the words that lead to them."""
    paths = [path for path, _ in leaves()]
    found: dict[tuple[str, ...], list[list[str]]] = {path: [] for path in [*paths, ()]}
    for line in GOOD:
        words: list[str] = line.split()
        path = next((path for path in paths if tuple(words[: len(path)]) == path), ())
        found[path].append(words)
    return found


def commands(seed: int, count: int) -> Iterator[Case]:
    """So many cases. The options take turns, so that each is changed about equally often."""
    known, every = good_commands(), options()
    lines = [words for group in known.values() for words in group]
    start = random.Random(seed).randrange(len(every))
    turn = 0
    for number in range(count):
        rng = random.Random(f"{seed}-{number}")
        if rng.random() < 0.36:
            yield Case(tuple(rng.choice(lines)), True, "good")
            continue
        if rng.random() < 0.15:
            yield _of_structure(list(rng.choice(lines)), rng)
            continue
        path, parameter = every[(start + turn) % len(every)]
        turn += 1
        yield _of_option(path, parameter, known[path], rng)


def _of_option(path: tuple[str, ...], parameter: Any, known: list[list[str]], rng: random.Random) -> Case:
    """A good command, or what is required of one, with another value of one option."""
    words = list(rng.choice(known)) if known else list(path)
    where = f"{' '.join(path)} {parameter.opts[-1]}"
    name = max(parameter.opts, key=len)
    value = _value(parameter, rng)
    if not name.startswith("-"):  # an argument: in place of one that is there, or behind
        places = [i for i in range(len(path), len(words)) if not words[i].startswith("-")][:2]
        if places:
            words[rng.choice(places)] = value
        else:
            words.append(value)
        return Case(tuple(words), False, f"argument {value[:40]!r}", where)
    if getattr(parameter, "is_flag", False):
        given = rng.choice([[name, name], [f"{name}=yes"], [name, "x"], [name, *parameter.secondary_opts[:1]], [name]])
    else:
        given = rng.choice([[name, value], [f"{name}={value}"], [name, value], [name]])
        if name in words:
            place = words.index(name)
            del words[place : place + 2]
    if not path and name != "--version":
        words = [*given, "list"]
    else:
        words += given
    return Case(tuple(words), False, f"{name} {value[:40]!r}", where)


def _value(parameter: Any, rng: random.Random) -> str:
    if "--set" in parameter.opts:
        field = rng.choice([field.name for field in dataclasses.fields(TrainConfig)] + ["nope", ""])
        return rng.choice([field, f"{field}=", f"{field}={rng.choice(VALUES_OF_SETTINGS)}"])
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    name = getattr(kind, "__name__", "str")
    return rng.choice(ANY if rng.random() < 0.3 else BY_KIND.get(name, BY_KIND["str"]))


def _of_structure(words: list[str], rng: random.Random) -> Case:
    """A command with a word too many, too few, twice, misspelt or in another place."""
    place = rng.randrange(len(words))
    match rng.randrange(5):
        case 0:
            del words[place]
        case 1:
            words.insert(place, rng.choice(ANY))
        case 2:
            words.insert(place, words[place])
        case 3:
            letters = list(words[place])
            rng.shuffle(letters)
            words[place] = "".join(letters)
        case _:
            rng.shuffle(words)
    return Case(tuple(words), False, "another structure")


# Commands that read a file, in which {} is put: the file as it is given, and how it is changed.
READERS = (
    ("solve dijkstra --edges {} --source a", "edges.csv", mutated_bytes),
    ("solve bfs --matrix {} --source 0", "matrix.csv", mutated_bytes),
    ("solve graham_scan --points {}", "points.csv", mutated_bytes),
    ("solve quicksort --instances {}", "instances.jsonl", mutated_bytes),
    ("solve bfs --edges ../given/edges.csv --source a --weights {}", "records/mpnn/bfs.safetensors", mutated_bytes),
    ("eval {} --size 5 --samples 2", "records/mpnn/bfs.safetensors", mutated_bytes),
    ("train --resume run", "run/config.json", mutated_json),
    ("eval run --size 5", "run/config.json", mutated_bytes),
    ("records check records", "records/mpnn/bfs.json", mutated_json),
    ("records check records", "records/mpnn/bfs.json", mutated_bytes),
    ("records check records", "records/mpnn/bfs.safetensors", mutated_bytes),
    ("report records --preset quick --empty --out report", "records/mpnn/bfs.json", mutated_json),
    (f"{SWEEP.replace('--out sweep', '--out records')} --status", "records/mpnn/bfs.json", mutated_json),
)


def of_files(folder: Path, seed: int, number: int) -> Case:
    """A command on a file with a mutation, which is written into the folder that commands may change."""
    rng = random.Random(f"{seed}-file-{number}")
    line, name, change = READERS[number % len(READERS)]
    content = change((folder / GIVEN / name).read_bytes(), rng)
    # Where the command names no file, it reads a folder that is beside it.
    target = folder / OUT / (f"changed{Path(name).suffix}" if "{}" in line else name)
    if name.startswith("run/"):
        import shutil

        shutil.copytree(folder / GIVEN / "run", folder / OUT / "run")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return Case(tuple(line.format(target.name).split()), False, f"{name} changed, {len(content)} bytes")
