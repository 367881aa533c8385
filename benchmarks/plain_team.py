"""TEAM as a literal transcription of its equations into plain JAX: the point of comparison of `narkit bench train`.

Nothing is factored, fused or deferred. Features are dense (h numbers per node, edge and graph), the triplets are one
(n, n, n, h) array, outputs are decoded at every step, and time is a `jax.lax.scan` over as many steps as the hints have
rows. Only where these are many does the backward pass recompute steps, since nothing else would fit into memory.
Letters are those of the equations: X, E, G, a and V of the attention, M, O of the messages, G1 to G3 of the gate.

`parameters_of` takes the parameters over from a narkit network, so that the two can be compared number by number.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from narkit.algorithms import ALGORITHMS
from narkit.models import objective, predictions
from narkit.models.encoders import as_value, as_values
from narkit.models.network import DeviceBatch, Reasoner
from narkit.spec import Kind, Location, Probe, Spec, Stage
from narkit.training.config import TrainConfig

Parameters = dict[str, Any]
SLOPE = 0.01  # of the LeakyReLU
MANY_STEPS = 64  # longer runs are recomputed backward: five seeds at n = 16 would keep about 0.8 GB per step
POINTERS = (Kind.POINTER, Kind.PERMUTATION_POINTER)


def linear(parameters: Parameters, x: jax.Array) -> jax.Array:
    return x @ parameters["w"] + parameters["b"]


def encode(parameters: Parameters, spec: Spec, values: dict[str, jax.Array], num_nodes: int, hidden_size: int):
    """The features of nodes (n, h), edges (n, n, h) and the graph (h): each probe adds its encoding."""
    x = jnp.zeros((num_nodes, hidden_size))
    e = jnp.zeros((num_nodes, num_nodes, hidden_size))
    g = jnp.zeros((hidden_size,))
    for name, layers in parameters.items():
        probe, value = spec[name], values[name]
        points = probe.kind in POINTERS
        if probe.location is Location.EDGE and points:
            e += linear(layers[0], value.mean(-3)[..., None]) + linear(layers[1], value.mean(-2)[..., None])
            continue
        encoded = linear(layers[0], value if probe.kind is Kind.CATEGORICAL else value[..., None])
        if probe.location is Location.EDGE or (probe.location is Location.NODE and points):
            e += encoded
        elif probe.location is Location.NODE or points:
            x += encoded
        else:
            g += encoded
    return x, e, g


def process(p: Parameters, x: jax.Array, e: jax.Array, g: jax.Array, hid: jax.Array) -> jax.Array:
    """One step of the processor: attention over triplets, messages along edges, gate."""
    t = (
        linear(p["X1"], x)[:, None, None]
        + linear(p["X2"], x)[None, :, None]
        + linear(p["X3"], x)[None, None, :]
        + linear(p["E1"], e)[:, :, None]
        + linear(p["E2"], e)[:, None, :]
        + linear(p["E3"], e)[None, :, :]
        + linear(p["G"], g)
    )
    alpha = jax.nn.softmax(jax.nn.leaky_relu(t, SLOPE) @ p["a"] + p["a_bias"], axis=-1)
    edge = jax.nn.relu(jnp.einsum("ijk,ikh->ijh", alpha, linear(p["V"], e)))

    z = jnp.concatenate([x, hid], axis=-1)
    messages = (
        linear(p["M1"], z)[None, :] + linear(p["M2"], z)[:, None] + linear(p["Me"], edge) + linear(p["Mg"], g)
    )  # (sender, receiver, h)
    messages = linear(p["mlp1"], jax.nn.relu(messages))
    messages = linear(p["mlp2"], jax.nn.relu(messages)).max(axis=0)
    r = layer_norm(p["norm"], jax.nn.relu(linear(p["O1"], z) + linear(p["O2"], messages)))
    gate = jax.nn.sigmoid(linear(p["G3"], jax.nn.relu(linear(p["G1"], z) + linear(p["G2"], messages))))
    return gate * r + (1.0 - gate) * hid


def layer_norm(parameters: Parameters, x: jax.Array) -> jax.Array:
    normal = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return normal * parameters["w"] + parameters["b"]


def decode(p: Parameters, probe: Probe, nodes: jax.Array, e: jax.Array, g: jax.Array) -> jax.Array:
    """The logits of one probe from [x || hid || hid'] (n, 3h), the edges and the graph."""
    points = probe.kind in POINTERS
    if probe.location is Location.NODE and points:
        ends = linear(p["nodes"][1], nodes)[:, None] + linear(p["edges"][0], e)
        both = jnp.maximum(linear(p["nodes"][0], nodes)[:, None], jnp.swapaxes(ends, 0, 1))
        return linear(p["score"], both)[..., 0]
    if probe.location is Location.EDGE and points:
        pairs = linear(p["nodes"][0], nodes)[:, None] + linear(p["nodes"][1], nodes) + linear(p["edges"][0], e)
        both = jnp.maximum(pairs[:, :, None], linear(p["nodes"][2], nodes))
        return linear(p["score"], both)[..., 0]
    if probe.location is Location.NODE:
        logits = linear(p["nodes"][0], nodes)
    elif probe.location is Location.EDGE:
        logits = linear(p["nodes"][0], nodes)[:, None] + linear(p["nodes"][1], nodes) + linear(p["edges"][0], e)
    else:
        logits = linear(p["pooled"][0], nodes.max(axis=0)) + linear(p["graph"][0], g)
        if points:
            return logits + linear(p["nodes"][0], nodes)[:, 0]
    return logits if probe.kind is Kind.CATEGORICAL else logits[..., 0]


def forward(parameters: Parameters, batch: DeviceBatch, hidden_size: int):
    """The logits of all outputs, and of all hints stacked over the steps."""
    spec, num_nodes, batch_size = ALGORITHMS[batch.algorithm].transformed_spec, batch.num_nodes, len(batch.lengths)
    inputs = as_values(spec, batch.inputs, num_nodes)

    def one_sample(values, hid):
        x, e, g = encode(parameters["encoders"], spec, values, num_nodes, hidden_size)
        new = process(parameters["processor"], x, e, g, hid)
        nodes = jnp.concatenate([x, hid, new], axis=-1)
        hints, outputs = (
            {name: decode(decoder, spec[name], nodes, e, g) for name, decoder in parameters[stage].items()}
            for stage in ("hint_decoders", "output_decoders")
        )
        return new, hints, outputs

    def step(carry, i):
        hid, hints, outputs = carry
        hid, hint_logits, here = jax.vmap(one_sample)({**inputs, **hints}, hid)
        is_last = (batch.lengths > i + 1) | (i == 0)
        outputs = {
            name: jnp.where(is_last.reshape(-1, *(1,) * (here[name].ndim - 1)), here[name], outputs[name])
            for name in here
        }
        hints = {name: predictions.soften(spec[name], logits) for name, logits in hint_logits.items()}
        return (hid, hints, outputs), hint_logits

    hid = jnp.zeros((batch_size, num_nodes, hidden_size))
    hints = {name: as_value(spec[name], values[0], num_nodes) for name, values in batch.hints.items()}
    shapes = jax.eval_shape(jax.vmap(one_sample), {**inputs, **hints}, hid)[2]
    outputs = {name: jnp.zeros(leaf.shape, leaf.dtype) for name, leaf in shapes.items()}
    body = jax.checkpoint(step) if batch.num_steps > MANY_STEPS else step
    (_, _, outputs), hint_logits = jax.lax.scan(body, (hid, hints, outputs), jnp.arange(batch.num_steps))
    return outputs, hint_logits


def loss(parameters: Parameters, batch: DeviceBatch, hidden_size: int) -> jax.Array:
    outputs, hints = forward(parameters, batch, hidden_size)
    parts = objective.output_losses(batch, outputs) | objective.hint_losses(batch, hints)
    return sum(parts.values(), jnp.zeros(()))


def optimizer(config: TrainConfig) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(config.gradient_clip), optax.adam(config.learning_rate))


def initial_state(config: TrainConfig):
    """Parameters and optimiser of all seeds, stacked."""

    def of_seed(seed: int) -> Parameters:
        reasoner = Reasoner(config.algorithms, "team", config.hidden_size, key=jax.random.key(seed))
        return parameters_of(reasoner, config.algorithms[0])

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
    spec = ALGORITHMS[algorithm].transformed_spec
    if any(probe.kind is Kind.PERMUTATION_POINTER for probe in spec.values()):
        raise ValueError(f"the plain transcription has no permutations, which {algorithm} needs; expected another")

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
