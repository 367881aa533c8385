"""One run to look at: the textbook's trajectory, and the network's beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from narkit.algorithms.meanings import LETTERS
from narkit.data.batch import Batch
from narkit.errors import BatchError
from narkit.spec import ALGORITHMS, Algorithm, Spec

if TYPE_CHECKING:
    from narkit.inference import Predictions
    from narkit.models.network import Reasoner
    from narkit.solve.answer import Answer

# Hints that are sums of an input's values, or of products of so many of them: (input, hints, factors of a product).
SUMS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "bellman_ford": ("A", ("d",), 1),
    "dijkstra": ("A", ("d",), 1),
    "dag_shortest_paths": ("A", ("d",), 1),
    "floyd_warshall": ("A", ("D",), 1),
    "find_maximum_subarray_kadane": ("key", ("best_sum", "sum"), 1),
    "matrix_chain_order": ("p", ("m",), 3),
}


@dataclass(frozen=True)
class ViewedRun:
    """The run that the viewer shows. All arrays are of one instance and in the stored form of batches.

    - `truth`: a raw batch of one, the textbook's run.
    - `hints` {name: (step, ...)}, `outputs`: what the network predicted; None where there is no network. Its hints
      begin at the second step: the first is given to it.
    - `labels`: what the nodes are called.
    - `network`: the name of the weights, or of the processor.
    - `attention` (step, i, j, k): how much node k counts for the edge from i to j, at every step that was kept.
    - `notes`: sentences that the reader should know, such as how the numbers were scaled.
    - `own` {input: values}: the inputs in the units of whoever asked, where these are not the network's.
    """

    truth: Batch
    hints: Mapping[str, np.ndarray] | None = None
    outputs: Mapping[str, np.ndarray] | None = None
    labels: Sequence[str] = ()
    network: str = ""
    attention: np.ndarray | None = None
    notes: Sequence[str] = field(default=())
    own: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.truth.transformed or len(self.truth) != 1:
            raise BatchError(f"expected a raw batch of one run, as narkit.run makes it, got {self.truth!r}")
        if not self.labels:
            object.__setattr__(self, "labels", default_labels(self.truth))
        if len(self.labels) != self.truth.num_nodes:
            raise BatchError(f"expected {self.truth.num_nodes} labels, one per node, got {len(self.labels)}")

    @property
    def entry(self) -> Algorithm:
        return ALGORITHMS[self.truth.algorithm]

    @property
    def spec(self) -> Spec:
        return self.entry.spec

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """The inputs as they are drawn: in the units of whoever asked."""
        return {name: np.asarray(self.own.get(name, values[0])) for name, values in self.truth.inputs.items()}

    def unit(self, hint: str) -> float:
        """Returns the value of one unit of the network in the caller's units: sums of inputs scale with the inputs."""
        source, hints, power = SUMS.get(self.entry.name, ("", (), 1))
        if hint not in hints or source not in self.own:
            return 1.0
        inside, outside = self.truth.inputs[source][0], np.asarray(self.own[source])
        counts = inside != 0
        factors = outside[counts] / inside[counts]
        return float(factors[0]) ** power if len(factors) and np.allclose(factors, factors[0]) else 1.0

    @property
    def num_steps(self) -> int:
        return int(self.truth.lengths[0])

    def true_steps(self, name: str) -> np.ndarray:
        """Returns the true values of a hint (step, ...)."""
        return self.truth.hints[name][: self.num_steps, 0]

    def network_steps(self, name: str) -> np.ndarray | None:
        """Returns the network's values of a hint (step, ...), the first being the true one; None if there are none."""
        if self.hints is None or name not in self.hints:
            return None
        true, predicted = self.true_steps(name), np.asarray(self.hints[name])
        return np.concatenate([true[:1], predicted[: self.num_steps - 1].astype(true.dtype)])


def default_labels(truth: Batch) -> tuple[str, ...]:
    """Returns the default names of the nodes: letters for strings, numbers for everything else."""
    if "string" in truth.inputs:
        return tuple(LETTERS[letter] for letter in truth.inputs["key"][0].argmax(-1))
    return tuple(str(node) for node in range(truth.num_nodes))


def run_of_answer(answer: Answer) -> ViewedRun:
    """Makes the run of an answer of `narkit.solve`."""
    run = _run(answer.instance, answer.network, answer.predictions, _own_labels(answer), answer.weights_name)
    return replace(run, notes=(*answer.notes, *answer.warnings), own=answer._read.own)


def run_of(truth: Batch, reasoner: Reasoner, *, labels: Sequence[str] = (), network: str = "") -> ViewedRun:
    """Makes the run of a network on one instance: `truth` is a raw batch of one."""
    from narkit.inference import predict

    return _run(truth, reasoner, predict(reasoner, truth), labels, network or reasoner.processor_name)


def _run(truth: Batch, reasoner: Reasoner, predictions: Predictions, labels: Sequence[str], network: str) -> ViewedRun:
    from narkit.solve.viewer.attention import attention_over_time

    hints = {name: np.asarray(values)[:, 0] for name, values in predictions.hints.items()}
    outputs = {name: np.asarray(values)[0] for name, values in predictions.outputs.items()}
    attention = attention_over_time(reasoner, truth, predictions.hint_logits)
    return ViewedRun(truth, hints, outputs, labels, network, attention)


def _own_labels(answer: Answer) -> tuple[str, ...]:
    """Returns the names of nodes; those of a chain of matrices are named after them, the first has only a dimension."""
    if answer.algorithm == "matrix_chain_order":
        return ("–", *(f"A{i}" for i in range(1, len(answer.labels))))
    return tuple(_short(label) for label in answer.labels)


def _short(label: Any) -> str:
    return f"{label:.6g}" if isinstance(label, float) else str(label)
