"""The fused kernels of edge pointers, compiled for the CPU, equal the plain formula: values and gradients."""

import jax
import pytest

from .emulation import emulated, needs_compiler
from .plain_edge_pointers import assert_equal_to_plain

pytestmark = needs_compiler


@pytest.mark.parametrize(
    ("num_nodes", "num_scalars"),
    [(2, 1), (7, 0), (13, 6), (16, 3), (20, None)],
    ids=["scalars: 1", "scalars: 0", "scalars: 6", "scalars: 3", "features"],
)
def test_equals_plain_formula(num_nodes: int, num_scalars: int | None) -> None:
    with emulated():
        assert_equal_to_plain(2, 2, num_nodes, num_scalars, jax.devices()[0])


def test_equal_sides_share_the_gradient() -> None:
    with emulated():
        assert_equal_to_plain(1, 2, 5, 2, jax.devices()[0], ties=True)


@pytest.mark.slow
@pytest.mark.parametrize(("num_nodes", "num_scalars"), [(1, 1), (17, 8), (33, 2), (34, None)])
def test_equals_plain_formula_where_blocks_come_back(num_nodes: int, num_scalars: int | None) -> None:
    with emulated():
        assert_equal_to_plain(1, 1, num_nodes, num_scalars, jax.devices()[0])
