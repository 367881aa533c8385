"""The fused kernels of node pointers, compiled for the CPU, equal the plain formula: values and gradients."""

import jax
import pytest

from .emulation import emulated, needs_compiler
from .plain_pointers import assert_equal_to_plain

pytestmark = needs_compiler


@pytest.mark.parametrize(
    ("num_nodes", "num_scalars"),
    [(2, 1), (7, 0), (13, 3), (6, 9), (34, 2), (20, None)],  # of many nodes not all wait in shared memory
    ids=["scalars: 1", "scalars: 0", "scalars: 3", "scalars: 9", "many nodes", "features"],
)
def test_equals_plain_formula(num_nodes: int, num_scalars: int | None) -> None:
    with emulated():
        assert_equal_to_plain(2, 2, num_nodes, num_scalars, jax.devices()[0])
