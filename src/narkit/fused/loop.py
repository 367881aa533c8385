"""How loops over time run beside fused kernels: kernels read and write rows of stacks where they are."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

from jax.extend.core import JaxprEqn, Var
from jaxtyping import Array, PyTree

from narkit.fused import finishing, launch
from narkit.fused.stack_allocation import allocate_stacks
from narkit.loops.backend import Backend, Stack
from narkit.loops.deferred_products import Deferred

TILES_PER_PRODUCT = 32
"""Tiles of 128 x 128, times parts of the sum, that a product over time is cut into (per seed)."""

SHORTEST_PART = 256  # rows


class FusedLoop(Backend):
    """Leaves stacks unfilled until they are written, and finishes the gradients of weights in a few launches."""

    rows_start_as_zeros = False

    def new_stacks(self, stacks: Sequence[Stack], num_steps: Array, capacity: int, beside: PyTree) -> list[Array]:
        return allocate_stacks(stacks, num_steps, capacity, beside)

    def works_on_rows(self, operation: JaxprEqn) -> bool:
        return operation.primitive is launch.primitive

    def run_on_rows(
        self, operation: JaxprEqn, operands: Sequence[Any], stacks: Mapping[int, Array], t: Any, last: Any
    ) -> list[Any]:
        params: Any = operation.params
        return launch.run_on_rows(operands, stacks, t, last, **params)

    def can_finish(self, terms: Sequence[Deferred]) -> bool:
        return all(finishing.fits(term) for term in terms)

    def finish(
        self,
        gradients: Sequence[Deferred],
        stack_of: Mapping[Var, Array],
        num_steps: Array,
        last: Array,
        by_sample: Container[Var],
    ) -> list[Array]:
        return finishing.finish(gradients, stack_of, num_steps, last, by_sample)

    def parts_of_product(self, num_rows: int, *widths: int) -> int:
        """Returns more than one part if the result is small: a core for each of its tiles would leave others idle."""
        tiles = math.prod(-(-width // 128) for width in widths)
        most = min(TILES_PER_PRODUCT // max(1, tiles), num_rows // SHORTEST_PART)
        # Parts of other lengths than a multiple of eight rows would be copied, to fill them up.
        return max((parts for parts in range(1, most + 1) if num_rows % (8 * parts) == 0), default=1)


FUSED_LOOP = FusedLoop()
