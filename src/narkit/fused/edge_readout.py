"""The logits of hints of edges that do not point, and what the next step reads of them, in a kernel for each direction.

    logit_ij = a_i + b_j + s_ij D + c        (and, where edges have latents, + ReLU(m_ij O + o) L)

Scalars stay as they are, masks become probabilities, a categorical a softmax over its classes.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from narkit.fused.launch import THREADS, Kernel, in_float32
from narkit.fused.narrow_latents import NarrowLatents
from narkit.fused.pointer import at_columns
from narkit.fused.weights import HIDDEN_SIZE as H
from narkit.loops.deferred_gradients import keep_values, stack_values


class EdgeValueKind(enum.IntEnum):
    """The function from logits to values, as in edge_readout.cu, for all kinds that edges have, named as in `Kind`."""

    SCALAR = 0
    MASK = 1
    CATEGORICAL = 2


class EdgeValue(NamedTuple):
    """A hint: where its logits begin, and how many there are."""

    kind: EdgeValueKind
    first: int
    width: int


def edge_readout(
    nodes: Float[Array, "sample node width"],
    first: int,
    scalars: Float[Array, "sample node node scalar"],
    directions: Float[Array, "scalar logit"],
    offset: Float[Array, " logit"],
    further: Float[Array, "sample node node logit"] | tuple[NarrowLatents, Float[Array, "hidden logit"]] | None,
    values: Sequence[EdgeValue],
) -> tuple[Float[Array, "sample node node logit"], Float[Array, "sample node node logit"]]:
    """Returns the logits of all hints, and their values. a begins at `first` of a node's row, b behind it.

    `further` is added to the logits: what edges have that is no sum of few directions, or latents with their weight L.
    """
    latents = given = None
    if isinstance(further, tuple):
        latents = _Latents(*further[0], further[1])
    else:
        given = further
    num_features = 0 if latents is None else latents.features.shape[-1]
    options = _Options(first, tuple(values), given is not None, num_features)
    return _results(nodes, scalars, directions, offset, given, latents, options)


class _Latents(NamedTuple):
    features: Array  # m
    out: Array  # O
    bias: Array  # o
    weight: Array  # L


class _Options(NamedTuple):
    first: int
    values: tuple[EdgeValue, ...]
    has_given: bool
    num_features: int  # of latents; 0 if there are none


def _kernel(name, nodes_shape, scalars, offset, options: _Options, blocks: int, threads: int, *rows) -> Kernel:
    samples, n, width = nodes_shape
    num_logits = offset.shape[0]
    macros = {
        "N": n, "SAMPLES": samples, "WIDTH": width, "P": scalars.shape[-1], "LOGITS": num_logits,
        "FIRST": options.first, "GIVEN": int(options.has_given), "FEATURES": options.num_features,
        "NUM_VALUES": len(options.values),
        "VALUES": ", ".join(f"{{{', '.join(str(int(number)) for number in value)}}}" for value in options.values),
    }  # fmt: skip
    stride = 4 * (-(-options.num_features // 4) | 1)  # as in edge_readout.cu
    shared = 4 * (stride + 1 + num_logits) * H if options.num_features else 0
    return Kernel("edge_readout.cu", name, tuple(macros.items()), (samples, blocks), shared, *rows, threads=threads)


def _forward_only(nodes, scalars, directions, offset, given, latents, options):
    samples, n, _ = nodes.shape
    rows_read = ((0, "TIMED_nodes"), (1, "TIMED_edges"), *(((4, "TIMED_narrow"),) if latents is not None else ()))
    kernel = _kernel(
        "edge_readout_forward", nodes.shape, scalars, offset, options, -(-n * n // THREADS), THREADS,
        rows_read, ((0, "TIMED_logits"),),
    )  # fmt: skip
    further = () if given is None else (given,)
    shape = (samples, n, n, offset.shape[0])
    outputs = in_float32(shape, shape)
    return tuple(kernel(nodes, scalars, directions, offset, *further, *(latents or ()), outputs=outputs))


def _forward(nodes, scalars, directions, offset, given, latents, options):
    logits, values = _forward_only(nodes, scalars, directions, offset, given, latents, options)
    logits = keep_values(logits)
    return (logits, values), (nodes, scalars, directions, offset, latents, logits)


def _backward(options, saved, cotangents):
    nodes, scalars, directions, offset, latents, logits = saved
    samples, n, width = nodes.shape
    num_logits, num_features = offset.shape[0], options.num_features
    rows_read, rows_written = ((0, "TIMED_logits"),), ((2, "TIMED_sums"),)
    outputs = in_float32((samples, n, 2 * num_logits), scalars.shape, logits.shape)
    if latents is not None:
        rows_read, rows_written = (*rows_read, (4, "TIMED_narrow")), (*rows_written, (4, "TIMED_small"))
        outputs += in_float32(latents.features.shape, (samples, 2, num_features + 1 + num_logits, H))
    kernel = _kernel(
        "edge_readout_backward", nodes.shape, scalars, offset, options, 1, 2 * THREADS, rows_read, rows_written
    )
    d_own, d_scalars, d_sums, *rest = kernel(logits, directions, *cotangents, *(latents or ()), outputs=outputs)
    d_sums = stack_values(d_sums)
    # The offset goes with a scalar that is always one.
    with_one = jax.lax.pad(scalars, np.float32(1), [(0, 0, 0)] * 3 + [(0, 1, 0)])
    joint = jnp.einsum("bijp,bijl->pl", with_one, d_sums)
    d_nodes = at_columns({options.first: d_own}, width)
    d_latents = None
    if latents is not None:
        d_features, small = rest
        small = stack_values(small).sum((0, 1))
        of_out, of_bias, of_weight = small[:num_features], small[num_features], small[num_features + 1 :].T
        d_latents = _Latents(d_features, of_out, of_bias, of_weight)
    return d_nodes, d_scalars, joint[:-1], joint[-1], d_sums if options.has_given else None, d_latents


_results: Any = jax.custom_vjp(_forward_only, nondiff_argnums=(6,))
_results.defvjp(_forward, _backward)
