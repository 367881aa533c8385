"""Activities and tasks: which of them to choose."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from narkit.errors import InstanceError
from narkit.solve import ranges
from narkit.solve.problem import Instance, Outputs, Plain, Problem, check_size, shown
from narkit.solve.tables import named_rows


class Activities(Problem):
    """Activities with a start and a finish, of which as many as possible are chosen: activity_selector."""

    parameters: ClassVar[tuple[str, ...]] = ("activities",)

    def read(self, given: Mapping[str, Any]) -> Instance:
        names, rows = named_rows(given["activities"], ("start", "finish"), "activities")
        check_size(len(names), "activities")
        starts, finishes = rows.T
        for place in np.flatnonzero(finishes < starts):
            raise InstanceError(
                f"activities, {names[place]}: expected a finish that is not before the start, got "
                f"{finishes[place]:g} before {starts[place]:g}; exchange the two"
            )
        instance = Instance({}, names, rows, own={"s": starts, "f": finishes})
        instance.arguments["s"], instance.arguments["f"] = self._mapped(starts, finishes, instance)
        return instance

    def _mapped(self, starts: np.ndarray, finishes: np.ndarray, instance: Instance) -> tuple[np.ndarray, np.ndarray]:
        """Maps starts and finishes into the range of the training.

        Only the order counts, and an activity may start when another finishes: equal times become a finish, then a
        start. Activities that take no time stand in the way of that, so times are shifted and scaled instead.
        """
        times = np.concatenate([finishes, starts])
        if ranges.are_known(times):
            return starts, finishes
        if (starts == finishes).any():
            instance.warnings.append("some activities take no time; there were none in the training")
            low, span = times.min(), float(times.max() - times.min())
            factor = ranges.power_of_two(span)
            instance.notes.append("times were shifted and scaled into the range of the training, 0 to 1")
            return (starts - low) * factor, (finishes - low) * factor
        ranks = ranges.evenly_spaced(times.tolist())
        instance.notes.append("times were replaced by evenly spaced numbers between 0 and 1 in the same order")
        return ranks[len(starts) :], ranks[: len(starts)]

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        chosen = np.flatnonzero(outputs["selected"] > 0)
        by_start = sorted(chosen, key=lambda place: tuple(instance.given[place]))
        overlapping = [
            (instance.labels[a], instance.labels[b])
            for a, b in itertools.pairwise(by_start)
            if instance.given[b, 0] < instance.given[a, 1]
        ]
        plain: Plain = {"selected": [instance.labels[place] for place in by_start]}
        return plain | ({"overlapping": overlapping} if overlapping else {})

    def is_as_good(self, instance: Instance, plain: Plain, truth: Plain) -> bool:
        return "overlapping" not in plain and len(plain["selected"]) == len(truth["selected"])

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        overlapping = [f"{a} and {b}" for a, b in plain.get("overlapping", [])]
        return [
            "selected: " + (", ".join(map(str, plain["selected"])) or "none"),
            *([f"but these overlap: {ranges.listed(overlapping)}"] if overlapping else []),
        ]


class Tasks(Problem):
    """Tasks of one unit of time with deadlines and penalties: task_scheduling."""

    parameters: ClassVar[tuple[str, ...]] = ("tasks",)

    def read(self, given: Mapping[str, Any]) -> Instance:
        names, rows = named_rows(given["tasks"], ("deadline", "penalty"), "tasks")
        check_size(len(names), "tasks")
        deadlines, penalties = rows.T
        for place in np.flatnonzero((deadlines < 1) | (deadlines != np.round(deadlines))):
            raise InstanceError(
                f"tasks, {names[place]}: expected a whole number of at least 1 as deadline, got {deadlines[place]:g}; "
                "the first task is done at time 1"
            )
        for place in np.flatnonzero(penalties < 0):
            raise InstanceError(f"tasks, {names[place]}: expected a penalty of at least 0, got {penalties[place]:g}")
        notes: list[str] = []
        if (deadlines > len(names)).any():
            notes.append(f"deadlines after {len(names)} count as {len(names)}, by when all tasks can be done")
        # Of equal penalties the earlier task is taken first, so it gets the larger of the evenly spaced ones.
        mapped = ranges.ranked(penalties[::-1], "penalties", notes)[::-1]
        arguments = {"d": np.minimum(deadlines, len(names)).astype(np.int64), "w": mapped.copy()}
        return Instance(arguments, names, rows, notes, own={"d": deadlines, "w": penalties})

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        chosen = outputs["selected"] > 0
        late = instance.given[~chosen, 1].sum()
        return {
            "selected": [name for name, is_chosen in zip(instance.labels, chosen, strict=True) if is_chosen],
            "penalty": int(late) if float(late).is_integer() else float(late),
        }

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        selected = ", ".join(map(str, plain["selected"])) or "none"
        return [f"to be done in time: {selected}", f"penalty for the others: {shown(plain['penalty'])}"]


GREEDY_PROBLEMS: dict[str, Problem] = {"activity_selector": Activities(), "task_scheduling": Tasks()}
