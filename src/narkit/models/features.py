"""Factored features: few scalars per node, edge or graph in place of wide vectors.

Every encoder is a Linear from one scalar (or one-hot class) per element, so the features of an element are a sum of
few directions, each scaled by one scalar:

    e_ij = sum_p s_ij,p * direction_p + offset

A Linear of factored features is factored features again, with the same scalars: `directions @ W` and
`offset @ W + b`. These products involve parameters only. They are taken once, before the time loop, and inside it
there are only products with as many columns as there are scalars (0 to 13), not with the hidden size.

So a network is used in two phases: `bind` folds the bases through its Linears, and the bound network maps scalars
and hidden states to predictions at every step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.kernels.narrow_product import narrow_product
from narkit.models.layers import Linear

ALIGNMENT = 8
"""Products with so many columns, or a multiple, take a GPU's library half the time of those with one more."""


class Basis(eqx.Module):
    """The parameters of factored features: one direction per scalar, and an offset."""

    directions: Float[Array, "scalar hidden"]
    offset: Float[Array, " hidden"]
    # How directions and offset are multiplied with a weight, if not on their own: see `bind_together`.
    multiply: Callable[[Array], Array] | None = eqx.field(static=True, default=None)

    def __call__(self, scalars: Float[Array, "*axes scalar"]) -> Float[Array, "*axes hidden"]:
        """The features themselves."""
        return narrow_product(scalars, self.directions, self.offset)

    def through(self, linear: Linear) -> Basis:
        """The basis of a Linear of these features."""
        joint = self.rows @ linear.weight if self.multiply is None else self.multiply(linear.weight)
        return Basis(joint[:-1], joint[-1] + linear.bias)

    @property
    def rows(self) -> Float[Array, "scalar_and_one hidden"]:
        """Directions and offset in one array: two products would be two more backward, and those with a single row
        are slow on a GPU."""
        return jnp.concatenate([self.directions, self.offset[None]])


class Bases(eqx.Module):
    """The bases of the features of nodes, edges and the graph."""

    node: Basis
    edge: Basis
    graph: Basis


class Scalars(eqx.Module):
    """What varies from step to step of factored features: the scalars of nodes, edges and the graph."""

    node: Float[Array, "*batch node node_scalar"]
    edge: Float[Array, "*batch node node edge_scalar"]
    graph: Float[Array, "*batch graph_scalar"]


class FoldedLinear(eqx.Module):
    """A Linear whose input is factored features followed by dense ones: `[x || hidden || ...]`."""

    basis: Basis
    dense_weights: tuple[Float[Array, "_ outputs"], ...]

    def __call__(
        self,
        scalars: Float[Array, "*axes scalar"],
        *dense: Float[Array, "*axes _"],
        product: Float[Array, "*axes outputs"] | None = None,
    ) -> Float[Array, "*axes outputs"]:
        """The outputs. `product` is that of the first dense input, where it is known already."""
        result = self.basis(scalars)
        for values, weight in zip(dense, self.dense_weights, strict=True):
            result = result + (values @ weight if product is None else product)
            product = None
        return result


def fold(linear: Linear, basis: Basis, dense_sizes: Sequence[int] = ()) -> FoldedLinear:
    """Folds a basis through the first rows of a Linear; the others go with dense inputs of the given sizes."""
    width = basis.offset.shape[0]
    weight, blocks = linear.weight[:width], []
    start = width
    for size in dense_sizes:
        blocks.append(linear.weight[start : start + size])
        start += size
    if start != linear.weight.shape[0]:
        raise ValueError(
            f"a Linear of {linear.weight.shape[0]} inputs cannot read {width} factored and {dense_sizes} dense"
        )
    through = basis.through(eqx.tree_at(lambda layer: layer.weight, linear, weight))
    return FoldedLinear(through, tuple(blocks))


def join(linears: Iterable[Linear], hidden_size: int) -> Basis:
    """The basis of a sum of encodings: the encoders' weights are the directions, their biases add up."""
    linears = list(linears)
    if not linears:
        return Basis(jnp.zeros((0, hidden_size)), jnp.zeros((hidden_size,)))
    directions = jnp.concatenate([linear.weight for linear in linears])
    return Basis(directions, sum((linear.bias for linear in linears[1:]), linears[0].bias))


