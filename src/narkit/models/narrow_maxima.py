"""Narrow maxima over third nodes, beside an attention: a maximum is as sharp over 64 nodes as over 16."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from narkit.models import triplets
from narkit.models.features import Bases, Basis, FoldedLinear
from narkit.models.layers import Linear, concatenated, split_outputs

NodeMap = Basis | FoldedLinear
"""A Linear of node features, bound to its inputs: scalars, or scalars and hidden states."""


class NarrowMaxima(eqx.Module):
    """A few features m of an edge from its best third node:

    m_ijk = N1 z_i + N2 z_j + N3 z_k + F1 e_ij + F2 e_ik + F3 e_jk + G g     (`width` features)
    result_ij = O max over k of m_ijk

    z are node features of `node_size`. With `both_directions` e_ij stands for e_ij and e_ji, and so on.
    """

    nodes: tuple[Linear, Linear, Linear]
    edges: tuple[tuple[Linear, ...], ...]  # for ij, ik and jk: of the edge, and of its reverse if that is read
    graph: Linear
    out: Linear

    def __init__(self, hidden_size: int, node_size: int, width: int, both_directions: bool, *, key: PRNGKeyArray):
        keys = iter(jax.random.split(key, 11))
        node_i, node_j, node_k = (Linear(node_size, width, key=next(keys)) for _ in range(3))
        self.nodes = (node_i, node_j, node_k)
        num_directions = 2 if both_directions else 1
        self.edges = tuple(
            tuple(Linear(hidden_size, width, key=next(keys)) for _ in range(num_directions)) for _ in range(3)
        )
        self.graph = Linear(hidden_size, width, key=next(keys))
        self.out = Linear(width, hidden_size, key=next(keys))

    def __call__(
        self,
        nodes: Float[Array, "node node_size"],
        edges: Float[Array, "node node hidden"],
        graph: Float[Array, " hidden"],
    ) -> Float[Array, "node node hidden"]:
        """Returns the result for dense features."""
        of_nodes = (linear(nodes) for linear in self.nodes)
        of_edges = (in_directions(linears, edges) for linears in self.edges)
        return _maxima(*of_nodes, *of_edges, self.graph(graph), self.out)  # type: ignore[call-arg]

    def bind(self, bases: Bases, bind_nodes: Callable[[Linear], NodeMap]) -> BoundNarrowMaxima:
        """Returns the layer for factored features; `bind_nodes` maps a Linear of z to a map of the inputs of nodes."""
        return BoundNarrowMaxima(
            nodes=bind_nodes(concatenated(self.nodes)),
            edges=tuple(tuple(bases.edge.through(linear) for linear in linears) for linears in self.edges),
            graph=bases.graph.through(self.graph),
            out=self.out,
        )


class BoundNarrowMaxima(eqx.Module):
    """Narrow maxima that read scalars. Made by `NarrowMaxima.bind`."""

    nodes: NodeMap
    edges: tuple[tuple[Basis, ...], ...]
    graph: Basis
    out: Linear

    def __call__(
        self,
        nodes: tuple[Array, ...],  # what `self.nodes` takes
        edges: Float[Array, "node node scalar"],
        graph: Float[Array, " graph_scalar"],
    ) -> Float[Array, "node node hidden"]:
        width = self.out.weight.shape[0]
        of_nodes = split_outputs(self.nodes(*nodes), [width] * 3)
        of_edges = (in_directions(bases, edges) for bases in self.edges)
        return _maxima(*of_nodes, *of_edges, self.graph(graph), self.out)  # type: ignore[call-arg]


def _maxima(node_i, node_j, node_k, edge_ij, edge_ik, edge_jk, graph, out: Linear) -> Float[Array, "node node hidden"]:
    # Only terms with k take part in the maximum, which `triplet_max` takes over the first axis.
    best = triplets.triplet_max(reverse(node_k[None] + edge_ik), reverse(edge_jk))
    return out(best + node_i[:, None] + node_j[None] + edge_ij + graph)


def in_directions(maps: tuple, edges: Float[Array, "node node _"]) -> Float[Array, "node node _"]:
    """Adds what maps (Linears or bases) give for edges: the first for e_ij, the second, if any, for e_ji."""
    forward, *backward = maps
    return forward(edges) if not backward else forward(edges) + backward[0](reverse(edges))


def reverse(edges: Float[Array, "node node _"]) -> Float[Array, "node node _"]:
    """Returns every edge's reverse: e_ji in the place of e_ij."""
    return jnp.swapaxes(edges, 0, 1)
