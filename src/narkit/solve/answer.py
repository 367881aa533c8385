"""The answer of `narkit.solve`: the network's answer and the true one, in the words of whoever asked."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from narkit.data.batch import Batch
from narkit.solve.problem import Instance, Label, Plain, Problem, labelled, shown, wrong
from narkit.solve.weights import MeasuredScore
from narkit.spec import ALGORITHMS, Stage, stage_of

if TYPE_CHECKING:
    from narkit.inference import Predictions
    from narkit.models.network import Reasoner
    from narkit.solve.viewer import View

MOST_DIFFERENCES_SHOWN = 8


class FirstError(NamedTuple):
    """The first step, counted from 0 as in `answer.instance.hints`, at which a predicted hint is wrong."""

    step: int
    hint: str


class Difference(NamedTuple):
    """One value in which the network's output differs from the true one."""

    output: str  # the probe's name
    nodes: tuple[int, ...]  # the place of a node or of a pair of nodes; empty for a value of the whole instance
    where: tuple[Label, ...]  # what these are called
    network: Any
    truth: Any


@dataclass(frozen=True, eq=False)
class Answer:
    """A network's answer to an instance, with the true one beside it.

    `outputs` and `truth` are plain Python under the caller's labels; `print(answer)` shows them, `to_dict()` is JSON.
    `instance` is the raw batch of one that was run: the true trajectory, mapped into the range of the training.
    `predictions` has what the network said about it; row i of `predictions.hints` belongs to row i + 1 of
    `instance.hints`. `notes` say what was mapped, `warnings` where the instance is unlike those of the training.
    """

    algorithm: str
    instance: Batch
    predictions: Predictions
    labels: tuple[Label, ...]
    outputs: Plain
    truth: Plain
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    network: Reasoner
    weights_name: str
    measured: tuple[MeasuredScore, ...]  # what the network scored in its record, by size
    _problem: Problem
    _read: Instance

    @functools.cached_property
    def differences(self) -> tuple[Difference, ...]:
        """All raw values in which the network differs from the truth, as scores count them.

        Some may play no part in the answer, such as the name of a component.
        """
        found: list[Difference] = []
        for name, probe in stage_of(ALGORITHMS[self.algorithm].spec, Stage.OUTPUT).items():
            predicted, truth = np.asarray(self.predictions.outputs[name])[0], self.instance.outputs[name][0]
            for place in np.argwhere(wrong(probe, predicted, truth)):
                index = tuple(int(i) for i in place)
                where = tuple(self.labels[i] for i in index)
                values = (labelled(probe, array[index], self.labels) for array in (predicted, truth))
                found.append(Difference(name, index, where, *values))
        return tuple(found)

    @property
    def agrees(self) -> bool:
        """True if the network's answer, in plain Python, is the true one."""
        return self.outputs == self.truth

    @functools.cached_property
    def is_right(self) -> bool:
        """True if the network's answer is as good as the algorithm's: the same, or, say, another shortest path."""
        return self.agrees or self._problem.is_as_good(self._read, self.outputs, self.truth)

    @functools.cached_property
    def first_error(self) -> FirstError | None:
        """The first step at which a hint went wrong, and the first such hint; None if all are right."""
        spec = self.instance.spec
        errors = []
        for order, name in enumerate(name for name in spec if name in self.predictions.hints):
            truth, predicted = self.instance.hints[name][1:, 0], np.asarray(self.predictions.hints[name])[:, 0]
            is_wrong = wrong(spec[name], predicted[: len(truth)], truth).reshape(len(truth), -1).any(axis=1)
            if is_wrong.any():
                errors.append((int(is_wrong.argmax()) + 1, order, name))
        return FirstError(min(errors)[0], min(errors)[2]) if errors else None

    @property
    def scored(self) -> MeasuredScore | None:
        """The network's recorded score at the smallest measured size that is not below this instance's."""
        size = nominal_size(self.algorithm, self.instance.num_nodes)
        fitting = [entry for entry in self.measured if entry.size >= size]
        return min(fitting, key=lambda entry: entry.size) if fitting else None

    def view(self) -> View:
        """Returns the run step by step, true and predicted side by side, as a page; notebooks show it inline."""
        from narkit.solve.viewer import View, page

        return View(page(self))

    def to_dict(self) -> dict[str, Any]:
        """Returns all of this but the arrays in values that JSON has: labels that are keys become strings."""
        error, scored = self.first_error, self.scored
        return as_json(
            {
                "algorithm": self.algorithm,
                "weights": self.weights_name,
                "num_nodes": self.instance.num_nodes,
                "num_steps": int(self.instance.lengths[0]),
                "outputs": self.outputs,
                "truth": self.truth,
                "agrees": self.agrees,
                "is_right": self.is_right,
                "differences": [difference._asdict() for difference in self.differences],
                "first_error": None if error is None else error._asdict(),
                "scored": None if scored is None else vars(scored),
                "measured": [vars(entry) for entry in self.measured],
                "notes": list(self.notes),
                "warnings": list(self.warnings),
            }
        )

    def __str__(self) -> str:
        return "\n".join([self._title(), *self._body(), *(f"note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        state = "right" if self.is_right else f"wrong in {len(self.differences)} values"
        return f"<Answer of {self.weights_name} to {self.algorithm} on {self.instance.num_nodes} nodes: {state}>"

    def _title(self) -> str:
        scored = self.scored
        record = "" if scored is None else f" (scored {100 * scored.score:.1f} % at size {scored.size}, {scored.split})"
        steps = int(self.instance.lengths[0])
        return f"{self.algorithm} on {self.instance.num_nodes} nodes, {steps} steps, by {self.weights_name}{record}"

    def _body(self) -> list[str]:
        lines = [f"  {line}" for line in self._problem.lines(self._read, self.outputs)]
        count = f"{len(self.differences)} value{'' if len(self.differences) == 1 else 's'}"
        if self.agrees:
            apart = f" (but for {count} that play no part)" if self.differences else ""
            lines.append(f"right: the network agrees with the algorithm{apart}")
        elif self.is_right:
            lines.append(f"right: another answer, as good as the algorithm's; they differ in {count}")
        else:
            lines.append(f"wrong: the network differs from the algorithm in {count}")
            lines += [f"  {self._said(difference)}" for difference in self.differences[:MOST_DIFFERENCES_SHOWN]]
            if len(self.differences) > MOST_DIFFERENCES_SHOWN:
                lines.append(f"  … and {len(self.differences) - MOST_DIFFERENCES_SHOWN} more")
            lines.append("the algorithm's answer:")
            lines += [f"  {line}" for line in self._problem.lines(self._read, self.truth)]
        error = self.first_error
        if error is not None:
            meaning = self.instance.spec[error.hint].meaning
            lines.append(f"first wrong hint: step {error.step}, {error.hint} ({meaning})")
        return lines + [f"warning: {warning}" for warning in self.warnings]

    def _said(self, difference: Difference) -> str:
        named = len(set(map(str, self.labels))) == len(self.labels)
        places = zip(difference.nodes, difference.where, strict=True)
        where = ", ".join(shown(label) if named else f"{shown(label)} (node {node})" for node, label in places)
        said = f"network {shown(difference.network)}, truth {shown(difference.truth)}"
        return f"{difference.output}{f' of {where}' if where else ''}: {said}"


def nominal_size(algorithm: str, num_nodes: int) -> int:
    """Returns the smallest size whose instances have at least this many nodes: records measure by it."""
    entry = ALGORITHMS[algorithm]
    return next((size for size in range(1, num_nodes + 1) if entry.nodes_of_size(size) >= num_nodes), num_nodes)


def as_json(value: Any) -> Any:
    """Converts a value to dictionaries whose keys are strings, lists, numbers, strings, truth values and None."""
    if isinstance(value, Mapping):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(entry) for entry in value]
    if isinstance(value, np.generic):
        return as_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):  # as part of a label; JSON has no word for it
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
