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

from collections.abc import Iterable, Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from narkit.models.layers import Linear


class Basis(eqx.Module):
    """The parameters of factored features: one direction per scalar, and an offset."""

    directions: Float[Array, "scalar hidden"]
    offset: Float[Array, " hidden"]

    def __call__(self, scalars: Float[Array, "*axes scalar"]) -> Float[Array, "*axes hidden"]:
        """Returns the features themselves."""
        return scalars @ self.directions + self.offset

    def through(self, linear: Linear) -> Basis:
        """Returns the basis of a Linear of these features."""
        joint = self.rows @ linear.weight
        return Basis(joint[:-1], joint[-1] + linear.bias)

    @property
    def rows(self) -> Float[Array, "scalar_and_one hidden"]:
        """The directions and the offset in one array: two products would be two more backward, and those with a single
        row are slow on a GPU."""
        return jnp.concatenate([self.directions, self.offset[None]])


class Bases(eqx.Module):
    """The bases of the features of nodes, edges and the graph."""

    node: Basis
    edge: Basis
    graph: Basis


class Scalars(eqx.Module):
    """The part of factored features that varies from step to step: the scalars of nodes, edges and the graph.

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
    """Returns the basis of a sum of encodings: the encoders' weights are the directions, their biases add up."""
    linears = list(linears)
    if not linears:
        return Basis(jnp.zeros((0, hidden_size)), jnp.zeros((hidden_size,)))
    directions = jnp.concatenate([linear.weight for linear in linears])
    return Basis(directions, sum((linear.bias for linear in linears[1:]), linears[0].bias))
