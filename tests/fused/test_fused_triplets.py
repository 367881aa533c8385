"""The fused kernels of Triplet-GMPNN's triplets, compiled for the CPU, equal plain formulas: values and gradients."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest

import narkit
from narkit.fused import accelerate
from narkit.fused.narrow_latents import NarrowLatents
from narkit.models.features import Scalars

from .emulation import emulated, needs_compiler
from .plain_triplets import assert_logits_equal_to_plain, assert_maxima_equal_to_plain
from .test_fused import loop_bodies, name_of, network_and_loss

pytestmark = needs_compiler

# Nodes and scalars per edge: tiles of all shapes, full ones and others, and several tiles.
CASES = [(2, 1), (7, 0), (13, 3), (20, 2)]
SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in [(1, 2), (4, 5), (8, 13), (16, 3), (33, 1)]]


@pytest.mark.parametrize(("num_nodes", "num_scalars"), [*CASES, *SLOW])
def test_maxima_equal_plain_formula(num_nodes: int, num_scalars: int) -> None:
    with emulated():
        assert_maxima_equal_to_plain(2, 2, num_nodes, num_scalars, jax.devices()[0])


@pytest.mark.parametrize(("num_nodes", "num_scalars"), [*CASES, *SLOW])
def test_pointers_equal_plain_formula(num_nodes: int, num_scalars: int) -> None:
    with emulated():
        assert_logits_equal_to_plain(2, 2, num_nodes, num_scalars, jax.devices()[0])


def test_latents_of_a_processor_equal_plain_ones() -> None:
    """As decoders without a kernel read them, on edges or on pointers of edges."""
    reasoner = narkit.Reasoner("floyd_warshall", "triplet_gmpnn", key=jax.random.key(0))
    keys = iter(jax.random.split(jax.random.key(1), 4))
    plain: Any = reasoner.bind("floyd_warshall").processor
    node, edge, graph = (plain.triplets.nodes.basis, plain.triplets.edges, plain.triplets.graph)
    scalars = Scalars.of(
        jax.random.normal(next(keys), (2, 5, node.directions.shape[0])),
        jax.random.normal(next(keys), (2, 5, 5, edge.directions.shape[0])),
        jax.random.normal(next(keys), (2, graph.directions.shape[0])),
    )
    hidden = jax.random.normal(next(keys), (2, 5, 128))

    @jax.jit
    def wide(scalars: Scalars, hidden: jax.Array) -> jax.Array:
        bound: Any = accelerate(reasoner).form(reasoner, "floyd_warshall")
        latents = bound.processor.attend(scalars, hidden, None)[0]
        assert isinstance(latents, NarrowLatents)
        return latents.wide()

    with emulated():
        ours = wide(scalars, hidden)
    np.testing.assert_allclose(ours, jax.vmap(plain.edge_latents)(scalars, hidden), rtol=1e-5, atol=1e-5)


def test_kernels_run_once_per_step_and_direction() -> None:
    """The time loop keeps the maxima; no product over all edges is left in it, nor an array of their wide latents."""
    reasoner, loss = network_and_loss("bfs", "triplet_gmpnn")
    with emulated():
        program = jax.make_jaxpr(jax.grad(loss))(reasoner)
    forward, backward = (
        Counter(name_of(eqn.params["kernel"]) for eqn in body if eqn.primitive.name == "fused_kernel")
        for body in loop_bodies(program.jaxpr)
        if any(eqn.primitive.name == "fused_kernel" for eqn in body)
    )
    parts = ["messages", "triplets"]
    both = ["node_product", "node_product", "update", "latent_pointer", "readout"]  # of terms, and of decoders
    assert forward == Counter([f"{part}_forward_saving" for part in parts] + [f"{part}_forward" for part in both])
    assert backward == Counter(f"{part}_backward" for part in (*parts, *both))
