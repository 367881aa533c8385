"""From the logits of hints to what a network reads of them at its next step, one kernel forward and one backward.

Of nodes the logits are given. Of the graph they are made here,

    logit = [max_i x_i || max_i hidden_i || max_i next_hidden_i || s || 1] W,    x_i = s_i D + c

with the scalars s of the graph and s_i of node i. Scalars stay as they are, masks become probabilities, a mask of one
node a softmax over the nodes, a categorical one over its classes. Pointers have kernels of their own.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from narkit.fused.launch import Kernel, in_float32
from narkit.fused.weights import HIDDEN_SIZE as H
from narkit.loops.deferred_gradients import keep_values, stack_values

MOST_WARPS = 12  # of a block
MOST_STAGED = 40_000  # bytes of nodes in shared memory; larger graphs are read where they are


class ValueKind(enum.IntEnum):
    """The function from logits to values, as in readout.cu."""

    COPY = 0  # from the scalars of this step: inputs, which stay
    SCALAR = 1
    MASK = 2
    MASK_ONE = 3
    CATEGORICAL = 4
    GRAPH_SCALAR = 5
    GRAPH_MASK = 6
    GRAPH_CATEGORICAL = 7


class Value(NamedTuple):
    """A hint: where its logits begin, and where its values do in a node's row of scalars."""

    kind: ValueKind
    source: int
    target: int
    width: int


class ReadoutWeights(NamedTuple):
    """The parameters of one network."""

    directions: Float[Array, "scalar hidden"]  # D
    offset: Float[Array, " hidden"]  # c
    graph: Float[Array, "read graph_logit"]  # W


class _OfGraph(NamedTuple):
    """The inputs of the logits of the graph's hints, beside scalars."""

    hidden: Float[Array, "sample node hidden"]
    next_hidden: Float[Array, "sample node hidden"]
    weights: ReadoutWeights


class _Options(NamedTuple):
    values: tuple[Value, ...]
    first: int


def readout(
    logits: Float[Array, "sample node width"],
    scalars: Float[Array, "sample node scalar"],
    hidden: Float[Array, "sample node hidden"],
    next_hidden: Float[Array, "sample node hidden"],
    weights: ReadoutWeights | None,
    values: Sequence[Value],
    first: int,
) -> tuple[Float[Array, "sample node scalar"], Float[Array, "sample graph_logit"] | None]:
    """Returns the scalars of nodes at the next step, and the logits of the graph's hints, where there are any.

    In a row of scalars those of the graph stand behind the node's own; every node has the same. `first` is the column
    from which on `logits` has those of `values`: nothing before has a gradient from here.
    """
    of_graph = None
    if weights is not None and weights.graph.shape[1] > 0:
        of_graph = _OfGraph(hidden, next_hidden, weights)
    next_scalars, *graph_logits = _results(logits, scalars, of_graph, _Options(tuple(values), first))
    return next_scalars, graph_logits[0] if graph_logits else None


