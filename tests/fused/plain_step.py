"""A step of message passing written plainly, which rounds where the fused kernels do.

So the two agree up to the order of sums, and a mistake cannot hide behind the noise of rounding.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit.fused import messages
from narkit.fused.message_step import message_step
from narkit.fused.messages import Attention, MessageWeights
from narkit.fused.update import UpdateWeights
from narkit.fused.weights import HIDDEN_SIZE as H

# A number next to the edge between two bfloat16 numbers may be rounded either way: one operand in 10,000.
TOLERANCE = 5e-3
# In the attention a number of half precision that is rounded the other way can change the sign of a triplet's sum, and
# with it a whole summand of the gradient.
ATTENTION_TOLERANCE = 3e-2
OTHER_WAY = 2.0**-8  # by how much of itself a number changes at most if it is rounded to bfloat16 the other way
SLOPE = 0.01
NO_MESSAGE = -1e6  # what a node that may not send contributes to the maximum


class Problem(NamedTuple):
    """The arguments of a step, and the cotangent of its result. All arrays of several seeds have a leading axis."""

    terms: Array
    scalars: Array
    hidden: Array
    message: tuple[Any, ...]  # arguments of `MessageWeights.of`
    update: tuple[Any, ...]  # arguments of `UpdateWeights.of`
    connected: Array | None  # who may send to whom

    @property
    def slope(self) -> float:
        return 0.0 if self.message[0] is None else SLOPE


def draw(
    seeds: int, samples: int, num_nodes: int, num_scalars: int, attends: bool, gated: bool = True, masked: bool = False
) -> tuple[Problem, Array]:
    """Random arguments, and a cotangent of the result."""
    rng = np.random.default_rng(1000 * num_nodes + num_scalars)

    def normal(*shape: int, scale: float = 1.0) -> Array:
        return jnp.asarray(scale * rng.normal(size=(seeds, *shape)), jnp.float32)

    square = partial(normal, H, H, scale=H**-0.5)
    attention = Attention(normal(3, num_scalars, H, scale=0.5), normal(H, scale=3 * H**-0.5)) if attends else None
    products = jnp.stack([square() for _ in range(3 if attends else 2)], axis=1)
    problem = Problem(
        terms=normal(samples, num_nodes, ((6 if attends else 3) + gated) * H),
        scalars=normal(samples, num_nodes, num_nodes, num_scalars),
        hidden=normal(samples, num_nodes, H),
        message=(attention, normal(num_scalars, H), normal(H), products, normal(2, H)),
        update=(
            jnp.stack([square(), square()][: 1 + gated], axis=1),
            square() if gated else None,
            normal(2 + gated, H),
        ),
        connected=_some_senders(rng, seeds, samples, num_nodes) if masked else None,
    )
    return problem, normal(samples, num_nodes, H)


def _some_senders(rng: np.random.Generator, seeds: int, samples: int, num_nodes: int) -> Array:
    """Every node hears itself and, except in the first sample, a quarter of the others."""
    connected = rng.random((seeds, samples, num_nodes, num_nodes)) < 0.25
    connected[:, 0] = False
    return jnp.asarray(connected | np.eye(num_nodes, dtype=bool), jnp.int8)


def fused(problem: Problem) -> Array:
    """The next hidden state of one seed by the kernels."""
    terms, scalars, hidden, message, update, connected = problem
    weights = (MessageWeights.of(*message), UpdateWeights.of(*update))
    return message_step(terms, scalars, hidden, *weights, problem.slope, connected)[0]


def chosen_senders(problem: Problem) -> Array:
    """Whose message the kernels found to be the highest, for every receiver and feature."""
    weights = MessageWeights.of(*problem.message)
    options = messages.Options(problem.slope, masked=problem.connected is not None)
    return messages.forward_saving(problem.terms, problem.scalars, weights, options, problem.connected).best


def plain(problem: Problem, senders: Array) -> tuple[Array, Array]:
    """The next hidden state of one seed by plain formulas; and how far the messages of `senders` miss the maximum.

    Gradients of a maximum jump where two messages are nearly equal. There we follow the kernels' choice.
    """
    terms, s, hidden, (attention, value, value_offset, products, biases), (on_message, gate, vectors), mask = problem
    parts = jnp.split(terms, terms.shape[-1] // H, axis=-1)
    in_attention, (receive, send, *from_nodes) = (parts[:3], parts[3:]) if attention is not None else ([], parts)
    edges = s
    if attention is not None:
        alpha = jax.nn.softmax(attention_logits(problem.slope, in_attention, s, attention), axis=-1)
        edges = jnp.einsum("bijk,bikp->bijp", alpha, s)
    edges = edges @ value + value_offset
    added = receive[:, None] + send[:, :, None]
    if attention is None:
        inner = edges + added
    else:
        inner = rounded_on_the_way_back(product(jax.nn.relu(edges), products[0]) + added)
    inner = rounded_on_the_way_back(product(jax.nn.relu(inner), products[-2]) + biases[0])
    operands = jax.nn.relu(inner)
    sent = product(operands, products[-1]) + biases[1]
    if mask is not None:
        sent = jnp.where(mask[..., None] != 0, sent, NO_MESSAGE)
    received = jnp.take_along_axis(sent, senders[:, None], axis=1)[:, 0]

    before = [term + product_of_message(received, matrix) for term, matrix in zip(from_nodes, on_message, strict=True)]
    missed = (sent.max(1) - received) / nearly_equal(operands, products[-1])
    return updated(before[0], before[-1], hidden, gate, vectors), jax.lax.stop_gradient(missed)


def nearly_equal(operands: Array, weights: Array) -> Array:
    """By how much two messages may differ that one operand, rounded the other way, can decide between."""
    return OTHER_WAY * jnp.max(jnp.abs(operands).max(range(operands.ndim - 1))[:, None] * jnp.abs(weights))


def updated(before: Array, before_gate: Array, hidden: Array, gate: Array | None, vectors: Array) -> Array:
    """The next hidden state, from what is rectified for the update and, if there is one, for the gate."""
    update = jax.nn.relu(before)
    centred = update - update.mean(-1, keepdims=True)
    update = centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5) * vectors[0] + vectors[1]
    if gate is None:
        return update
    gate_bias = vectors[2]
    openness = jax.nn.sigmoid(rounded_on_the_way_back(product(jax.nn.relu(before_gate), gate) + gate_bias))
    return openness * update + (1 - openness) * hidden


def _half(x: Array) -> Array:
    return x.astype(jnp.float16).astype(jnp.float32)


def _eleven_bits(x: Array) -> Array:
    """Half precision after a scaling that leaves no number too large or too small."""
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=10)


def _vectors_of_pairs(nodes: Any, s: Array, directions: Array) -> tuple[Array, Array, Array]:
    """What a triplet's vector is a sum of, in half precision: its pairs ij (with both nodes), ik (with k) and jk."""
    ij, ik, jk = (s @ e for e in _half(directions))
    of_i, of_j, of_k = nodes[0][:, :, None], nodes[1][:, None], nodes[2][:, None]
    return _half(ij + of_i + of_j)[:, :, :, None], _half(ik + of_k)[:, :, None], _half(jk)[:, None]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def attention_logits(slope: float, nodes: Any, s: Array, attention: Attention) -> Array:
    """The logits of the attention, with sums in half precision."""
    ij, ik, jk = _vectors_of_pairs(nodes, s, attention.triplet)
    t = _half(_half(ik + ij) + jk)
    pair_ik, pair_jk = s @ attention.triplet[1], s @ attention.triplet[2]
    linear = (nodes[2][:, None] + pair_ik)[:, :, None] + pair_jk[:, None]  # the rest of t cancels in the softmax
    return ((1 - slope) * jax.nn.relu(t) + slope * linear) @ attention.weights


