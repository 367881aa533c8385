"""Other readings of the paper's TEAM, trained side by side: does one of them extrapolate as the paper's does?

    python benchmarks/readings_of_team.py --seeds 3 --out results/readings/insertion_sort.json
    python benchmarks/readings_of_team.py --show results/readings/insertion_sort.json

The paper gives equations and, per algorithm, a ratio of parameter counts, but no code. What its text leaves open are
the readings below; all but one have as many parameters as the one that narkit builds, so the counts cannot tell them
apart. Each is trained by the preset and scored every 500 steps at sizes 16 and 32, as for validation, and on the
benchmark's instances of size 64, which are not used to choose anything.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

import narkit
from narkit import machine
from narkit.files import write_whole
from narkit.models import triplets
from narkit.models.features import Bases, Scalars
from narkit.models.layers import LayerNorm, Linear
from narkit.models.processors.base import Adjacency, BoundProcessor, Hidden, Processor
from narkit.models.processors.message_passing import BoundMessagePassing, MessagePassing
from narkit.training.callbacks import Callback
from narkit.training.config import BENCHMARK, Validation
from narkit.training.presets import preset
from narkit.training.progress import Point
from narkit.training.trainer import Trainer

SLOPE = 0.01
TEST = Validation("test", 64, 32, BENCHMARK)
NODE_INPUTS = {"inputs": 1, "hidden": 1, "both": 2}  # how many times as wide as h


@dataclass(frozen=True)
class Reading:
    """What is open: which node features the attention reads, from which edges it takes values, and what follows it."""

    what: str
    nodes: str = "inputs"  # or "hidden" or "both"
    reversed_edges: bool = False  # the attention reads edges from the third node to the two, not the other way
    values: str = "sender"  # or "receiver": whose edges to third nodes are mixed
    skip: bool = False  # a Linear of the edge itself is added to the mixed values
    norm: bool = False  # LayerNorm behind it
    edge_product: bool = True  # the messages' own Linear of edge latents
    gated: bool = True


READINGS = {
    "team": Reading("as narkit builds it"),
    "hidden": Reading("the attention reads hidden states", nodes="hidden"),
    "receiver": Reading("values of the receiver's edges", values="receiver"),
    "reversed": Reading("edges from third nodes", reversed_edges=True),
    "reversed_receiver": Reading("edges from third nodes, to the receiver", reversed_edges=True, values="receiver"),
    "skip": Reading("the edge itself is added, no product behind", skip=True, edge_product=False),
    "reversed_receiver_skip": Reading(
        "the edge itself is added, no product behind; edges from third nodes, to the receiver",
        reversed_edges=True, values="receiver", skip=True, edge_product=False,
    ),
    "skip_norm_no_gate": Reading(
        "reads inputs and hidden states, adds the edge itself, LayerNorm, no gate",
        nodes="both", skip=True, norm=True, gated=False,
    ),
    "reversed_skip_norm_no_gate": Reading(
        "reads inputs and hidden states, adds the edge itself, LayerNorm, no gate; edges from thirds",
        nodes="both", reversed_edges=True, skip=True, norm=True, gated=False,
    ),
    "reversed_receiver_skip_norm_no_gate": Reading(
        "reads inputs and hidden states, adds the edge itself, LayerNorm, no gate; edges from thirds, to the receiver",
        nodes="both", reversed_edges=True, values="receiver", skip=True, norm=True, gated=False,
    ),
    "both_no_gate": Reading("reads inputs and hidden states, no gate (fewer parameters)", nodes="both", gated=False),
}  # fmt: skip


class ReadingOfTeam(Processor):
    """One of the readings: its attention in plain formulas over dense features, then narkit's message passing."""

    on_nodes: tuple[Linear, Linear, Linear]
    on_edges: tuple[Linear, Linear, Linear]
    on_graph: Linear
    attention: Array
    attention_bias: Array
    value: Linear
    skip: Linear | None
    norm: LayerNorm | None
    messages: MessagePassing
    reading: Reading = eqx.field(static=True)
    latent_size: int = eqx.field(static=True, default=0)

    def __init__(self, hidden_size: int, name: str = "team", *, key: PRNGKeyArray):
        self.reading = reading = READINGS[name]
        keys = iter(jax.random.split(key, 12))

        def linear(inputs: int = hidden_size) -> Linear:
            return Linear(inputs, hidden_size, key=next(keys))

        width = NODE_INPUTS[reading.nodes] * hidden_size
        self.on_nodes = (linear(width), linear(width), linear(width))
        self.on_edges = (linear(), linear(), linear())
        self.on_graph, self.value = linear(), linear()
        self.attention = hidden_size**-0.5 * jax.random.truncated_normal(next(keys), -2.0, 2.0, (1, hidden_size))
        self.attention_bias = jnp.zeros((1,))
        self.skip = linear() if reading.skip else None
        self.norm = LayerNorm(hidden_size) if reading.norm else None
        messages = MessagePassing(hidden_size, gated=reading.gated, key=next(keys))
        self.messages = messages if reading.edge_product else eqx.tree_at(lambda m: m.edge, messages, None)

    def bind(self, bases: Bases) -> BoundProcessor:
        return BoundReading(self, bases, self.messages.bind(bases))

    def edge_messages(self, nodes: Array, edges: Array, graph: Array, hidden: Array) -> Array:
        reading = self.reading
        read = {"inputs": nodes, "hidden": hidden, "both": jnp.concatenate([nodes, hidden], -1)}[reading.nodes]
        i, j, k = (linear(read) for linear in self.on_nodes)
        of_third = edges.swapaxes(0, 1) if reading.reversed_edges else edges
        on_ij, on_ik, on_jk = self.on_edges
        logits = triplets.attention_logits(
            i[:, None] + j + on_ij(edges) + self.on_graph(graph), k + on_ik(of_third), on_jk(of_third),
            self.attention, SLOPE,
        )[0]  # fmt: skip
        pairs = "ijk,ikh->ijh" if reading.values == "sender" else "ijk,jkh->ijh"
        mixed = jnp.einsum(pairs, jax.nn.softmax(logits + self.attention_bias), self.value(of_third))
        latents = jax.nn.relu(mixed if self.skip is None else mixed + self.skip(edges))
        latents = latents if self.norm is None else self.norm(latents)
        return self.messages.edge(latents) if reading.edge_product else latents


