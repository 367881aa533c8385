"""The fused kernels of a step over latents, compiled for the CPU, equal plain formulas: values and gradients."""

from __future__ import annotations

import jax
import pytest

from .emulation import emulated, needs_compiler
from .plain_latent_step import Case, assert_equal_to_plain

pytestmark = needs_compiler

CASES = [Case(4, 2), Case(7, 6, scale=0.7), Case(13, 2, values_of_jk=False), Case(20, 12)]
# The second reading of TEAM.
CASES += [Case(7, 2, values_of_jk=False, maxima=False, gated=False, norm=True)]
# Networks that read edge pointers whole: further logits, and gradients of the attention's weights.
CASES += [Case(7, 3, scale=0.7, added=True)]
SLOW = [
    Case(2, 1), Case(4, 12), Case(7, 2, residual=False), Case(13, 12), Case(16, 6), Case(16, 3, maxima=False),
    Case(16, 8), Case(20, 10), Case(13, 4, gated=False), Case(16, 6, norm=True), Case(20, 2, gated=False, norm=True),
    Case(4, 2, norm=True), Case(20, 2), Case(33, 6, scale=1.3),
    Case(11, 1, values_of_jk=False, residual=False, maxima=False), Case(2, 2, added=True),
    # As many scalars as these have.
    Case(4, 32, added=True), Case(11, 34, added=True), Case(16, 26, added=True), Case(13, 46, added=True),
    Case(20, 6, values_of_jk=False, maxima=False, added=True), Case(33, 10, added=True),
]  # fmt: skip


@pytest.mark.parametrize("case", [*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW)], ids=str)
def test_step_equals_plain_formulas(case: Case) -> None:
    with emulated():
        assert_equal_to_plain(2, 1 if case.num_nodes > 8 else 2, case, jax.devices()[0])