Bound = TypeVar("Bound")


def bind_together(bind: Callable[[Bases], Bound], bases: Bases) -> Bound:
    """`bind(bases)`, with a single product in place of one for every Linear that a basis goes through.

    These products are small, and on a GPU it is their number that counts, three times with those of the gradient.
    `bind` is called twice, first to see the weights; it has to ask for the same ones in the same order.
    """
    own = (bases.node, bases.edge, bases.graph)
    asked: list[tuple[int, Array]] = []

    def see(which: int, weight: Array) -> Array:
        asked.append((which, weight))
        return jnp.zeros((len(own[which].rows), weight.shape[1]))

    def with_product(product: Callable[[int, Array], Array]) -> Bases:
        hooks = [lambda weight, which=which: product(which, weight) for which in range(len(own))]
        pairs = zip(own, hooks, strict=True)
        return Bases(*(Basis(basis.directions, basis.offset, hook) for basis, hook in pairs))

    bind(with_product(see))
    if not asked:
        return bind(bases)
    owners = tuple(which for which, _ in asked)
    folded = iter(_fold_all(tuple(basis.rows for basis in own), tuple(weight for _, weight in asked), owners))
    bound = bind(with_product(lambda which, weight: next(folded)))
    is_basis = lambda node: isinstance(node, Basis)  # noqa: E731
    plain = lambda node: Basis(node.directions, node.offset) if is_basis(node) else node  # noqa: E731
    return jax.tree.map(plain, bound, is_leaf=is_basis)


def _fold_primal(
    rows: tuple[Array, ...], weights: tuple[Array, ...], owners: tuple[int, ...]
) -> tuple[tuple[Array, ...], tuple[Array, Array]]:
    """`rows[owner] @ weight` for all weights, as parts of one product of all rows with all weights.

    A GPU takes rows in larger tiles than there are rows, so that the other parts cost nothing.
    """
    all_rows, all_weights = jnp.concatenate(rows), _filled_up(weights)
    product = all_rows @ all_weights
    starts = [0, *itertools.accumulate(map(len, rows))]
    ends = list(itertools.accumulate(weight.shape[1] for weight in weights))
    parts = tuple(
        product[starts[owner] : starts[owner + 1], end - weight.shape[1] : end]
        for owner, weight, end in zip(owners, weights, ends, strict=True)
    )
    return parts, (all_rows, all_weights)


def _filled_up(parts: Sequence[Array]) -> Array:
    """Arrays side by side, and columns of zeros up to a multiple of `ALIGNMENT`."""
    missing = -sum(part.shape[1] for part in parts) % ALIGNMENT
    return jnp.concatenate([*parts, jnp.zeros((len(parts[0]), missing))] if missing else parts, axis=1)


def _fold_backward(owners: tuple[int, ...], saved: Any, cotangents: tuple[Array, ...]) -> tuple[Any, Any]:
    sizes, (all_rows, all_weights) = saved
    starts = [0, *itertools.accumulate(sizes)]
    # Side by side, each in the rows of its basis.
    d_product = _filled_up(
        [
            jnp.pad(d, ((starts[owner], starts[-1] - starts[owner + 1]), (0, 0)))
            for owner, d in zip(owners, cotangents, strict=True)
        ]
    )
    d_rows, d_weights = d_product @ all_weights.T, all_rows.T @ d_product
    ends = itertools.accumulate(d.shape[1] for d in cotangents)
    return (
        tuple(d_rows[start:end] for start, end in itertools.pairwise(starts)),
        tuple(d_weights[:, end - d.shape[1] : end] for d, end in zip(cotangents, ends, strict=True)),
    )


_fold_all: Any = jax.custom_vjp(lambda *arguments: _fold_primal(*arguments)[0], nondiff_argnums=(2,))


def _fold_forward(rows, weights, owners):
    parts, saved = _fold_primal(rows, weights, owners)
    return parts, (tuple(map(len, rows)), saved)


_fold_all.defvjp(_fold_forward, _fold_backward)
