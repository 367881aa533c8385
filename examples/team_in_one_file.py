"""TEAM in one file: the whole reasoner in plain JAX, to be read from top to bottom.

python examples/team_in_one_file.py  # trains on breadth-first search, about a minute on two cores
python examples/team_in_one_file.py --algorithm dijkstra --steps 200

A reasoner runs beside an algorithm. At every step it reads the algorithm's inputs and hints (the state of the run, as
values of nodes, edges and the graph), and predicts the hints of the next step; at the end it predicts the outputs. From
the second step on it reads its own predictions. A step encodes, processes and decodes:

    x_i, e_ij, g   features of nodes, edges and the graph: every value adds a Linear of itself
    t_ijk          = X1 x_i + X2 x_j + X3 x_k + E1 e_ij + E2 e_ik + E3 e_jk + G g         Triplet Edge Attention
    h_ij           = ReLU(sum over k of softmax_k(a . LeakyReLU(t_ijk)) V e_ik)
    m_j            = max over i of MLP(M1 z_j + M2 z_i + Me h_ij + Mg g),  z = [x || hidden]        messages
    hidden'        = c r + (1 - c) hidden,  r = LayerNorm(ReLU(O1 z + O2 m)),  c = sigmoid(G3 ReLU(G1 z + G2 m))

From "Triplet Edge Attention for Algorithmic Reasoning" (Jung & Ahn, 2023), in the encode-process-decode network of the
CLRS benchmark (Velickovic et al., 2022; Ibarz et al., 2022). The library computes the same, many times faster, and a
test compares the two, values and gradients. Parameters are dictionaries; functions take one sample and are vmapped.
"""

import argparse

import jax
import jax.numpy as jnp
import optax

from narkit.data.execution import sample
from narkit.spec import Kind, Location, Stage

POINTERS = (Kind.POINTER, Kind.PERMUTATION_POINTER)  # kinds whose values are nodes
SLOPE = 0.01  # of the LeakyReLU
BATCH_SIZE = 16
MANY_STEPS = 64  # of longer runs the backward pass computes steps again, since memory has no room for all of them


def linear(p, x):
    return x @ p["w"] + p["b"]


def layer_norm(p, x):
    normal = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return normal * p["w"] + p["b"]


def as_value(probe, stored, num_nodes):
    """What is stored compactly as a network reads it: pointers as distributions over the nodes, the rest as floats."""
    return jax.nn.one_hot(stored, num_nodes) if probe.kind in POINTERS else jnp.asarray(stored, float)


def encode(p, spec, values, hidden_size):
    """The features of nodes (n, h), edges (n, n, h) and the graph (h): each probe adds its encoding."""
    n = values["pos"].shape[-1]
    x, e, g = jnp.zeros((n, hidden_size)), jnp.zeros((n, n, hidden_size)), jnp.zeros((hidden_size,))
    for name, layers in p.items():
        probe, value = spec[name], values[name]
        points = probe.kind in POINTERS
        if probe.location is Location.EDGE and points:  # averaged over the edges that enter a node, and that leave it
            e += linear(layers[0], value.mean(-3)[..., None]) + linear(layers[1], value.mean(-2)[..., None])
            continue
        encoded = linear(layers[0], value if probe.kind is Kind.CATEGORICAL else value[..., None])
        if probe.location is Location.EDGE or (probe.location is Location.NODE and points):
            e += encoded  # a pointer from node i to node j is a feature of the edge (i, j)
        elif probe.location is Location.NODE or points:
            x += encoded
        else:
            g += encoded
    return x, e, g


def process(p, x, e, g, hidden):
    """The next hidden state of every node: attention over triplets, messages along edges, an update behind a gate."""
    t = linear(p["X1"], x)[:, None, None] + linear(p["X2"], x)[:, None] + linear(p["X3"], x)  # (i, j, k, h)
    t += linear(p["E1"], e)[:, :, None] + linear(p["E2"], e)[:, None] + linear(p["E3"], e) + linear(p["G"], g)
    attention = jax.nn.softmax(jax.nn.leaky_relu(t, SLOPE) @ p["a"] + p["a_bias"], axis=-1)
    edges = jax.nn.relu(jnp.einsum("ijk,ikh->ijh", attention, linear(p["V"], e)))

    z = jnp.concatenate([x, hidden], axis=-1)
    messages = linear(p["M1"], z)[None, :] + linear(p["M2"], z)[:, None] + linear(p["Me"], edges) + linear(p["Mg"], g)
    messages = linear(p["mlp1"], jax.nn.relu(messages))  # (sender, receiver, h)
    message = linear(p["mlp2"], jax.nn.relu(messages)).max(axis=0)
    update = layer_norm(p["norm"], jax.nn.relu(linear(p["O1"], z) + linear(p["O2"], message)))
    gate = jax.nn.sigmoid(linear(p["G3"], jax.nn.relu(linear(p["G1"], z) + linear(p["G2"], message))))
    return gate * update + (1.0 - gate) * hidden


