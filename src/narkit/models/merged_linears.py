"""Linears that read the same input, merged into one product.

Every probe has Linears of its own, most of them narrow. On a GPU a product costs about the same whether it has one
column or a hundred, so those that read the same are concatenated before the time loop, and taken apart by columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.models.features import Basis, FoldedLinear, fold
from narkit.models.layers import Linear, concatenated

ALIGNMENT = 8
"""Products with a multiple of this many columns take a GPU's library half the time of those with one more."""


class MergedLinears(eqx.Module):
    """Several Linears of the same factored and dense input as one product. Made by `merge`."""

    merged: FoldedLinear | None  # None if there are no Linears
    widths: tuple[int, ...] = eqx.field(static=True)
    starts: tuple[int, ...] = eqx.field(static=True)  # where the outputs of each begin

    def __call__(self, scalars: Float[Array, "*axes scalar"], *dense: Array) -> Float[Array, "*axes width"]:
        """Returns the outputs of all, concatenated, with the columns that fill up."""
        if self.merged is None:
            return jnp.zeros((*scalars.shape[:-1], 0))
        return self.merged(scalars, *dense)

    def split(self, outputs: Float[Array, "*axes width"]) -> list[Array]:
        """Returns the outputs one by one."""
        # Slices, not `jnp.split`: a time loop takes them after it ends.
        return [outputs[..., start : start + width] for start, width in zip(self.starts, self.widths, strict=True)]


def merge(
    linears: Sequence[Linear],
    basis: Basis,
    dense_sizes: Sequence[int] = (),
    *,
    multiple_of: int = 1,
    groups: Sequence[int] | None = None,
) -> MergedLinears:
    """Merges Linears, and fills the columns up with zeros to a multiple of `multiple_of`.

    `groups` gives a number for every Linear: the outputs of those with the lowest come first, then the next.
    """
    if not linears:
        return MergedLinears(None, (), ())
    widths = tuple(linear.bias.shape[0] for linear in linears)
    order = sorted(range(len(linears)), key=(lambda i: groups[i]) if groups else None)
    after = itertools.accumulate(widths[i] for i in order)
    starts = {i: end - widths[i] for i, end in zip(order, after, strict=True)}
    merged = concatenated([linears[i] for i in order])
    if missing := -sum(widths) % multiple_of:
        fill = (jnp.pad(merged.weight, ((0, 0), (0, missing))), jnp.pad(merged.bias, (0, missing)))
        merged = eqx.tree_at(lambda linear: (linear.weight, linear.bias), merged, fill)
    in_order = tuple(starts[i] for i in range(len(linears)))
    return MergedLinears(fold(merged, basis, dense_sizes), widths, in_order)
