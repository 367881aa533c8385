"""The parts of a loop over time that a package for a device may take over.

By default everything is left to the compiler (`Backend` itself): stacks over time begin as zeros, rows are copied out
of them, and a product over time is one product. A package for a device may know better: it can have operations that
read and write rows of stacks where they are, stacks that are not filled before they are written, and a faster way to
sum or multiply what a loop has stacked. It says so in a subclass, which `time_loop` is given.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax.extend.core import JaxprEqn, Var
from jaxtyping import Array, PyTree

if TYPE_CHECKING:
    from narkit.loops.deferred_products import Deferred


@dataclass(frozen=True)
class Stack:
    """A stack over time that is to be made."""

    shape: tuple[int, ...]  # of a row
    dtype: Any
    zero_beyond: bool = True  # whether anyone reads the rows that the loop does not write


class Backend:
    """Leaves everything to the compiler."""

    rows_start_as_zeros: bool = True
    """True if rows of new stacks that the loop does not write are zero even without `Stack.zero_beyond`."""

    def new_stacks(self, stacks: Sequence[Stack], num_steps: Array, capacity: int, beside: PyTree) -> list[Array]:
        """Returns arrays of `capacity` rows; `beside` is everything else that the loop reads."""
        return [jnp.zeros((capacity, *stack.shape), stack.dtype) for stack in stacks]

    def works_on_rows(self, operation: JaxprEqn) -> bool:
        """Returns whether an operation of a step is one that reads and writes rows of stacks where they are."""
        return False

    def run_on_rows(
        self, operation: JaxprEqn, operands: Sequence[Any], stacks: Mapping[int, Array], t: Any, last: Any
    ) -> list[Any]:
        """Runs such an operation: operands may be rows of stacks, and outputs with a stack are written to its row t."""
        # Never reached from `time_loop`: `works_on_rows` says no here, and who overrides it overrides this, too.
        raise NotImplementedError("only a backend that takes operations on rows is asked to run them")

    def can_finish(self, terms: Sequence[Deferred]) -> bool:
        """Returns whether `finish` can make the gradient of a weight with these terms from what a loop has stacked."""
        return False

    def finish(
        self,
        gradients: Sequence[Deferred],
        stack_of: Mapping[Var, Array],
        num_steps: Array,
        last: Array,
        by_sample: Container[Var],
    ) -> list[Array]:
        """Makes all of these terms of gradients, from the rows of the steps that were run.

        In stacks of `by_sample`, whose rows are samples, samples whose `last` step is over need not be read.
        """
        return []

    def parts_of_product(self, num_rows: int, *widths: int) -> int:
        """Returns into how many parts a product over this many rows is cut, for the device to compute in parallel."""
        return 1


PLAIN = Backend()