def decode(p, probe, nodes, e, g):
    """The logits of one probe from [x || hidden || hidden'] (n, 3h), the edges and the graph."""
    points = probe.kind in POINTERS
    of_nodes = [linear(layer, nodes) for layer in p["nodes"]]
    if probe.location is Location.NODE and points:
        # The pointer from i to p is encoded on the edge (i, p) but decoded from (p, i), as in the benchmark's network.
        ends = of_nodes[1][:, None] + linear(p["edges"][0], e)
        return linear(p["score"], jnp.maximum(of_nodes[0][:, None], jnp.swapaxes(ends, 0, 1)))[..., 0]
    if probe.location is Location.EDGE and points:
        pairs = of_nodes[0][:, None] + of_nodes[1] + linear(p["edges"][0], e)
        return linear(p["score"], jnp.maximum(pairs[:, :, None], of_nodes[2]))[..., 0]
    if probe.location is Location.NODE:
        logits = of_nodes[0]
    elif probe.location is Location.EDGE:
        logits = of_nodes[0][:, None] + of_nodes[1] + linear(p["edges"][0], e)
    else:
        logits = linear(p["pooled"][0], nodes.max(axis=0)) + linear(p["graph"][0], g)
        if points:
            return logits + of_nodes[0][:, 0]
    return logits if probe.kind is Kind.CATEGORICAL else logits[..., 0]


def log_sinkhorn(logits, steps):
    """The logarithm of a nearly doubly stochastic matrix with an empty diagonal: a soft permutation."""
    logits = logits / 0.1 - 1e6 * jnp.eye(logits.shape[-1])
    return jax.lax.fori_loop(0, steps, lambda _, x: jax.nn.log_softmax(jax.nn.log_softmax(x), axis=-2), logits)


def soften(probe, logits):
    """Predicted values as the next step reads them: probabilities, which gradients flow through."""
    if probe.kind is Kind.SCALAR:
        return logits
    if probe.kind is Kind.MASK:
        return jax.nn.sigmoid(logits)
    return jnp.exp(log_sinkhorn(logits, 25)) if probe.kind is Kind.PERMUTATION_POINTER else jax.nn.softmax(logits)


def forward(p, spec, inputs, hints, lengths, hidden_size):
    """The logits of all outputs, and of all hints stacked over the steps, for a batch.

    Step i reads hints i (true ones at first, predicted ones after) and predicts hints i + 1. A sample of `length` hint
    steps gives its outputs at step `length - 2`.
    """
    num_nodes, num_steps = inputs["pos"].shape[-1], max(1, len(next(iter(hints.values()))) - 1)
    inputs = {name: as_value(spec[name], stored, num_nodes) for name, stored in inputs.items()}
    hints = {name: as_value(spec[name], stored[0], num_nodes) for name, stored in hints.items()}

    def one_sample(values, hidden):
        x, e, g = encode(p["encoders"], spec, values, hidden_size)
        new = process(p["processor"], x, e, g, hidden)
        nodes = jnp.concatenate([x, hidden, new], axis=-1)
        hints = {name: decode(decoder, spec[name], nodes, e, g) for name, decoder in p["hint_decoders"].items()}
        outputs = {name: decode(decoder, spec[name], nodes, e, g) for name, decoder in p["output_decoders"].items()}
        return new, hints, outputs

    def step(carry, i):
        hidden, hints, outputs = carry
        hidden, hint_logits, here = jax.vmap(one_sample)({**inputs, **hints}, hidden)
        goes_on = (lengths > i + 1) | (i == 0)
        outputs = {name: jax.vmap(jnp.where)(goes_on, logits, outputs[name]) for name, logits in here.items()}
        hints = {name: soften(spec[name], logits) for name, logits in hint_logits.items()}
        return (hidden, hints, outputs), hint_logits

    hidden = jnp.zeros((len(lengths), num_nodes, hidden_size))
    shapes = jax.eval_shape(jax.vmap(one_sample), {**inputs, **hints}, hidden)[2]
    outputs = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes)
    body = jax.checkpoint(step) if num_steps > MANY_STEPS else step
    (_, _, outputs), hint_logits = jax.lax.scan(body, (hidden, hints, outputs), jnp.arange(num_steps))
    permutations = [name for name in outputs if spec[name].kind is Kind.PERMUTATION_POINTER]
    return outputs | {name: log_sinkhorn(outputs[name], 10) for name in permutations}, hint_logits