def _kernel(name: str, logits: Array, scalars: Array, of_graph: _OfGraph | None, options: _Options, *rows):
    samples, n, width = logits.shape
    num_scalars = scalars.shape[-1]
    of_node, num_logits = num_scalars, 0
    if of_graph is not None:
        of_node, num_logits = of_graph.weights.directions.shape[0], of_graph.weights.graph.shape[1]
    macros = {
        "N": n, "SAMPLES": samples, "WIDTH": width, "SMALL": options.first, "SCALARS": num_scalars,
        "NODE_SCALARS": of_node, "GRAPH": num_logits, "NUM_VALUES": len(options.values),
        "VALUES": ", ".join(f"{{{', '.join(str(int(number)) for number in value)}}}" for value in options.values),
    }  # fmt: skip
    threads = 3 * H if num_logits else 32 * min(max(len(options.values), 1), MOST_WARPS)
    shared, staged = 0, False
    if num_logits:
        small, row = width - options.first, -(-num_scalars // 4) * 4
        # Backward: features, scalars, logits, and the latter two with their gradients. Forward has fewer.
        of_nodes = n * (H + row + 2 * small + 2 * num_scalars)
        staged = 4 * of_nodes <= MOST_STAGED
        shared = 4 * (of_nodes * staged + num_logits * (threads // 32 + 1))
    macros |= {"BLOCK": threads, "STAGED": int(staged)}
    return Kernel("readout.cu", name, tuple(macros.items()), (samples, 1), shared, *rows, threads=threads)


def _run_forward(logits, scalars, of_graph, options):
    rows_read, rows_written, on_graph = ((0, "TIMED_logits"), (1, "TIMED_scalars")), (), ()
    outputs = in_float32(scalars.shape)
    if of_graph is not None:
        # Read from their rows, or a loop would have to copy them: their memory is where it puts the next ones.
        rows_read += ((2, "TIMED_hidden"), (3, "TIMED_next_hidden"))
        rows_written = ((1, "TIMED_graph"), (2, "TIMED_read"))
        on_graph = (of_graph.hidden, of_graph.next_hidden, *of_graph.weights)
        num_read, num_logits = of_graph.weights.graph.shape
        outputs += in_float32((len(logits), num_logits), (len(logits), num_read))
    kernel = _kernel("readout_forward", logits, scalars, of_graph, options, rows_read, rows_written)
    return kernel(logits, scalars, *on_graph, outputs=outputs)


def _forward_only(logits, scalars, of_graph, options):
    return tuple(_run_forward(logits, scalars, of_graph, options)[:2])


def _forward(logits, scalars, of_graph, options):
    next_scalars, *rest = _run_forward(logits, scalars, of_graph, options)
    saved = keep_values(rest)
    return (next_scalars, *saved[:1]), (logits, scalars, of_graph, saved)


def _backward(options, residuals, cotangents):
    logits, scalars, of_graph, saved = residuals
    samples, n, width = logits.shape
    d_next, *d_graph_logits = cotangents
    rows_read, rows_written, on_graph = ((0, "TIMED_logits"), (1, "TIMED_scalars")), (), ()
    outputs = in_float32((samples, n, width - options.first), scalars.shape)
    if of_graph is not None:
        rows_read += ((3, "TIMED_hidden"), (4, "TIMED_next_hidden"), (8, "TIMED_graph"))
        rows_written = ((4, "TIMED_features"), (5, "TIMED_d_graph"))
        on_graph = (of_graph.hidden, of_graph.next_hidden, *of_graph.weights, saved[0], *d_graph_logits)
        outputs += in_float32(*[of_graph.hidden.shape] * 3, saved[0].shape)
    kernel = _kernel("readout_backward", logits, scalars, of_graph, options, rows_read, rows_written)
    d_small, d_scalars, *rest = kernel(logits, scalars, d_next, *on_graph, outputs=outputs)
    d_of_graph = None
    if of_graph is not None:
        d_hidden, d_next_hidden, *stacked = rest
        d_features, d_graph = stack_values(stacked)
        # The offset goes with a scalar that is always one.
        num_scalars = of_graph.weights.directions.shape[0]
        given = jax.lax.pad(scalars[..., :num_scalars], np.float32(1), [(0, 0, 0), (0, 0, 0), (0, 1, 0)])
        of_basis = jnp.einsum("bnp,bnh->ph", given, d_features)
        d_weights = ReadoutWeights(of_basis[:-1], of_basis[-1], jnp.einsum("br,bg->rg", saved[1], d_graph))
        d_of_graph = _OfGraph(d_hidden, d_next_hidden, d_weights)
    # Nothing in front of `first` has a gradient.
    d_logits = jnp.concatenate([jnp.zeros((samples, n, options.first)), d_small], axis=-1)
    return d_logits, d_scalars, d_of_graph


_results: Any = jax.custom_vjp(_forward_only, nondiff_argnums=(3,))
_results.defvjp(_forward, _backward)
