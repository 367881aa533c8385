"""The fused kernels of Linears of node features, compiled for the CPU, equal the plain formula and its gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narkit.fused.node_product import NodeWeights, node_product
from narkit.fused.weights import HIDDEN_SIZE as H

from .emulation import emulated, needs_compiler
from .plain_node_product import assert_equal_to_plain

pytestmark = needs_compiler


@pytest.mark.parametrize(
    ("samples", "num_nodes", "num_scalars", "width", "dense_widths"),
    [(2, 4, 1, 8, (8,)), (9, 16, 14, 7 * H, (4 * H,)), (3, 23, 5, 536, (536, 536))],
    ids=["few", "last columns", "two vectors"],
)
def test_equals_plain_formula(
    samples: int, num_nodes: int, num_scalars: int, width: int, dense_widths: tuple[int, ...]
) -> None:
    with emulated():
        assert_equal_to_plain(2, samples, num_nodes, num_scalars, width, dense_widths, jax.devices()[0])


def test_what_scalars_add_is_not_rounded() -> None:
    rng = np.random.default_rng(0)
    scalars, directions, offset = (
        jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((2, 5, 3), (3, 16), (16,))
    )
    hidden, weight = jnp.zeros((2, 5, H)), jnp.ones((H, 16))
    with emulated():
        have = node_product(scalars, (hidden,), NodeWeights.of(directions, offset, (weight,)))
    np.testing.assert_allclose(have, scalars @ directions + offset, rtol=1e-5, atol=1e-6)
