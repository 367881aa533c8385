"""Checks of run records: that what they say is complete, possible and consistent. What is damaged is set aside."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from narkit.algorithms import ALGORITHMS
from narkit.files import write_whole
from narkit.models.processors import PROCESSORS
from narkit.models.serialization import ModelFileError, load
from narkit.spec import Kind, Stage, stage_of
from narkit.sweeps.cells import RUNNING
from narkit.sweeps.sweep import best_seed
from narkit.training import selection
from narkit.training.presets import PRESETS
from narkit.training.record import RunRecord
from narkit.training.run_directory import RECORD, RunDirectoryError
from narkit.training.selection import Selection

SET_ASIDE = "set_aside"


@dataclass(frozen=True)
class Checked:
    """A record file and what is wrong with it; nothing if it is good."""

    path: Path
    problems: tuple[str, ...]


def record_files(folder: str | os.PathLike) -> list[Path]:
    """The records in a folder, at any depth: all JSON files in folders that bear a system's name, and others that look
    like records. Those of running cells and those set aside before are left out."""
    files = sorted(Path(folder).rglob("*.json"))
    inner = [path for path in files if not {RUNNING, SET_ASIDE} & set(path.relative_to(folder).parts)]
    return [path for path in inner if path.resolve().parent.name in PROCESSORS or _looks_like_a_record(path)]


def _looks_like_a_record(path: Path) -> bool:
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError):
        return path.name == RECORD
    return isinstance(values, dict) and {"format", "config", "curve", "selected"} <= set(values)


def check_file(path: Path) -> Checked:
    """Reads a record and looks for everything that can be wrong with it and with the weights beside it."""
    try:
        record = RunRecord.load(path)
        problems = list(check_record(record))
        if not problems:  # what follows takes the rest for granted
            problems = [*_check_name(record, path), *_check_weights(record, path)]
    except RunDirectoryError as error:
        problems = [str(error).removeprefix(f"{path}: ")]
    except (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError) as error:  # of another type than said
        problems = [f"is not as narkit writes it ({type(error).__name__}: {error})"]
    return Checked(path, tuple(problems))


def set_aside(checked: Checked) -> Path:
    """Moves a damaged record and its weights into `set_aside/` beside it, with the reasons; overwrites nothing."""
    folder = checked.path.parent / SET_ASIDE
    folder.mkdir(exist_ok=True)
    number, stem = 1, checked.path.stem
    while any(folder.glob(f"{stem}.*")):
        number += 1
        stem = f"{checked.path.stem}-{number}"
    write_whole(folder / f"{stem}.reason.txt", "".join(f"{problem}\n" for problem in checked.problems))
    for suffix in (".safetensors", ".json"):
        file = checked.path.with_suffix(suffix)
        if file.exists():
            file.rename(folder / f"{stem}{suffix}")
    return folder / f"{stem}.json"


def check_record(record: RunRecord) -> Iterator[str]:
    """What is wrong with a record, one sentence each."""
    config, seeds = record.config, len(record.config.seeds)
    if record.rules != selection.rules(config):
        yield f"rules: expected {selection.rules(config)}, got {record.rules}"
        return
    if record.preset is not None and record.preset not in PRESETS:
        yield f"preset: expected one of {', '.join(PRESETS)}, got {record.preset!r}"
    lost = {divergence.seed for divergence in record.diverged}
    if not lost <= set(config.seeds):
        yield f"diverged: expected seeds out of {list(config.seeds)}, got {sorted(lost)}"
        return
    if record.steps != config.steps and (len(lost) < seeds or record.steps > config.steps):
        yield f"steps: expected {config.steps}, got {record.steps} with {seeds - len(lost)} seeds not diverged"
    curve = list(_check_curve(record))
    yield from curve
    if not curve:
        yield from _check_selection(record)
    yield from _check_test(record)
    for name in ("waiting_share", "compiling_share"):
        if not _in_unit(getattr(record, name)):
            yield f"{name}: expected a number from 0 to 1, got {getattr(record, name)}"
    for name, value in vars(record.timings).items():
        if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            yield f"timings: {name}: expected a time of at least 0, got {value}"
    try:
        datetime.datetime.fromisoformat(record.finished_at)
    except (TypeError, ValueError):
        yield f"finished_at: expected a date and time, got {record.finished_at!r}"


def _check_curve(record: RunRecord) -> Iterator[str]:
    config, seeds = record.config, len(record.config.seeds)
    steps = [point.step for point in record.curve]
    expected = sorted({*range(config.validate_every, record.steps + 1, config.validate_every), record.steps})
    if steps != expected:
        yield f"curve: expected a point at each of {len(expected)} validations up to {record.steps}, got {len(steps)}"
        return
    names = [validation.name for validation in config.validations]
    for point in record.curve:
        where = f"curve: step {point.step}"
        if list(point.scores) != names or list(point.losses) != names:
            yield f"{where}: expected the validation sets {names}, got {list(point.scores)} and {list(point.losses)}"
            return
        rows = [point.train_loss, *point.scores.values(), *point.losses.values()]
        if any(len(row) != seeds for row in rows):
            yield f"{where}: expected {seeds} numbers everywhere, one per seed, got {[len(row) for row in rows]}"
            return
        for name in names:
            if not all(map(_in_unit, point.scores[name])):
                yield f"{where}: expected scores from 0 to 1 on {name}, got {point.scores[name]}"


def _check_selection(record: RunRecord) -> Iterator[str]:
    """Replays every rule over the curve: it must have chosen the same."""
    config = record.config
    diverged = {divergence.seed: divergence.step for divergence in record.diverged}
    replayed = Selection.start(config, np.zeros((len(config.seeds), 1)))
    for point in record.curve:
        # A seed that diverges at step s, counted from 0, is out from the validation after it on.
        alive = np.array([diverged.get(seed, math.inf) >= point.step for seed in config.seeds])
        scores = {name: np.array(values, float) for name, values in point.scores.items()}
        losses = {name: np.array(values, float) for name, values in point.losses.items()}
        replayed.update(point.step, replayed.parameters[selection.LAST], scores, losses, alive)
    if set(record.selected) != set(record.rules):
        yield f"selected: expected the rules {record.rules}, got {list(record.selected)}"
        return
    # JSON has one word for all that is no number, so choices between infinite losses cannot be told.
    rows = [row for row in range(len(config.seeds)) if _finite_losses(record, row)]
    for rule, chosen in record.selected.items():
        for what in ("steps", "scores"):
            said, expected = getattr(chosen, what), getattr(replayed, what)[rule]
            if len(said) != len(expected) or any(said[row] != expected[row] for row in rows):
                yield f"selected: rule {rule}: by the curve the {what} are {expected}, the record says {said}"


def _finite_losses(record: RunRecord, row: int) -> bool:
    return all(values[row] is not None for point in record.curve for values in point.losses.values())


def _check_test(record: RunRecord) -> Iterator[str]:
    config, seeds = record.config, len(record.config.seeds)
    wanted = set(config.algorithms) if config.test else set()
    if set(record.test) != wanted or set(record.test_hints) != wanted:
        yield f"test: expected scores of {sorted(wanted)}, got {sorted(record.test)} and {sorted(record.test_hints)}"
        return
    for name in wanted:
        spec = ALGORITHMS[name].transformed_spec
        for what, rules in (("test", record.test[name]), ("test_hints", record.test_hints[name])):
            if set(rules) != set(record.rules) or any(len(rows) != seeds for rows in rules.values()):
                yield f"{what}: expected {seeds} seeds under each of the rules {record.rules}"
                return
        outputs = set(stage_of(ALGORITHMS[name].spec, Stage.OUTPUT))
        for rule in record.rules:
            for seed, scores in zip(config.seeds, record.test[name][rule], strict=True):
                where = f"test: rule {rule}, seed {seed}"
                if set(scores) != outputs | {"score"} or not all(map(_in_unit, scores.values())):
                    yield f"{where}: expected scores from 0 to 1 of {sorted(outputs)} and their mean, got {scores}"
                elif not math.isclose(scores["score"], np.mean([scores[o] for o in outputs]), abs_tol=1e-6):
                    yield f"{where}: the score {scores['score']} is not the mean of its outputs"
            for seed, hints in zip(config.seeds, record.test_hints[name][rule], strict=True):
                for hint, value in hints.items():
                    if hint not in spec:
                        yield f"test_hints: rule {rule}, seed {seed}: {name} has no hint {hint!r}"
                    elif spec[hint].kind is not Kind.SCALAR and not _in_unit(value):
                        yield f"test_hints: rule {rule}, seed {seed}: {hint}: expected 0 to 1, got {value}"


def _check_name(record: RunRecord, path: Path) -> Iterator[str]:
    config, path = record.config, path.resolve()
    if path.name == RECORD:  # the folder of a run, which may have any name
        return
    if list(config.algorithms) != [path.stem] or config.processor != path.parent.name:
        said = f"{config.processor}/{','.join(config.algorithms)}"
        yield f"is the record of {said}, not of {path.parent.name}/{path.stem}"


def _check_weights(record: RunRecord, path: Path) -> Iterator[str]:
    weights = record.weights
    if weights is None:
        return
    file = path.parent / weights.file
    if weights.file != f"{path.stem}.safetensors" or not file.is_file():
        yield f"weights: expected the file {path.stem}.safetensors, got {weights.file} or none"
        return
    if hashlib.sha256(file.read_bytes()).hexdigest() != weights.sha256:
        yield f"weights: {file.name} is not the file that was written with the record (its SHA-256 differs)"
        return
    if weights.rule not in record.rules or weights.seed != best_seed(record, weights.rule):
        yield f"weights: seed {weights.seed} is not the best by validation under rule {weights.rule}"
    try:
        reasoner = load(file)
    except ModelFileError as error:
        yield f"weights: {error}"
        return
    count = sum(leaf.size for leaf in jax.tree.leaves(reasoner))
    fields = (reasoner.algorithms, reasoner.processor_name, reasoner.hidden_size)
    expected = (record.config.algorithms, record.config.processor, record.config.hidden_size)
    if tuple(fields) != expected or count != record.parameters:
        yield f"weights: expected {expected} with {record.parameters} parameters, got {fields} with {count}"


def _in_unit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value <= 1.0
