"""The update of the hidden state from the message that a node received, one kernel forward and one backward.

    r       = LayerNorm(ReLU(from_node + message O)) * scale + offset
    c       = sigmoid(ReLU(from_gate + message G) W + b)
    hidden' = c r + (1 - c) hidden, or without a gate r

The backward kernel recomputes everything from the inputs and writes the operands of the gate's gradient; those of O
and G are the message and the gradients of the two terms. They are multiplied after the time loop for all steps at once.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.launch import Kernel, in_float32
from narkit.fused.messages import TILE_STRIDE
from narkit.fused.weights import HIDDEN_SIZE as H
from narkit.fused.weights import NO_GRADIENT, frozen
from narkit.loops.deferred_gradients import stack_values

WARPS = 8  # as in update.cu

ROWS_READ = ((0, "TIMED_message"), (1, "TIMED_terms"), (2, "TIMED_hidden"))
"""Operands that may be rows of stacks over time."""


class UpdateWeights(NamedTuple):
    """The parameters of one network."""

    on_message: Float[Array, "terms hidden hidden"]  # O and, with a gate, G
    gate: Float[Array, "hidden hidden"] | None  # W
    vectors: Float[Array, "vectors hidden"]  # scale, offset and, with a gate, b
    fragments: tuple[Array, Array]  # of O and G, and of W; without a gate, which nobody reads then, the first twice
    transposed: tuple[Array, Array]

    @classmethod
    def of(cls, on_message, gate, vectors) -> UpdateWeights:
        last = on_message if gate is None else gate
        fragments, transposed = ((frozen(on_message, flip), frozen(last, flip)) for flip in (False, True))
        return cls(on_message, gate, vectors, fragments, transposed)


def _kernel(name, message, terms, gated, tiles, shares, rows) -> Kernel:
    samples, n = message.shape[:2]
    nodes = samples * n
    macros = (("N", n), ("SAMPLES", samples), ("TERMS", terms.shape[-1]), ("ATTENTION", int(terms.shape[-1] >= 6 * H)))
    macros += (("GATE", int(gated)),)
    shared = 16 * (tiles * TILE_STRIDE * 2 + shares * (WARPS + 1) * 8)
    return Kernel("update.cu", name, macros, (-(-nodes // 16), 1), shared, *rows, threads=32 * WARPS)


def forward(
    message: Float[Array, "sample node hidden"],
    terms: Float[Array, "sample node terms"],
    hidden: Float[Array, "sample node hidden"],
    weights: UpdateWeights,
) -> Float[Array, "sample node hidden"]:
    """Returns the next hidden state. Of `terms` from_node and from_gate are read, which stand behind receive and send.

    Without a gate there is no from_gate, and the hidden state is not read.
    """
    rows = (ROWS_READ, ((0, "TIMED_result"),), (0,))
    kernel = _kernel("update_forward", message, terms, weights.gate is not None, 2, 1, rows)
    operands = (message, terms, hidden, *weights.fragments, weights.vectors)
    return kernel(*operands, outputs=in_float32(hidden.shape))[0]


def gradients_of_weights(message: Array, d_terms: Array, d_gate: Array | None, d_vectors: Array) -> UpdateWeights:
    """Returns them from those of the terms that products with the message are added to, as a time loop stacks them."""
    on_message = jnp.einsum("bnh,bng->hg", message, d_terms)
    on_message = jnp.moveaxis(on_message.reshape(H, -1, H), 1, 0)
    return UpdateWeights(on_message, d_gate, d_vectors, NO_GRADIENT, NO_GRADIENT)


def backward(
    message: Array, terms: Array, hidden: Array, weights: UpdateWeights, d_result: Array
) -> tuple[Array, Array, Array, Array | None, Array]:
    """Returns the gradients of the message, of the terms in one array, of the hidden state, the gate and vectors.

    `gradients_of_weights` makes those of O and G.
    """
    gated = weights.gate is not None
    samples, n = hidden.shape[:2]
    by_tile = (1, -(-samples * n // 16), len(weights.vectors), H)  # whichever samples are in it
    outputs = in_float32(hidden.shape, (samples, n, len(weights.on_message) * H), by_tile)
    rows_written = ((2, "TIMED_vectors"),)
    if gated:
        rows_written += tuple((len(outputs) + operand, "TIMED_gate") for operand in (1, 2))
        outputs += [(hidden.shape, jnp.float32), (hidden.shape, jnp.bfloat16), (hidden.shape, jnp.bfloat16)]
    kernel = _kernel("update_backward", message, terms, gated, 3, 2, (ROWS_READ, rows_written))
    d_message, d_terms, d_vectors, *of_gate = kernel(
        message, terms, hidden, *weights.fragments, *weights.transposed, weights.vectors, d_result, outputs=outputs
    )
    d_hidden, d_gate = jnp.zeros_like(hidden), None
    if gated:
        d_hidden, *operands = of_gate
        gate_input, d_opening = stack_values(operands)
        d_gate = jnp.einsum("bnh,bng->hg", gate_input, d_opening, preferred_element_type=jnp.float32)
    d_vectors = stack_values(d_vectors).sum((0, 1))
    return d_message, d_terms, d_hidden, d_gate, d_vectors