def _sum_in_groups(gradients: Array, linear: Array, axis: int, size: int) -> Array:
    """Sums over groups of `size` nodes, one after the other in half precision; each starts with its linear part."""
    total = jnp.zeros_like(jnp.take(gradients, 0, axis))
    for first in range(0, gradients.shape[axis], size):
        group = range(first, min(first + size, gradients.shape[axis]))
        of_group = _eleven_bits(sum(jnp.take(linear, node, axis) for node in group) + jnp.zeros_like(total))
        for node in group:
            of_group = _eleven_bits(of_group + jnp.take(gradients, node, axis))
        total += of_group
    return total


def _pull_back_logits(slope: float, saved: Any, d: Array) -> Any:
    """As the kernel does it: sums over one node of a triplet of the gradient where t > 0, and of the linear part."""
    nodes, s, attention = saved
    ij, ik, jk = _vectors_of_pairs(nodes, s, attention.triplet)
    gradients = jnp.where(_half(ik + jk) > -ij, _eleven_bits(d)[..., None], 0.0)
    linear = (slope / (1 - slope) * d)[..., None]
    over_k = gradients.sum(3)  # of which the linear part is zero
    over_j = _sum_in_groups(gradients, linear, 2, 8 if s.shape[-1] > 8 else 16)  # sixteen in a step over latents
    over_i = _sum_in_groups(gradients, linear, 1, 4)
    a = (1 - slope) * attention.weights
    to_nodes = [_eleven_bits(over_k).sum(2) * a, over_k.sum(1) * a, over_j.sum(1) * a]
    sums = jnp.stack([_eleven_bits(over_k), over_j, over_i])
    to_scalars = (1 - slope) * jnp.einsum("xbmnh,xph->bmnp", sums, _half(attention.triplet * attention.weights))
    to_directions = (1 - slope) * jnp.einsum("xbmnh,bmnp->xph", sums, _half(s))
    to_weights = jnp.einsum("xph,xph->h", to_directions, attention.triplet)
    of_nodes = sum(jnp.einsum("bnh,bnh->h", x, to) for x, to in zip(nodes, to_nodes, strict=True))
    to_weights += of_nodes / attention.weights
    return to_nodes, to_scalars, Attention(to_directions * attention.weights, to_weights)


