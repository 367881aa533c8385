"""A step over latents of edges written plainly, which rounds where the fused kernels do (see `plain_step`)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit.fused import latent_features, messages
from narkit.fused.latent_features import FeatureWeights, Made, Options
from narkit.fused.latent_step import StepOptions, StepWeights, latent_step
from narkit.fused.messages import Attention, MessageWeights
from narkit.fused.update import UpdateWeights
from narkit.fused.weights import HIDDEN_SIZE as H

from .plain_step import (
    ATTENTION_TOLERANCE,
    SLOPE,
    attention_logits,
    difference,
    nearly_equal,
    outer,
    product,
    product_of_message,
    rounded,
    rounded_on_the_way_back,
    updated,
)

NUM_MAXIMA = 8


class Problem(NamedTuple):
    """The arguments of a step. All arrays of several seeds have a leading axis."""

    terms: Array
    scalars: Array
    hidden: Array
    features: FeatureWeights
    message: tuple[Any, ...]  # arguments of `MessageWeights.of`
    update: tuple[Any, ...]  # arguments of `UpdateWeights.of`
    added: Array | None  # to logits


class Case(NamedTuple):
    """Sizes and options."""

    num_nodes: int
    num_scalars: int
    values_of_jk: bool = True
    residual: bool = True
    maxima: bool = True
    scale: float = 1.0
    gated: bool = True
    norm: bool = False
    added: bool = False  # whether logits get more, and others read the attention's weights

    @property
    def options(self) -> StepOptions:
        return StepOptions(Options(SLOPE, self.scale, self.values_of_jk, self.residual), self.norm)

    @property
    def num_features(self) -> int:
        return (1 + self.values_of_jk + self.residual) * self.num_scalars + NUM_MAXIMA * self.maxima


def draw(seeds: int, samples: int, case: Case) -> tuple[Problem, Any]:
    """Random arguments, and a cotangent of the results."""
    n, num_scalars = case.num_nodes, case.num_scalars
    rng = np.random.default_rng(1000 * n + num_scalars)

    def normal(*shape: int, scale: float = 1.0) -> Array:
        return jnp.asarray(scale * rng.normal(size=(seeds, *shape)), jnp.float32)

    square = partial(normal, H, H, scale=H**-0.5)
    attention = Attention(normal(3, num_scalars, H, scale=0.5), normal(H, scale=3 * H**-0.5))
    maxima = normal(3, num_scalars, NUM_MAXIMA) if case.maxima else None
    value = normal(case.num_features, H, scale=case.num_features**-0.5)
    problem = Problem(
        terms=normal(samples, n, (6 + case.gated) * H + 3 * NUM_MAXIMA * case.maxima),
        scalars=normal(samples, n, n, num_scalars),
        hidden=normal(samples, n, H),
        features=FeatureWeights(attention, maxima),
        message=(None, value, normal(H), jnp.stack([square() for _ in range(3)], axis=1), normal(2, H)),
        update=(
            jnp.stack([square(), square()][: 1 + case.gated], axis=1), square() if case.gated else None,
            normal(2 + case.gated, H),
        ),
        added=normal(samples, n, n, n) if case.added else None,
    )  # fmt: skip
    d_made = Made(normal(samples, n, n, case.num_features), normal(samples, n, n, n, scale=3.0) if case.added else None)
    return problem, (normal(samples, n, H), d_made)


def fused(case: Case, problem: Problem) -> tuple[Array, Made]:
    """The next hidden state, and what is made of triplets, of one seed by the kernels."""
    weights = StepWeights(
        problem.features, MessageWeights.of(*problem.message), UpdateWeights.of(*problem.update)
    )  # fmt: skip
    return latent_step(problem.terms, problem.scalars, problem.hidden, weights, case.options, problem.added)


def chosen_senders(case: Case, problem: Problem) -> Array:
    """Whose message the kernels found to be the highest, for every receiver and feature."""
    given = (problem.terms, problem.scalars, problem.features, case.options.features, problem.added)
    features = latent_features.forward(*given).features
    weights = MessageWeights.of(*problem.message)
    return messages.forward_saving(problem.terms, features, weights, case.options.messages).best


def plain_features(case: Case, terms: Array, s: Array, weights: FeatureWeights, added: Array | None) -> Made:
    """`[sum_k alpha_ijk s_ik || sum_k alpha_ijk s_jk || s_ij || max_k m_ijk]`, and alpha if something is added."""
    nodes = jnp.split(terms[..., : 3 * H], 3, axis=-1)
    logits: Any = attention_logits(SLOPE, nodes, s, weights.attention)
    alpha = jax.nn.softmax(case.scale * logits + (0.0 if added is None else added), axis=-1)
    parts = [jnp.einsum("bijk,bikp->bijp", alpha, s)]
    if case.values_of_jk:
        parts.append(jnp.einsum("bijk,bjkp->bijp", alpha, s))
    if case.residual:
        parts.append(s)
    if weights.maxima is not None:
        of_k, of_i, of_j = jnp.split(terms[..., -3 * NUM_MAXIMA :], 3, axis=-1)
        ki, kj, ij = (s @ directions for directions in weights.maxima)
        m = of_k[:, :, None, None] + ki[:, :, :, None] + kj[:, :, None]  # (k, i, j)
        # Not by `max`, whose gradient compares with numbers that the compiler may have rounded otherwise.
        highest = jnp.take_along_axis(m, m.argmax(1)[:, None], axis=1)[:, 0]
        parts.append(highest + of_i[:, :, None] + of_j[:, None] + ij)
    return Made(jnp.concatenate(parts, axis=-1), None if added is None else alpha)


@jax.custom_vjp
def product_of_halves(x: Array, weights: Array) -> Array:
    """A product of factors that are sums of two bfloat16 numbers each, without that of both second ones."""
    (first, second), (weight, rest) = ((rounded(factor), rounded(factor - rounded(factor))) for factor in (x, weights))
    return second @ weight + first @ rest + first @ weight


product_of_halves.defvjp(
    lambda x, weights: (product_of_halves(x, weights), (x, weights)),
    lambda saved, d: (d @ saved[1].T, outer(saved[0], d)),
)


@jax.custom_vjp
def normalised(x: Array) -> Array:
    """Rows of mean zero and variance one; the backward pass reads them rounded."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5)


