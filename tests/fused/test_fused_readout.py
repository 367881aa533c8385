"""The fused kernels of hints, compiled for the CPU, equal the plain formulas: values and gradients."""

import jax
import pytest

from . import plain_edge_readout
from .emulation import emulated, needs_compiler
from .plain_readout import assert_equal_to_plain

pytestmark = needs_compiler


@pytest.mark.parametrize("num_nodes", [1, 7, 40, 60])
def test_equals_plain_formula(num_nodes: int) -> None:
    with emulated():
        assert_equal_to_plain(2, 2, num_nodes, jax.devices()[0])


@pytest.mark.parametrize(("num_nodes", "num_scalars"), [(1, 2), (7, 1), (20, 6)])
def test_of_edges_equals_plain_formula(num_nodes: int, num_scalars: int) -> None:
    with emulated():
        plain_edge_readout.assert_equal_to_plain(2, 2, num_nodes, num_scalars, jax.devices()[0])
