"""Checks of a run record's content: that it is complete, possible and consistent with its own rules."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from narkit.algorithms import ALGORITHMS
from narkit.spec import Kind, Stage, stage_of
from narkit.training.presets import PRESETS
from narkit.training.progress import Point
from narkit.training.record import RunRecord
from narkit.training.rules import AVERAGED, RAW
from narkit.training.selection import Selection, Validated


def check_record(record: RunRecord) -> Iterator[str]:
    """Yields what is wrong with a record, one sentence each."""
    config, seeds = record.config, len(record.config.seeds)
    wrong = list(_check_rules(record))
    yield from wrong
    if wrong:
        return
    if record.preset is not None and record.preset not in PRESETS:
        yield f"preset: expected one of {', '.join(PRESETS)}, got {record.preset!r}"
    lost = {divergence.seed for divergence in record.diverged}
    if not lost <= set(config.seeds):
        yield f"diverged: expected seeds out of {list(config.seeds)}, got {sorted(lost)}"
        return
    if record.steps != config.steps and (len(lost) < seeds or record.steps > config.steps):
        yield f"steps: expected {config.steps}, got {record.steps} with {seeds - len(lost)} seeds not diverged"
    yield from _check_skipped(record)
    curve = list(_check_curve(record))
    yield from curve
    if not curve:
        yield from _check_selection(record)
    tested = config.algorithms if config.test else ()
    yield from _check_scores(record, "test", record.test, tested, _check_outputs)
    yield from _check_scores(record, "test_hints", record.test_hints, tested, _check_hints)
    scored = [each.name for each in config.scored]
    if list(record.scored) != scored:
        yield f"scored: expected the sets {scored}, got {list(record.scored)}"
    for name, found in record.scored.items():
        yield from _check_scores(record, f"scored: {name}", found, config.algorithms, _check_outputs)
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


def _check_rules(record: RunRecord) -> Iterator[str]:
    """Checks the rules that a record carries: they must be possible with its configuration."""
    config = record.config
    if config.rules and tuple(record.rules.values()) != config.rules:
        wanted = [rule.name for rule in config.rules]
        yield f"rules: expected those of its configuration, {wanted}, got {[*record.rules]}"
    selecting = [validation.name for validation in config.validations if validation.selects]
    if not record.rules:
        yield "rules: expected one or more, got none"
    for rule in record.rules.values():
        if rule.validation is not None and rule.validation not in selecting:
            yield f"rules: {rule.name}: expected one of the validation sets {selecting}, got {rule.validation!r}"
        if rule.weights == AVERAGED and not config.averages:
            yield f"rules: {rule.name}: expected raw weights, since the run averaged none"


def _check_skipped(record: RunRecord) -> Iterator[str]:
    config = record.config
    if record.skipped and not config.skipped_steps:
        yield "skipped: expected no steps, since the configuration lets none be skipped"
    for skipped in record.skipped:
        steps = skipped.steps
        possible = all(type(step) is int and 0 <= step < record.steps for step in steps) and steps == sorted(set(steps))
        if skipped.seed not in config.seeds or not possible:
            yield f"skipped: expected steps below {record.steps} of seeds out of {list(config.seeds)}, got {skipped}"


def _kinds_of_weights(record: RunRecord) -> tuple[str, ...]:
    return (RAW, AVERAGED) if record.config.averages else (RAW,)


def _check_curve(record: RunRecord) -> Iterator[str]:
    config = record.config
    steps = [point.step for point in record.curve]
    expected = sorted({*range(config.validate_every, record.steps + 1, config.validate_every), record.steps})
    if steps != expected:
        yield f"curve: expected a point at each of {len(expected)} validations up to {record.steps}, got {len(steps)}"
        return
    for point in record.curve:
        problems = list(_check_point(record, point))
        yield from problems
        if problems:
            return


def _check_point(record: RunRecord, point: Point) -> Iterator[str]:
    seeds, where = len(record.config.seeds), f"curve: step {point.step}"
    names = [validation.name for validation in record.config.validations]
    rows = [point.train_loss]
    for kind in (RAW, AVERAGED):
        scores, losses = point.of(kind)
        wanted = names if kind in _kinds_of_weights(record) else []
        if list(scores) != wanted or list(losses) != wanted:
            yield f"{where}: {kind}: expected the validation sets {wanted}, got {list(scores)} and {list(losses)}"
            return
        rows += [*scores.values(), *losses.values()]
        for name in wanted:
            if not all(map(_in_unit, scores[name])):
                yield f"{where}: {kind}: expected scores from 0 to 1 on {name}, got {scores[name]}"
    if any(len(row) != seeds for row in rows):
        yield f"{where}: expected {seeds} numbers everywhere, one per seed, got {[len(row) for row in rows]}"


def _check_selection(record: RunRecord) -> Iterator[str]:
    """Replays every rule over the curve: it must have chosen the same."""
    config = record.config
    diverged = {divergence.seed: divergence.step for divergence in record.diverged}
    nothing = np.zeros((len(config.seeds), 1))
    replayed = Selection.start(record.rules, nothing)
    for point in record.curve:
        # A seed that diverges at step s, counted from 0, is out from the validation after it on.
        alive = np.array([diverged.get(seed, math.inf) >= point.step for seed in config.seeds])
        validated = {}
        for kind in _kinds_of_weights(record):
            parts = [{name: np.array(row, float) for name, row in part.items()} for part in point.of(kind)]
            validated[kind] = Validated(nothing, *parts)
        replayed.update(point.step, validated, alive)
    if set(record.selected) != set(record.rules):
        yield f"selected: expected the rules {[*record.rules]}, got {list(record.selected)}"
        return
    # JSON has one word for all that is no number, so choices between infinite losses cannot be told.
    rows = [row for row in range(len(config.seeds)) if _finite_losses(record, row)]
    for rule, chosen in record.selected.items():
        for what in ("steps", "scores"):
            said, expected = getattr(chosen, what), getattr(replayed, what)[rule]
            if len(said) != len(expected) or any(said[row] != expected[row] for row in rows):
                yield f"selected: rule {rule}: by the curve the {what} are {expected}, the record says {said}"


def _finite_losses(record: RunRecord, row: int) -> bool:
    kinds = _kinds_of_weights(record)
    return all(
        values[row] is not None for point in record.curve for kind in kinds for values in point.of(kind)[1].values()
    )


Check = Callable[[str, Mapping[str, float]], Iterator[str]]
"""A function that yields what is wrong with the scores of one seed on an algorithm."""


def _check_scores(
    record: RunRecord, what: str, found: Mapping[str, Any], wanted: Sequence[str], check: Check
) -> Iterator[str]:
    """Checks scores by algorithm, rule and seed: whether all are there, and what is wrong with each."""
    seeds = record.config.seeds
    if set(found) != set(wanted):
        yield f"{what}: expected scores of {sorted(wanted)}, got {sorted(found)}"
        return
    for algorithm, rules in found.items():
        if set(rules) != set(record.rules) or any(len(rows) != len(seeds) for rows in rules.values()):
            yield f"{what}: expected {len(seeds)} seeds under each of the rules {[*record.rules]}"
            return
        for rule in record.rules:
            for seed, scores in zip(seeds, rules[rule], strict=True):
                yield from (f"{what}: rule {rule}, seed {seed}: {problem}" for problem in check(algorithm, scores))


def _check_outputs(algorithm: str, scores: Mapping[str, float]) -> Iterator[str]:
    outputs = set(stage_of(ALGORITHMS[algorithm].spec, Stage.OUTPUT))
    if set(scores) != outputs | {"score"} or not all(map(_in_unit, scores.values())):
        yield f"expected scores from 0 to 1 of {sorted(outputs)} and their mean, got {scores}"
    elif not math.isclose(scores["score"], np.mean([scores[o] for o in outputs]), abs_tol=1e-6):
        yield f"the score {scores['score']} is not the mean of its outputs"


def _check_hints(algorithm: str, scores: Mapping[str, float]) -> Iterator[str]:
    spec = ALGORITHMS[algorithm].transformed_spec
    for hint, value in scores.items():
        if hint not in spec:
            yield f"{algorithm} has no hint {hint!r}"
        elif spec[hint].kind is not Kind.SCALAR and not _in_unit(value):
            yield f"{hint}: expected 0 to 1, got {value}"


def _in_unit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value <= 1.0