attention_logits.defvjp(lambda slope, *arguments: (attention_logits(slope, *arguments), arguments), _pull_back_logits)


def rounded(x: Array) -> Array:
    return x.astype(jnp.bfloat16).astype(jnp.float32)


def outer(x: Array, d: Array) -> Array:
    return jnp.einsum("...h,...g->hg", x, d)


@jax.custom_vjp
def product(x: Array, weights: Array) -> Array:
    """Rounded operands, forward and backward."""
    return rounded(x) @ rounded(weights)


product.defvjp(
    lambda x, weights: (product(x, weights), (x, weights)),
    lambda saved, d: (rounded(d) @ rounded(saved[1]).T, outer(rounded(saved[0]), rounded(d))),
)


@jax.custom_vjp
def product_of_message(x: Array, weights: Array) -> Array:
    """The same, but the gradient of the weights is not the kernels' business and rounds nothing."""
    return rounded(x) @ rounded(weights)


product_of_message.defvjp(
    lambda x, weights: (product_of_message(x, weights), (x, weights)),
    lambda saved, d: (rounded(d) @ rounded(saved[1]).T, outer(saved[0], d)),
)


@jax.custom_vjp
def rounded_on_the_way_back(x: Array) -> Array:
    """Kernels hold the cotangents of these as bfloat16, and also sum them so, for biases and for what nodes add."""
    return x


rounded_on_the_way_back.defvjp(lambda x: (x, None), lambda _, d: (rounded(d),))


def difference(ours: Array, expected: Array) -> float:
    """The norm of the difference relative to that of what was expected (which is zero where a node is alone)."""
    have, want = (np.asarray(x, np.float64) for x in (ours, expected))
    assert have.shape == want.shape
    return float(np.linalg.norm(have - want) / max(np.linalg.norm(want), 0.01))


def assert_equal_to_plain(
    seeds: int,
    samples: int,
    num_nodes: int,
    num_scalars: int,
    attends: bool,
    device: Any,
    flips: int = 0,
    gated: bool = True,
    masked: bool = False,
) -> None:
    """The step and its gradients, by the kernels where JAX computes by default and by plain formulas on a device.

    Where sums are taken in another order, some rectified numbers (`flips` at most) may fall on the other side of zero.
    """
    problem, cotangent = draw(seeds, samples, num_nodes, num_scalars, attends, gated, masked)

    @jax.jit
    @jax.vmap
    def by_kernels(problem, cotangent):
        result, pull_back = jax.vjp(fused, problem)
        return result, pull_back(cotangent)[0]._replace(connected=None), chosen_senders(problem)

    @jax.jit
    @jax.vmap
    def by_formulas(problem, cotangent, senders):
        result, pull_back, missed = jax.vjp(lambda p: plain(p, senders), problem, has_aux=True)
        return result, pull_back(cotangent)[0]._replace(connected=None), missed

    with jax.default_matmul_precision("highest"):
        result, gradients, senders = by_kernels(problem, cotangent)
        expected, expected_gradients, missed = by_formulas(*jax.device_put((problem, cotangent, senders), device))
    assert float(missed.max()) < 1, (
        f"a message that counts misses the highest by {missed.max():.2f} of what rounding does"
    )
    differences = {"result": difference(result, expected)}
    paths = jax.tree_util.tree_leaves_with_path(expected_gradients)
    for (path, leaf), ours in zip(paths, jax.tree.leaves(gradients), strict=True):
        differences[jax.tree_util.keystr(path)] = difference(ours, leaf)
    # Of as many gradients of rectified numbers as the hidden states have, a flip switches one on or off.
    allowed = (ATTENTION_TOLERANCE if attends else TOLERANCE) + (2 * flips / result.size) ** 0.5
    assert max(differences.values()) < allowed, differences
