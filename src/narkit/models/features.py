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
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.fused.narrow_product import narrow_product
from narkit.fused.triplet_messages import NarrowLatents
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
    """What varies from step to step of factored features: the scalars of nodes, edges and the graph.

    What is no feature of edges is one array, and so one carry and one stack of a time loop.
    """

    rows: Float[Array, "*batch node scalar"]  # of a node, and behind them those of the graph, the same in every row
    edge: Float[Array, "*batch node node edge_scalar"]
    num_node_scalars: int = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        node: Float[Array, "*batch node node_scalar"],
        edge: Float[Array, "*batch node node edge_scalar"],
        graph: Float[Array, "*batch graph_scalar"],
    ) -> Scalars:
        of_graph = jnp.broadcast_to(graph[..., None, :], (*node.shape[:-1], graph.shape[-1]))
        return cls(jnp.concatenate([node, of_graph], axis=-1), edge, node.shape[-1])

    @property
    def node(self) -> Float[Array, "*batch node node_scalar"]:
        return self.rows[..., : self.num_node_scalars]

    @property
    def graph(self) -> Float[Array, "*batch graph_scalar"]:
        return jnp.squeeze(self.rows[..., :1, self.num_node_scalars :], axis=-2)


class EdgeFeatures(NamedTuple):
    """What decoders read of edges: factored features and, behind them, the latents of a processor that has any."""

    scalars: Float[Array, "batch node node scalar"]
    latents: tuple[Float[Array, "batch node node latent"], ...]
    narrow_latents: NarrowLatents | None  # the same latents as kernels read them

    @classmethod
    def of(
        cls,
        scalars: Float[Array, "batch node node scalar"],
        latents: Float[Array, "batch node node latent"] | NarrowLatents | None,
    ) -> EdgeFeatures:
        if isinstance(latents, NarrowLatents):  # wide ones are computed only where something reads them
            return cls(scalars, (latents.wide(),), latents)
        return cls(scalars, () if latents is None else (latents,), None)


class FoldedLinear(eqx.Module):
    """A Linear whose input is factored features followed by dense ones: `[x || hidden || ...]`."""

    basis: Basis
    dense_weights: tuple[Float[Array, "_ outputs"], ...]

    def __call__(
        self, scalars: Float[Array, "*axes scalar"], *dense: Float[Array, "*axes _"]
    ) -> Float[Array, "*axes outputs"]:
        result = self.basis(scalars)
        for values, weight in zip(dense, self.dense_weights, strict=True):
            result = result + values @ weight
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
        hooks = [lambda weight, which=which: product(which, weight) for which in range(len(own))]
        rows = [all_rows[start:end] for start, end in places]
        return Bases(*(Basis(part[:-1], part[-1], hook) for part, hook in zip(rows, hooks, strict=True)))

    bind(with_product(see))
    if not asked:
        return bind(bases)
    blocks = tuple((*places[which], weight.shape[1]) for which, weight in asked)
    folded = iter(_fold_all(all_rows, tuple(weight for _, weight in asked), blocks))
    bound = bind(with_product(lambda which, weight: next(folded)))
    is_basis = lambda node: isinstance(node, Basis)  # noqa: E731
    plain = lambda node: Basis(node.directions, node.offset) if is_basis(node) else node  # noqa: E731
    return jax.tree.map(plain, bound, is_leaf=is_basis)


Blocks = tuple[tuple[int, int, int], ...]
"""For every weight the first row and the end of the rows that it is multiplied with, and its columns."""


def _fold_primal(rows: Array, weights: tuple[Array, ...], blocks: Blocks) -> tuple[Array, ...]:
    """`rows[start:end] @ weight` for all weights, as parts of one product of all rows with all weights.

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
    # Side by side, each in the rows of its basis.
    pairs = zip(blocks, cotangents, strict=True)
    d_product = _filled_up([jnp.pad(d, ((start, len(rows) - end), (0, 0))) for (start, end, _), d in pairs])
    whole = tuple((0, rows.shape[1], width) for *_, width in blocks)
    return d_product @ all_weights.T, _parts_of(rows.T @ d_product, whole)


def _filled_up(parts: Sequence[Array]) -> Array:
    """Arrays side by side, and columns of zeros up to a multiple of `ALIGNMENT`."""
    missing = -sum(part.shape[1] for part in parts) % ALIGNMENT
    return jnp.concatenate([*parts, jnp.zeros((len(parts[0]), missing))] if missing else parts, axis=1)


_fold_all: Any = jax.custom_vjp(_fold_primal, nondiff_argnums=(2,))
_fold_all.defvjp(_fold_forward, _fold_backward)