def mean_cost(probe, logits, truth, in_time):
    """The mean over all values that count: those of samples that are still running, and not -1."""
    if probe.kind is Kind.SCALAR:
        cost, counts = (logits - truth) ** 2, jnp.ones(logits.shape, bool)
    elif probe.kind is Kind.MASK:
        cost = jnp.maximum(logits, 0) - logits * truth + jnp.log1p(jnp.exp(-jnp.abs(logits)))
        counts = truth != -1
    else:
        is_true = jax.nn.one_hot(truth, logits.shape[-1], dtype=bool) if probe.kind in POINTERS else truth == 1
        log = logits if probe.kind is Kind.PERMUTATION_POINTER else jax.nn.log_softmax(logits)
        cost, counts = -jnp.sum(jnp.where(is_true, log, 0.0), axis=-1), is_true.any(-1)
    counts &= in_time.reshape(*in_time.shape, *(1,) * (counts.ndim - in_time.ndim))
    return jnp.sum(jnp.where(counts, cost, 0.0)) / jnp.maximum(counts.sum(), 1e-12)


def loss(p, spec, inputs, hints, outputs, lengths, hidden_size):
    """The sum over all outputs and hints: the prediction of step i is compared with the hint of step i + 1."""
    output_logits, hint_logits = forward(p, spec, inputs, hints, lengths, hidden_size)
    parts = [mean_cost(spec[name], logits, outputs[name], lengths > 0) for name, logits in output_logits.items()]
    for name, logits in hint_logits.items():
        truth = hints[name][1:]
        if len(truth):  # runs of a single hint step predict none
            in_time = lengths > jnp.arange(1, len(truth) + 1)[:, None]
            parts.append(mean_cost(spec[name], logits, truth, in_time))
    return sum(parts)


def initial_parameters(key, spec, h):
    """Weights are normal with variance 1 / inputs, cut off at two standard deviations; gates start nearly closed."""
    keys = iter(jax.random.split(key, 1000))

    def new(inputs, outputs, stddev=None, bias=0.0):
        weight = jax.random.truncated_normal(next(keys), -2.0, 2.0, (inputs, outputs))
        return {"w": (stddev or inputs**-0.5) * weight, "b": jnp.full((outputs,), bias)}

    def encoder(probe):
        stddev = h**-0.5 if probe.stage is Stage.HINT and probe.kind is Kind.SCALAR else None
        count = 2 if probe.location is Location.EDGE and probe.kind is Kind.POINTER else 1
        return [new(probe.num_classes if probe.kind is Kind.CATEGORICAL else 1, h, stddev) for _ in range(count)]

    def decoder(probe):
        width, points, at = probe.num_classes or 1, probe.kind in POINTERS, probe.location
        if points and at is not Location.GRAPH:
            nodes, edges, graph = [h] * (2 if at is Location.NODE else 3), [h], []
        else:
            nodes = {Location.NODE: [width], Location.EDGE: [width] * 2, Location.GRAPH: [1] * points}[at]
            edges, graph = [width] * (at is Location.EDGE), [width] * (at is Location.GRAPH)
        reads = {"nodes": (3 * h, nodes), "edges": (h, edges), "pooled": (3 * h, graph), "graph": (h, graph)}
        layers = {part: [new(inputs, outputs) for outputs in widths] for part, (inputs, widths) in reads.items()}
        return layers | ({"score": new(h, 1)} if points and edges else {})

    processor = {name: new(h, h) for name in ("X1", "X2", "X3", "E1", "E2", "E3", "G", "V", "Me", "Mg", "mlp1", "mlp2")}
    processor |= {name: new(2 * h, h) for name in ("M1", "M2", "O1", "G1")} | {"O2": new(h, h), "G2": new(h, h)}
    processor |= {"G3": new(h, h, bias=-3.0), "norm": {"w": jnp.ones(h), "b": jnp.zeros(h)}}
    processor |= {"a": new(h, 1)["w"][:, 0], "a_bias": jnp.zeros(())}
    return {
        "encoders": {name: encoder(probe) for name, probe in spec.items() if probe.stage is not Stage.OUTPUT},
        "processor": processor,
        "hint_decoders": {name: decoder(probe) for name, probe in spec.items() if probe.stage is Stage.HINT},
        "output_decoders": {name: decoder(probe) for name, probe in spec.items() if probe.stage is Stage.OUTPUT},
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", default="bfs")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--hidden-size", type=int, default=16)
    options = parser.parse_args(arguments)
    all_batches = sample(options.algorithm, size=8, batch_size=BATCH_SIZE * options.steps, seed=0)
    spec, size = all_batches.spec, options.hidden_size
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    parameters = initial_parameters(jax.random.key(0), spec, size)
    state = optimizer.init(parameters)

    @jax.jit
    def update(parameters, state, inputs, hints, outputs, lengths):
        value, gradient = jax.value_and_grad(loss)(parameters, spec, inputs, hints, outputs, lengths, size)
        updates, state = optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    for i in range(options.steps):
        batch = all_batches[i * BATCH_SIZE : (i + 1) * BATCH_SIZE]
        arrays = (batch.inputs, batch.hints, batch.outputs, jnp.asarray(batch.lengths))
        parameters, state, value = update(parameters, state, *arrays)
        if i % 20 == 0 or i == options.steps - 1:
            print(f"step {i}: loss {value:.3f}")


if __name__ == "__main__":
    main()
