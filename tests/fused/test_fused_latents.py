"""Latents of edges made of any number of features: their readers, compiled for the CPU, equal plain formulas."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narkit.fused.edge_features import EdgeFeatures
from narkit.fused.narrow_latents import MOST_FEATURES, NarrowLatents

from . import plain_edge_readout
from .emulation import emulated, needs_compiler
from .plain_triplets import assert_logits_equal_to_plain

# Nodes and features. Eight of them are in the tests of triplets and of readouts, too.
CASES = [(4, 44), (7, 3), (13, 14)]
SLOW = [(4, 3), (4, 26), (7, 1), (7, 44), (13, 26), (13, 48), (16, 3), (16, 8), (16, 14), (16, 44), (33, 14), (33, 44)]
with_cases = pytest.mark.parametrize(
    ("num_nodes", "num_features"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
)


@needs_compiler
@with_cases
def test_pointers_equal_plain_formula(num_nodes: int, num_features: int) -> None:
    with emulated():
        assert_logits_equal_to_plain(2, 2, num_nodes, 3, jax.devices()[0], num_features=num_features)


@needs_compiler
@with_cases
def test_hints_of_edges_equal_plain_formula(num_nodes: int, num_features: int) -> None:
    with emulated():
        plain_edge_readout.assert_equal_to_plain(2, 2, num_nodes, 2, jax.devices()[0], num_features)


@pytest.mark.parametrize("num_features", [0, 1, 8, 9, 44, MOST_FEATURES, MOST_FEATURES + 1])
def test_wide_latents(num_features: int) -> None:
    """Values and gradients; beyond what kernels hold, readers get nothing but the wide ones."""
    rng = np.random.default_rng(0)
    shapes = [(2, 3, 3, num_features), (num_features, 5), (5,)]
    arrays = [jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes]
    cotangent = jnp.asarray(rng.normal(size=(2, 3, 3, 5)), jnp.float32)
    found, pull_back = jax.vjp(lambda *arrays: NarrowLatents(*arrays).wide(), *arrays)
    wanted, plain_pull_back = jax.vjp(lambda m, out, bias: jax.nn.relu(m @ out + bias), *arrays)
    for ours, theirs in zip((found, *pull_back(cotangent)), (wanted, *plain_pull_back(cotangent)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    edges = EdgeFeatures.of(jnp.zeros((2, 3, 3, 1)), NarrowLatents(*arrays))
    assert (edges.narrow_latents is not None) == (1 <= num_features <= MOST_FEATURES)
