"""TEAM as a literal transcription of its equations into plain JAX: the point of comparison of `narkit bench train`.

The network is that of `examples/team_in_one_file.py`, where nothing is factored, fused or deferred. Features are dense
(h numbers per node, edge and graph), the triplets are one (n, n, n, h) array, outputs are decoded at every step, and
time is a `jax.lax.scan` over as many steps as the hints have rows. Here is what trains it as narkit trains its own.

`parameters_of` takes the parameters over from a narkit network, so that the two can be compared number by number.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax

from narkit.algorithms import ALGORITHMS
from narkit.models.network import DeviceBatch, Reasoner
from narkit.spec import Kind, Stage
from narkit.training.config import TrainConfig

Parameters = dict[str, Any]
ONE_FILE = Path(__file__).parents[1] / "examples" / "team_in_one_file.py"


def _load_one_file() -> Any:
    module_spec = importlib.util.spec_from_file_location(ONE_FILE.stem, ONE_FILE)
    assert module_spec is not None and module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module


one_file = _load_one_file()


def forward(parameters: Parameters, batch: DeviceBatch, hidden_size: int) -> tuple[dict, dict]:
    """The logits of all outputs, and of all hints stacked over the steps."""
    spec = ALGORITHMS[batch.algorithm].transformed_spec
    return one_file.forward(parameters, spec, batch.inputs, batch.hints, batch.lengths, hidden_size)


def loss(parameters: Parameters, batch: DeviceBatch, hidden_size: int) -> jax.Array:
    spec = ALGORITHMS[batch.algorithm].transformed_spec
    parts = (batch.inputs, batch.hints, batch.outputs, batch.lengths)
    return one_file.loss(parameters, spec, *parts, hidden_size)


def optimizer(config: TrainConfig) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(config.gradient_clip), optax.adam(config.learning_rate))


def initial_state(config: TrainConfig):
    """Parameters and optimiser of all seeds, stacked."""

    (algorithm,) = config.algorithms
    if any(probe.kind is Kind.PERMUTATION_POINTER for probe in ALGORITHMS[algorithm].transformed_spec.values()):
        raise ValueError(
            f"the plain transcription trains without the noise of permutations, which {algorithm} needs; expected "
            "another algorithm, there are no permutations in most"
        )

    def of_seed(seed: int) -> Parameters:
        reasoner = Reasoner(config.algorithms, "team", config.hidden_size, key=jax.random.key(seed))
        return parameters_of(reasoner, algorithm)

    parameters = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(of_seed, config.seeds))
    return parameters, jax.vmap(optimizer(config).init)(parameters)


def training_step(config: TrainConfig):
    """`state, losses = step(state, batch)`, a seed per leading index."""
    optimise = optimizer(config)

    def update(parameters, state, batch):
        value, gradient = jax.value_and_grad(loss)(parameters, batch, config.hidden_size)
        updates, state = optimise.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    def step(state, batch):
        parameters, optimiser, losses = jax.vmap(update)(*state, batch)
        return (parameters, optimiser), losses

    return step


def parameters_of(reasoner: Reasoner, algorithm: str) -> Parameters:
    """The parameters of a TEAM network with one head, under the names of the equations."""

    def copy(layer: Any) -> Parameters:
        return {"w": layer.weight, "b": layer.bias}

    def decoders(stage: Stage) -> Parameters:
        of_stage = reasoner.hint_decoders if stage is Stage.HINT else reasoner.output_decoders
        return {
            name: {
                "nodes": [copy(layer) for layer in decoder.on_nodes],
                "edges": [copy(layer) for layer in decoder.on_edges],
                "pooled": [copy(layer) for layer in decoder.on_pooled],
                "graph": [copy(layer) for layer in decoder.on_graph],
            }
            | ({} if decoder.score is None else {"score": copy(decoder.score)})
            for name, decoder in of_stage[algorithm].by_probe.items()
        }

    processor: Any = reasoner.processor
    tea, messages = processor.attention, processor.message_passing
    layers = {
        "X1": tea.node_i, "X2": tea.node_j, "X3": tea.node_k, "E1": tea.edge_ij, "E2": tea.edge_ik, "E3": tea.edge_jk,
        "G": tea.graph, "V": tea.value, "M1": messages.receiver, "M2": messages.sender, "Me": messages.edge,
        "Mg": messages.graph, "mlp1": messages.mlp[0], "mlp2": messages.mlp[1], "O1": messages.from_nodes,
        "O2": messages.from_messages, "G1": messages.gate.from_nodes, "G2": messages.gate.from_messages,
        "G3": messages.gate.out,
    }  # fmt: skip
    return {
        "encoders": {
            name: [copy(layer) for layer in some] for name, some in reasoner.encoders[algorithm].linears.items()
        },
        "processor": {name: copy(layer) for name, layer in layers.items()}
        | {"a": tea.attention[0], "a_bias": tea.attention_bias[0]}
        | {"norm": {"w": messages.norm.scale, "b": messages.norm.offset}},
        "hint_decoders": decoders(Stage.HINT),
        "output_decoders": decoders(Stage.OUTPUT),
    }
