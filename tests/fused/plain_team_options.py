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
from narkit.models.processors.team import TEAM

from .plain_step import difference

H = 128
OF_VALUES = 2e-2  # products are rounded to bfloat16, and what adds up to logits to half precision
COSINE = 0.99  # of gradients, for which rounding decides between nearly equal messages
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
    if processor.attention.learnt_scale is not None:
        processor = eqx.tree_at(lambda p: p.attention.learnt_scale, processor, jnp.array([0.3, 0.9]))
    rng = np.random.default_rng(num_nodes)
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    bases = Bases(*(Basis(0.5 * normal(count, H), normal(H)) for count in (COUNTS[0], num_scalars, COUNTS[1])))
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
    next_hidden, latents = bound.with_latents(inputs.scalars, everywhere(inputs), inputs.hidden)
    both = [latents, bound.edge_latents(inputs.scalars, inputs.hidden)]
    return next_hidden, [narrow.wide() for narrow in both if isinstance(narrow, NarrowLatents)]


def by_formulas(inputs: Inputs) -> tuple[Array, list[Array]]:
    bound = inputs.processor.bind(inputs.bases)
    next_hidden, latents = jax.vmap(bound.with_latents)(inputs.scalars, everywhere(inputs), inputs.hidden)
    return next_hidden, [] if latents is None else [latents, latents]


def assert_equal_to_plain(options: dict[str, Any], samples: int, num_nodes: int, num_scalars: int, device: Any) -> None:
    """By the kernels where JAX computes by default, and by plain formulas on a device."""
    inputs, cotangents = draw(options, samples, num_nodes, num_scalars)

    def loss(function: Any, inputs: Inputs, cotangents: Any) -> tuple[Array, Any]:
        next_hidden, latents = function(inputs)
        of_latents = sum((jnp.sum(part * cotangents[1]) for part in latents), jnp.zeros(()))
        return jnp.sum(next_hidden * cotangents[0]) + 0.1 * of_latents, (next_hidden, latents)

    def run(function: Any) -> Any:
        parts, static = eqx.partition(inputs, eqx.is_inexact_array)
        total = lambda parts, cotangents: loss(function, eqx.combine(parts, static), cotangents)  # noqa: E731
        return jax.jit(jax.value_and_grad(total, has_aux=True)), parts

    with jax.default_matmul_precision("highest"):
        step, parts = run(by_kernels)
        (_, ours), our_gradients = step(parts, cotangents)
        plain, parts = run(by_formulas)
        (_, expected), gradients = plain(*jax.device_put((parts, cotangents), device))
    for have, want in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        assert difference(have, want) < OF_VALUES
    total = np.sqrt(sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(gradients)))
    worst = {}
    paths = jax.tree_util.tree_leaves_with_path(gradients)
    for (path, want), have in zip(paths, jax.tree.leaves(our_gradients), strict=True):
        norm = float(np.linalg.norm(want))
        if norm > 1e-3 * total:
            cosine = float(np.vdot(have, want)) / (norm * float(np.linalg.norm(have)))
            if cosine < COSINE or abs(np.linalg.norm(have) / norm - 1) > 0.1:
                worst[jax.tree_util.keystr(path)] = (cosine, float(np.linalg.norm(have)) / norm, norm / total)
    assert not worst, worst
