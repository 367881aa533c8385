"""The fused kernels of hints, compiled for the CPU, equal the plain formulas: values and gradients."""

import jax
import pytest

from .emulation import emulated, needs_compiler
from .plain_readout import assert_equal_to_plain

pytestmark = needs_compiler


@pytest.mark.parametrize("num_nodes", [1, 7, 40])
def test_equals_plain_formula(num_nodes: int) -> None:
    with emulated():
        assert_equal_to_plain(2, 2, num_nodes, jax.devices()[0])