def _pull_through_norm(x: Array, d: Array) -> tuple[Array]:
    spread = jax.lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5)
    y = rounded(normalised(x))
    return (spread * (d - d.mean(-1, keepdims=True) - y * jnp.mean(d * y, -1, keepdims=True)),)


normalised.defvjp(lambda x: (normalised(x), x), _pull_through_norm)


def plain(case: Case, problem: Problem, senders: Array) -> tuple[tuple[Array, Made], Array]:
    """The same by plain formulas; and how far the messages of `senders` miss the maximum (see `nearly_equal`)."""
    terms, s, hidden, features, message, (on_message, gate, vectors), added = problem
    _, value, value_offset, products, biases = message
    count = 3 + case.gated
    receive, send, *before = jnp.split(terms[..., 3 * H : (3 + count) * H], count, axis=-1)
    made = plain_features(case, terms, s, features, added)
    latents = jax.nn.relu(product_of_halves(made.features, value) + value_offset)
    if case.norm:
        latents = normalised(latents)
    inner = rounded_on_the_way_back(product(latents, products[0]) + receive[:, None] + send[:, :, None])
    inner = rounded_on_the_way_back(product(jax.nn.relu(inner), products[1]) + biases[0])
    operands = jax.nn.relu(inner)
    sent = product(operands, products[2]) + biases[1]
    received = jnp.take_along_axis(sent, senders[:, None], axis=1)[:, 0]
    before = [term + product_of_message(received, weight) for term, weight in zip(before, on_message, strict=True)]
    result = updated(before[0], before[-1], hidden, gate, vectors)
    return (result, made), jax.lax.stop_gradient((sent.max(1) - received) / nearly_equal(operands, products[2]))


def assert_equal_to_plain(seeds: int, samples: int, case: Case, device: Any, flips: int = 0) -> None:
    """The step and its gradients, by the kernels where JAX computes by default and by plain formulas on a device.

    Where sums are taken in another order, some rectified numbers (`flips` at most) may fall on the other side of zero.
    """
    problem, cotangent = draw(seeds, samples, case)

    @jax.jit
    @jax.vmap
    def by_kernels(problem, cotangent):
        results, pull_back = jax.vjp(partial(fused, case), problem)
        return results, pull_back(cotangent)[0], chosen_senders(case, problem)

    @jax.jit
    @jax.vmap
    def by_formulas(problem, cotangent, senders):
        results, pull_back, missed = jax.vjp(lambda p: plain(case, p, senders), problem, has_aux=True)
        return results, pull_back(cotangent)[0], missed

    with jax.default_matmul_precision("highest"):
        results, gradients, senders = by_kernels(problem, cotangent)
        expected, expected_gradients, missed = by_formulas(*jax.device_put((problem, cotangent, senders), device))
    assert float(missed.max()) < 1, (
        f"a message that counts misses the highest by {missed.max():.2f} of what rounding does"
    )
    ours, theirs = (results, gradients), (expected, expected_gradients)
    paths = jax.tree_util.tree_leaves_with_path(theirs)
    differences = {
        jax.tree_util.keystr(path): difference(have, want)
        for (path, want), have in zip(paths, jax.tree.leaves(ours), strict=True)
    }
    allowed = ATTENTION_TOLERANCE + (2 * flips / results[0].size) ** 0.5
    assert max(differences.values()) < allowed, differences