class BoundReading(BoundProcessor):
    reading: ReadingOfTeam
    bases: Bases
    messages: BoundMessagePassing

    def __call__(self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden) -> Hidden:
        bases = self.bases
        features = (bases.node(scalars.node), bases.edge(scalars.edge), bases.graph(scalars.graph))
        return self.messages(scalars, hidden, self.reading.edge_messages(*features, hidden), None)


def num_parameters(name: str, hidden_size: int = 128) -> int:
    shapes = eqx.filter_eval_shape(ReadingOfTeam, hidden_size, name, key=jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


class PrintScores(Callback):
    """Prints the scores of every validation behind a name."""

    def __init__(self, name: str):
        self.name = name

    def on_point(self, trainer: Trainer, point: Point) -> None:
        print(self.name, point.scores, flush=True)


def train(algorithm: str, name: str, seeds: int, options: dict[str, Any], settings: str = "paper") -> dict[str, Any]:
    """The curve of one reading, or of a processor of narkit's."""
    own = {"processor": "reading_of_team", "processor_options": {"name": name}} if name in READINGS else {}
    config = preset(settings, algorithms=algorithm, seeds=tuple(range(seeds)), **({"processor": name} | own | options))
    config = config.replace(validations=(*config.validations, TEST), test=False)
    trainer = Trainer(config, callbacks=[PrintScores(name)])
    trainer.prepare()
    trainer.run()
    kernels = "plain" if trainer.programs.acceleration.form is None else "fused"
    return {
        "config": config.to_json(),
        "kernels": kernels,
        "curve": [asdict(point) for point in trainer.progress.curve],
    }


def table(stored: dict[str, Any]) -> str:
    """Scores at size 64 of the checkpoints that validation at size 32 chooses, and where they are at the end."""
    lines = ["| Reading | steps | at size 64, chosen at size 32 | mean | at the end | mean |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, run in sorted(stored["runs"].items(), key=lambda item: [*READINGS, item[0]].index(item[0])):
        ood, test = (np.array([point["scores"][rule] for point in run["curve"]]) for rule in ("ood", "test"))
        chosen = test[ood.argmax(0), np.arange(test.shape[1])]
        label = READINGS[name].what if name in READINGS else f"`{name}`, for comparison"
        cells = [f"{run['curve'][-1]['step']:,}"]
        cells += [_percent(chosen), f"{100 * chosen.mean():.1f}", _percent(test[-1]), f"{100 * test[-1].mean():.1f}"]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(scores: np.ndarray) -> str:
    return " / ".join(f"{100 * score:.1f}" for score in scores)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", default="insertion_sort")
    parser.add_argument("--readings", default=",".join([*READINGS, "triplet_gmpnn"]), help="names, with commas between")
    parser.add_argument("--preset", default="paper", help="settings that are not given here")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--validate-every", type=int, default=500)
    parser.add_argument("--out", type=Path, help="a JSON file; readings that it has already are left out")
    parser.add_argument("--show", type=Path, help="print the table of such a file, and train nothing")
    given = parser.parse_args(arguments)
    if given.show is not None:
        print(table(json.loads(given.show.read_text())))
        return
    if given.out is None:
        parser.error("expected --out FILE.json, or --show FILE.json")
    narkit.PROCESSORS["reading_of_team"] = ReadingOfTeam
    if given.out.exists():
        stored = json.loads(given.out.read_text())
    else:
        stored = {
            "algorithm": given.algorithm,
            "device": machine.device_name(),
            "commit": machine.commit(),
            "versions": machine.versions("narkit", "jax"),
            "runs": {},
        }
    options = {"steps": given.steps, "validate_every": given.validate_every}
    for name in given.readings.split(","):
        if name not in stored["runs"]:
            stored["runs"][name] = train(given.algorithm, name, given.seeds, options, given.preset)
            write_whole(given.out, json.dumps(stored))
    print(table(stored))


if __name__ == "__main__":
    main()
