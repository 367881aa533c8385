"""Factored features beside fused kernels: products with few rows as sums, and all bases folded in one product.

A network that is bound to these bases uses them throughout, whoever binds it: a basis made of one is of its kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.narrow_product import narrow_product
from narkit.models.features import Bases, Basis
from narkit.models.layers import Linear
from narkit.models.merged_linears import ALIGNMENT


@dataclass(frozen=True, eq=False)
class SharedProduct:
    """A basis, and the function that multiplies it with a weight as a part of one product: see `bind_together`."""

    directions: Array  # of the basis
    offset: Array
    multiply: Callable[[Array], Array]


class FusedBasis(Basis):
    """A basis whose features are sums of outer products, which the compiler makes part of what reads them."""

    shared: SharedProduct | None = eqx.field(static=True, default=None)

    def __call__(self, scalars: Float[Array, "*axes scalar"]) -> Float[Array, "*axes hidden"]:
        return narrow_product(scalars, self.directions, self.offset)

    def through(self, linear: Linear) -> FusedBasis:
        shared = self.shared
        # A processor may have changed the basis that it was given, which then is multiplied on its own.
        is_shared = shared is not None and self.directions is shared.directions and self.offset is shared.offset
        joint = shared.multiply(linear.weight) if shared is not None and is_shared else self.rows @ linear.weight
        return FusedBasis(joint[:-1], joint[-1] + linear.bias)


Bound = TypeVar("Bound")


def bind_together(bind: Callable[[Bases], Bound], bases: Bases) -> Bound:
    """Returns `bind(bases)`, with a single product in place of one for every Linear that a basis goes through.

    These products are small, and on a GPU it is their number that counts, three times with those of the gradient.
    `bind` is called twice, first to see the weights; it has to ask for the same ones in the same order.
    """
    own = (bases.node, bases.edge, bases.graph)
    # Written out: else XLA would copy every encoder's weight for the product and for those who read directions.
    all_rows = jax.lax.optimization_barrier(jnp.concatenate([basis.rows for basis in own]))
    ends = list(itertools.accumulate(len(basis.directions) + 1 for basis in own))
    places = list(itertools.pairwise([0, *ends]))
    asked: list[tuple[int, Array]] = []

    def see(which: int, weight: Array) -> Array:
        asked.append((which, weight))
        start, end = places[which]
        return jnp.zeros((end - start, weight.shape[1]))

    def with_product(product: Callable[[int, Array], Array]) -> Bases:
        made = []
        rows = [all_rows[start:end] for start, end in places]
        for which, part in enumerate(rows):
            directions, offset = part[:-1], part[-1]
            shared = SharedProduct(directions, offset, lambda weight, which=which: product(which, weight))
            made.append(FusedBasis(directions, offset, shared))
        return Bases(*made)

    bind(with_product(see))
    if not asked:
        return bind(Bases(*(FusedBasis(basis.directions, basis.offset) for basis in own)))
    blocks = tuple((*places[which], weight.shape[1]) for which, weight in asked)
    folded = iter(_fold_all(all_rows, tuple(weight for _, weight in asked), blocks))
    bound = bind(with_product(lambda which, weight: next(folded)))
    is_basis = lambda node: isinstance(node, FusedBasis)  # noqa: E731
    on_its_own = lambda node: FusedBasis(node.directions, node.offset) if is_basis(node) else node  # noqa: E731
    return jax.tree.map(on_its_own, bound, is_leaf=is_basis)


Blocks = tuple[tuple[int, int, int], ...]
"""For every weight the first row and the end of the rows that it is multiplied with, and its columns."""


def _fold_primal(rows: Array, weights: tuple[Array, ...], blocks: Blocks) -> tuple[Array, ...]:
    """Returns `rows[start:end] @ weight` for all weights, as parts of one product of all rows with all weights.

    A GPU takes rows in larger tiles than there are rows, so that the other parts cost nothing.
    """
    return _parts_of(rows @ _filled_up(weights), blocks)


def _parts_of(product: Array, blocks: Blocks) -> tuple[Array, ...]:
    columns = itertools.accumulate(width for *_, width in blocks)
    parts = zip(blocks, columns, strict=True)
    return tuple(product[start:end, right - width : right] for (start, end, width), right in parts)


def _fold_forward(rows: Array, weights: tuple[Array, ...], blocks: Blocks) -> tuple[tuple[Array, ...], Any]:
    all_weights = _filled_up(weights)
    return _parts_of(rows @ all_weights, blocks), (rows, all_weights)


def _fold_backward(blocks: Blocks, saved: tuple[Array, Array], cotangents: tuple[Array, ...]) -> tuple[Any, Any]:
    rows, all_weights = saved
    # Concatenated along columns, each in the rows of its basis.
    pairs = zip(blocks, cotangents, strict=True)
    d_product = _filled_up([jnp.pad(d, ((start, len(rows) - end), (0, 0))) for (start, end, _), d in pairs])
    whole = tuple((0, rows.shape[1], width) for *_, width in blocks)
    return d_product @ all_weights.T, _parts_of(rows.T @ d_product, whole)


def _filled_up(parts: Sequence[Array]) -> Array:
    """Concatenates arrays along columns, and columns of zeros up to a multiple of `ALIGNMENT`."""
    missing = -sum(part.shape[1] for part in parts) % ALIGNMENT
    return jnp.concatenate([*parts, jnp.zeros((len(parts[0]), missing))] if missing else parts, axis=1)


_fold_all: Any = jax.custom_vjp(_fold_primal, nondiff_argnums=(2,))
_fold_all.defvjp(_fold_forward, _fold_backward)
