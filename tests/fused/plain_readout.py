"""What networks read of the hints that they predict, written plainly, and the kernels compared with it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit.fused.readout import ReadoutWeights, Value, ValueKind, readout
from narkit.fused.weights import HIDDEN_SIZE as H

from .plain_pointers import assert_equal

FIRST = 5  # the column from which on nodes have logits of hints
ON_NODES = (
    Value(ValueKind.COPY, 0, 0, 2),
    Value(ValueKind.MASK_ONE, FIRST + 1, 3, 1),
    Value(ValueKind.CATEGORICAL, FIRST + 2, 4, 3),
    Value(ValueKind.MASK, FIRST + 5, 2, 1),
    Value(ValueKind.SCALAR, FIRST + 6, 7, 1),
    Value(ValueKind.MASK_ONE, FIRST + 8, 8, 1),
)
NODE_SCALARS, WIDTH = 9, FIRST + 10
ON_GRAPH = (
    Value(ValueKind.GRAPH_CATEGORICAL, 1, 10, 2),
    Value(ValueKind.COPY, 0, 9, 1),
    Value(ValueKind.GRAPH_MASK, 0, 12, 1),
    Value(ValueKind.GRAPH_SCALAR, 4, 13, 1),
)
GRAPH_SCALARS, GRAPH_LOGITS = 5, 5


def plain(logits: Array, scalars: Array, hidden: Array, next_hidden: Array, weights: ReadoutWeights) -> tuple[Any, ...]:
    """The scalars at the next step, and the logits of the graph."""
    encoded = scalars[..., :NODE_SCALARS] @ weights.directions + weights.offset
    pooled = jnp.concatenate([encoded, hidden, next_hidden], axis=-1).max(1)
    one = jnp.ones((len(pooled), 1))
    of_graph = jnp.concatenate([pooled, scalars[:, 0, NODE_SCALARS:], one], axis=-1) @ weights.graph
    return _values(logits, of_graph, scalars, (*ON_NODES, *ON_GRAPH)), of_graph


def _values(logits: Array, of_graph: Array | None, scalars: Array, values: tuple[Value, ...]) -> Array:
    result = jax.lax.stop_gradient(scalars)
    for kind, source, target, width in values:
        given = logits if of_graph is None or kind < ValueKind.GRAPH_SCALAR else of_graph[:, None]
        given = given[..., source : source + width]
        match kind:
            case ValueKind.COPY:
                continue
            case ValueKind.SCALAR | ValueKind.GRAPH_SCALAR:
                soft = given
            case ValueKind.MASK | ValueKind.GRAPH_MASK:
                soft = jax.nn.sigmoid(given)
            case ValueKind.MASK_ONE:
                soft = jax.nn.softmax(given, axis=1)
            case ValueKind.CATEGORICAL | ValueKind.GRAPH_CATEGORICAL:
                soft = jax.nn.softmax(given, axis=-1)
        result = result.at[..., target : target + width].set(soft)
    return result


def assert_equal_to_plain(seeds: int, samples: int, num_nodes: int, device: Any) -> None:
    """Values and gradients, by the kernels where JAX computes by default and plainly on a device."""
    rng = np.random.default_rng(num_nodes)

    def normal(*shape: int) -> Array:
        return jnp.asarray(rng.normal(size=(seeds, *shape)), jnp.float32)

    # Numbers of which many are equal, exactly: nodes that share a maximum share its gradient.
    coarse = lambda *shape: jnp.round(normal(*shape))  # noqa: E731
    size = NODE_SCALARS + GRAPH_SCALARS
    scalars = coarse(samples, num_nodes, size).at[..., NODE_SCALARS:].set(normal(samples, 1, GRAPH_SCALARS))
    weights = ReadoutWeights(coarse(NODE_SCALARS, H), coarse(H), 0.1 * normal(3 * H + GRAPH_SCALARS + 1, GRAPH_LOGITS))
    hidden = (coarse(samples, num_nodes, H), coarse(samples, num_nodes, H))
    logits = normal(samples, num_nodes, WIDTH)
    cotangent = (normal(samples, num_nodes, size), normal(samples, GRAPH_LOGITS))

    def ours(*arguments):
        return readout(*arguments, values=(*ON_NODES, *ON_GRAPH), first=FIRST)

    assert_equal(ours, plain, (logits, scalars, *hidden, weights), cotangent, device, 1e-5)

    def on_nodes(logits, scalars):
        return readout(logits, scalars, hidden[0][0], hidden[1][0], None, ON_NODES, FIRST)[0]

    def plain_on_nodes(logits, scalars):
        return _values(logits, None, scalars, ON_NODES)

    of_nodes = (logits, scalars[..., :NODE_SCALARS])
    assert_equal(on_nodes, plain_on_nodes, of_nodes, cotangent[0][..., :NODE_SCALARS], device, 1e-5)
