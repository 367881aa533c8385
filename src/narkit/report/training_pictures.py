"""Pictures of a trained network: its learning curves, and its Triplet Edge Attention on one instance."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure  # without pyplot: no window, no global state

from narkit.data.batch import Batch
from narkit.models.network import DeviceBatch, Reasoner, first_values
from narkit.models.processors.team import TEAM
from narkit.report.picture import draw_graph
from narkit.training.record import RunRecord

ON_LIGHT, ON_DARK = "#111111", "#fefefe"  # letters on a coloured cell, which stay as they are on a dark page


def save_curves(record: RunRecord, path: Path) -> None:
    """Draws the training loss and the validation scores over the steps, a line per seed, and saves the picture."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = [point.step for point in record.curve]
    for seed in range(len(record.config.seeds)):
        left.plot(steps, [point.train_loss[seed] for point in record.curve], color="C0", alpha=0.8)
        for colour, validation in enumerate(record.config.validations):
            label = f"size {validation.size}" if seed == 0 else None
            scores = [100 * point.scores[validation.name][seed] for point in record.curve]
            right.plot(steps, scores, color=f"C{colour}", alpha=0.8, label=label)
    left.set(title="training loss", xlabel="step", yscale="log")
    right.set(title="validation score in %", xlabel="step", ylim=(None, 101))
    right.legend()
    count = len(record.config.seeds)
    seeds = f"{count} seeds" if count > 1 else f"seed {record.config.seeds[0]}"
    figure.suptitle(f"{record.config.processor} on {', '.join(record.config.algorithms)}, {seeds}")
    figure.savefig(path, dpi=150)


def attention(reasoner: Reasoner, batch: Batch) -> np.ndarray:
    """Computes the attention weights (i, j, k) of a TEAM reasoner, the mean over heads.

    They are those at the first step of a batch's first sample.
    """
    if not isinstance(reasoner.processor, TEAM):
        raise ValueError(f"expected a reasoner with the processor team, got {reasoner.processor_name}")
    one = DeviceBatch.of(batch[:1])
    network = reasoner.bind(one.algorithm)
    hidden = jnp.zeros((1, one.num_nodes, reasoner.hidden_size))
    _, weights = network.attention(network.read(first_values(network, one)), hidden)
    return np.asarray(weights)[0]  # type: ignore[index]


def save_attention(reasoner: Reasoner, batch: Batch, path: Path) -> None:
    """Draws the attention of a TEAM reasoner on the first instance of a raw batch and writes the picture."""
    draw_attention(reasoner, batch).savefig(path, dpi=150)


def draw_attention(reasoner: Reasoner, batch: Batch) -> Figure:
    """Draws the instance, for every pair of nodes the third node that counts most, and all weights of one node's pairs.

    `batch` is raw, as `narkit.run` gives it.
    """
    weights = attention(reasoner, batch)
    figure = Figure(figsize=(13, 4.4), layout="constrained")
    graph, strongest, one = figure.subplots(1, 3)
    draw_graph(graph, batch, 0)
    graph.set_title("the instance at its first step")
    _draw_weights(strongest, weights.max(-1), "sender i", "receiver j", "largest weight, and its third node k")
    largest = weights.max(-1)
    for (i, j), k in np.ndenumerate(weights.argmax(-1)):
        colour = ON_LIGHT if largest[i, j] > largest.max() / 2 else ON_DARK
        strongest.text(j, i, str(k), ha="center", va="center", fontsize=8, color=colour)
    node = int(np.argmax(batch.inputs["s"][0])) if "s" in batch.inputs else 0
    _draw_weights(one, weights[node], "receiver j", "third node k", f"all weights of the edges from node {node}")
    for axis in (strongest, one):
        figure.colorbar(axis.images[0], ax=axis, shrink=0.8)
    title = f"Triplet Edge Attention on {batch.algorithm}: how much node k counts for the edge from i to j"
    figure.suptitle(f"{title}\n", fontsize=13)  # an empty line keeps it apart from the titles below
    return figure


def _draw_weights(axis: Axes, values: np.ndarray, rows: str, columns: str, title: str) -> None:
    axis.imshow(values, cmap="viridis", vmin=0.0)
    nodes = range(len(values))
    axis.set(title=title, ylabel=rows, xlabel=columns, xticks=nodes, yticks=nodes)
