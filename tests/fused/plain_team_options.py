"""TEAM with options by plain formulas, and in kernels: the next hidden state, the latents and gradients compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit.fused import recognition
from narkit.fused.latent_processor import FusedLatentStep
from narkit.fused.narrow_latents import NarrowLatents
from narkit.models.features import Bases, Basis, Scalars
from narkit.models.processors import TEAM_PLUS
from narkit.models.processors.team import TEAM

from .plain_step import difference

# What TEAM+ has, and the options beside it that have kernels.
ALL: dict[str, Any] = {**TEAM_PLUS, "reads": "both"}
SECOND_READING: dict[str, Any] = {"reads": "both", "residual": True, "norm": True, "gated": False}  # of the paper
READINGS = {
    "second reading": SECOND_READING,
    "from thirds": {**SECOND_READING, "third_edges": "from"},
    "to the receiver": {**SECOND_READING, "values_of": "receiver"},
    "from thirds, to the receiver": {**SECOND_READING, "third_edges": "from", "values_of": "receiver"},
}

H = 128
OF_VALUES = 2e-2  # products are rounded to bfloat16, and what adds up to logits to half precision
# Of gradients. One rectified number in a hundred falls on the other side of zero, and some messages are nearly equal.
# Where that was measured, no gradient differed by more than 0.13 of its norm. That the kernels are given the right
# weights is compared to 2e-4 (`assert_folding_is_exact`), and that they compute what they should with formulas that
# round as they do (`plain_latent_step.py`): these bands are for what the two have in common.
OF_GRADIENTS = 0.2
LARGE = 0.05  # of the norm of all gradients together
OF_ALL = 0.02  # likewise, allowed beside `OF_GRADIENTS`: in the smallest that are compared much cancels; one that is
# missing, or has another sign, still fails
OF_FOLDING = 2e-4  # of the norm of a gradient: the same numbers in another order
COUNTS = (3, 2)  # scalars of nodes and of the graph


class Inputs(NamedTuple):
    """What a step is a function of."""

    processor: TEAM
    bases: Bases
    node: Array
    edge: Array
    graph: Array
    hidden: Array

    @property
    def scalars(self) -> Scalars:
        return Scalars.of(self.node, self.edge, self.graph)


def draw(options: dict[str, Any], samples: int, num_nodes: int, num_scalars: int) -> tuple[Inputs, Any]:
    """A processor, what it reads, and cotangents of its results."""
    processor = TEAM(H, **options, key=jax.random.key(0))
    # In a new network all third nodes count nearly the same, and gradients are mostly noise.
    processor = eqx.tree_at(lambda p: p.attention.attention, processor, replace_fn=lambda a: 10 * a)
    rng = np.random.default_rng(num_nodes)
    normal = lambda *shape, scale=1.0: jnp.asarray((scale * rng.normal(size=shape)).astype(np.float32))  # noqa: E731
    bases = Bases(*(Basis(normal(count, H, scale=0.5), normal(H)) for count in (COUNTS[0], num_scalars, COUNTS[1])))
    inputs = Inputs(
        processor,
        bases,
        node=normal(samples, num_nodes, COUNTS[0]),
        edge=normal(samples, num_nodes, num_nodes, num_scalars),
        graph=normal(samples, COUNTS[1]),
        hidden=normal(samples, num_nodes, H),
    )
    return inputs, (normal(samples, num_nodes, H), normal(samples, num_nodes, num_nodes, H))


def everywhere(inputs: Inputs) -> Array:
    """An adjacency, which TEAM does not read."""
    return jnp.ones(inputs.edge.shape[:3], bool)


def by_kernels(inputs: Inputs) -> tuple[Array, list[Array]]:
    """The next hidden state, and the latents as messages and as output decoders get them, if decoders read any."""
    bound = recognition.processor_binder(inputs.processor)(inputs.processor, inputs.bases)
    assert isinstance(bound, FusedLatentStep)
    next_hidden, latents, _ = bound.step_attending(inputs.scalars, everywhere(inputs), inputs.hidden, None)
    both = [latents, bound.attend(inputs.scalars, inputs.hidden, None)[0]]
    return next_hidden, [narrow.wide() for narrow in both if isinstance(narrow, NarrowLatents)]


def by_folded_formulas(inputs: Inputs) -> tuple[Array, list[Array]]:
    """The same from what the kernels are given, by formulas that round nothing: see `latent_step`."""
    bound = recognition.processor_binder(inputs.processor)(inputs.processor, inputs.bases)
    assert isinstance(bound, FusedLatentStep)
    nodes = bound.node_weights
    (dense,) = nodes.dense
    of_hidden = jnp.pad(inputs.hidden @ dense, ((0, 0), (0, 0), (nodes.offset.size - dense.shape[1], 0)))
    terms = inputs.scalars.rows @ nodes.directions + nodes.offset + of_hidden
    s = bound._edges(inputs.scalars)
    options, (features, message, update) = bound._options(inputs.hidden.shape[1]), bound.weights
    gated = update.gate is not None
    split = jnp.split(terms[..., : (6 + gated) * H], 6 + gated, axis=-1)
    x_i, x_j, x_k, receive, send, from_node, *from_gate = split
    ij, ik, jk = (s @ directions for directions in features.attention.triplet)
    t = (x_i[:, :, None] + x_j[:, None] + ij)[:, :, :, None] + (x_k[:, None] + ik)[:, :, None] + jk[:, None]
    logits = jnp.where(t > 0, t, options.features.slope * t) @ features.attention.weights
    alpha = jax.nn.softmax(options.features.scale * logits)
    parts = [jnp.einsum("bijk,bikp->bijp", alpha, s)]
    if options.features.values_of_jk:
        parts.append(jnp.einsum("bijk,bjkp->bijp", alpha, s))
    if options.features.residual:
        parts.append(s)
    if features.maxima is not None:
        of_k, of_i, of_j = jnp.split(terms[..., (6 + gated) * H :], 3, axis=-1)
        ki, kj, ij = (s @ directions for directions in features.maxima)
        best = jnp.max((of_k[:, :, None] + ki)[:, :, :, None] + kj[:, :, None], axis=1)
        parts.append(best + of_i[:, :, None] + of_j[:, None] + ij)
    latents = jax.nn.relu(jnp.concatenate(parts, axis=-1) @ message.value + message.value_offset)
    read = _normalised(latents) if options.norm else latents
    sent = read @ message.products[0] + receive[:, None] + send[:, :, None]
    sent = jax.nn.relu(sent) @ message.products[1] + message.biases[0]
    sent = jax.nn.relu(sent) @ message.products[2] + message.biases[1]
    received = sent.max(1)
    before = from_node + received @ update.on_message[0]
    next_hidden = _normalised(jax.nn.relu(before)) * update.vectors[0] + update.vectors[1]
    if update.gate is not None:
        opening = jax.nn.relu(from_gate[0] + received @ update.on_message[1])
        openness = jax.nn.sigmoid(opening @ update.gate + update.vectors[2])
        next_hidden = openness * next_hidden + (1 - openness) * inputs.hidden
    return next_hidden, [latents, latents] if bound.shows_latents else []


def _normalised(x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5)


def by_formulas(inputs: Inputs) -> tuple[Array, list[Array]]:
    bound = inputs.processor.bind(inputs.bases)
    next_hidden, latents = jax.vmap(bound.with_latents)(inputs.scalars, everywhere(inputs), inputs.hidden)
    return next_hidden, [] if latents is None else [latents, latents]


def _run(function: Any, inputs: Inputs, cotangents: Any, device: Any = None) -> tuple[Any, Any]:
    """The results, and the gradients of a function of them."""
    parts, static = eqx.partition(inputs, eqx.is_inexact_array)

    def loss(parts: Any, cotangents: Any) -> tuple[Array, Any]:
        next_hidden, latents = function(eqx.combine(parts, static))
        of_latents = sum((jnp.sum(part * cotangents[1]) for part in latents), jnp.zeros(()))
        return jnp.sum(next_hidden * cotangents[0]) + 0.1 * of_latents, (next_hidden, latents)

    arguments = (parts, cotangents) if device is None else jax.device_put((parts, cotangents), device)
    with jax.default_matmul_precision("highest"):
        (_, results), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(*arguments)
    return jax.tree.map(np.asarray, (results, gradients))  # so that comparing them compiles nothing


def assert_folding_is_exact(options: dict[str, Any], num_nodes: int, num_scalars: int) -> None:
    """What kernels are given says the same as the parameters of the plain processor."""
    inputs, cotangents = draw(options, 2, num_nodes, num_scalars)
    ours, expected = (_run(function, inputs, cotangents) for function in (by_folded_formulas, by_formulas))
    paths = jax.tree_util.tree_leaves_with_path(expected)
    total = np.sqrt(sum(float(np.sum(leaf**2)) for leaf in jax.tree.leaves(expected[1])))
    for (path, want), have in zip(paths, jax.tree.leaves(ours), strict=True):
        allowed = OF_FOLDING * max(float(np.linalg.norm(want)), 5e-3 * total)  # rounding, where a gradient is zero
        assert float(np.linalg.norm(have - want)) < allowed, jax.tree_util.keystr(path)


def assert_equal_to_plain(
    options: dict[str, Any], samples: int, num_nodes: int, num_scalars: int, device: Any, measured: bool = False
) -> None:
    """By the kernels where JAX computes by default, and by plain formulas on a device.

    `measured` says that the noise of these was measured, so that all gradients are compared, and more closely.
    """
    inputs, cotangents = draw(options, samples, num_nodes, num_scalars)
    ours, our_gradients = _run(by_kernels, inputs, cotangents)
    expected, gradients = _run(by_formulas, inputs, cotangents, device)
    for have, want in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        assert difference(have, want) < OF_VALUES
    total = np.sqrt(sum(float(np.sum(leaf**2)) for leaf in jax.tree.leaves(gradients)))
    paths = jax.tree_util.tree_leaves_with_path(gradients)
    compared = 0
    for (path, want), have in zip(paths, jax.tree.leaves(our_gradients), strict=True):
        norm = float(np.linalg.norm(want))
        apart = float(np.linalg.norm(have - want))
        of_leaf = apart / max(norm, 0.005 * float(total))
        assert not measured or of_leaf < OF_GRADIENTS, (jax.tree_util.keystr(path), of_leaf)
        if norm > LARGE * total:
            assert apart < OF_GRADIENTS * norm + OF_ALL * total, (jax.tree_util.keystr(path), apart / norm)
            compared += 1
    assert compared > 5
