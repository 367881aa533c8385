"""Triplet Edge Attention for factored features: the forms of the layer that `TripletEdgeAttention.bind` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from narkit.models.features import Bases, Basis, Scalars
from narkit.models.layers import Linear
from narkit.models.narrow_maxima import BoundNarrowMaxima, NodeMap, in_directions, reverse

if TYPE_CHECKING:
    from narkit.models.triplet_edge_attention import TripletEdgeAttention

Mask = Bool[Array, "node node"]


class BoundTripletEdgeAttention(eqx.Module):
    """Triplet Edge Attention that reads scalars. Made by `TripletEdgeAttention.bind`."""

    layer: TripletEdgeAttention
    node_i: NodeMap
    node_j: NodeMap
    node_k: NodeMap
    edge_ij: Basis
    edge_ik: Basis
    edge_jk: Basis
    graph: Basis
    value: Basis
    reversed_edges: tuple[Basis, ...] | None
    further_values: tuple[Basis, ...] | None
    residual: tuple[Basis, ...] | None
    maxima: BoundNarrowMaxima | None

    def __call__(
        self, scalars: Scalars, mask: Mask | None = None, hidden: Float[Array, "node hidden"] | None = None
    ) -> Float[Array, "node node hidden"]:
        return self.with_weights(scalars, mask, hidden)[0]

    def with_weights(
        self,
        scalars: Scalars,
        mask: Mask | None = None,
        hidden: Float[Array, "node hidden"] | None = None,
        terms: Float[Array, "node node node"] | None = None,
    ) -> tuple[Float[Array, "node node hidden"], Float[Array, "head node node node"]]:
        """Returns the edge latents and the attention weights; `terms` are added to the logits."""
        read = self._read(scalars, hidden)
        weights = self.layer._attend(*self._vectors_of_pairs(scalars, read), mask, terms)
        mixed = self._aggregate(weights, scalars.edge)
        if self.residual is not None:
            mixed = mixed + in_directions(self.residual, scalars.edge)
        if self.maxima is not None:
            mixed = mixed + self.maxima(read, scalars.edge, scalars.graph)
        return self.layer.finish(mixed), weights

    def _read(self, scalars: Scalars, hidden: Array | None) -> tuple[Array, ...]:
        """Returns the inputs of maps of nodes: scalars, or scalars and hidden states."""
        if self.layer.reads is None:
            return (scalars.node,)
        if hidden is None:
            raise ValueError(f"a layer that reads {self.layer.reads.value!r} needs the hidden states: pass hidden=...")
        return scalars.node, hidden

    def _vectors_of_pairs(self, scalars: Scalars, read: tuple[Array, ...]) -> tuple[Array, Array, Array]:
        third = self.layer.towards_third(scalars.edge)
        pairs = (
            (self.node_i(*read) + self.graph(scalars.graph))[:, None]
            + self.node_j(*read)[None]
            + self.edge_ij(scalars.edge),
            self.node_k(*read)[None] + self.edge_ik(third),
            self.edge_jk(third),
        )
        return with_reverses(pairs, self.reversed_edges, scalars.edge)

    def _aggregate(
        self, weights: Float[Array, "head node node node"], scalars: Float[Array, "node node scalar"]
    ) -> Float[Array, "node node hidden"]:
        """Sums the weighted values over the scalars: `sum_k a_ijk V e_ik = (sum_k a_ijk s_ik) (E V) + ...`.

        The offset counts as often as the weights say: once, or not at all where no third node is allowed.
        """
        third = self.layer.towards_third(scalars)
        mixed = jnp.einsum(f"mijk,{self.layer.edge_of_values}p->ijmp", weights, third)
        total = jnp.moveaxis(weights.sum(-1), 0, -1)[..., None]
        values = self._by_head(self.value, mixed, total)
        for basis, edge in zip(self.further_values or (), self.layer.further_edges, strict=True):
            values = values + self._by_head(basis, jnp.einsum(f"mijk,{edge}p->ijmp", weights, scalars), total)
        return values

    def _by_head(self, value: Basis, mixed: Array, total: Array) -> Float[Array, "node node hidden"]:
        num_heads, width = self.layer.attention.shape
        directions = value.directions.reshape(-1, num_heads, width)
        offset = value.offset.reshape(num_heads, width)
        values = jnp.einsum("ijmp,pmw->ijmw", mixed, directions) + total * offset
        return values.reshape(*mixed.shape[:2], num_heads * width)


class DenseTripletEdgeAttention(eqx.Module):
    """A subclass of Triplet Edge Attention for scalars, from which it is given dense features."""

    layer: TripletEdgeAttention
    bases: Bases

    def __call__(
        self, scalars: Scalars, mask: Mask | None = None, hidden: Float[Array, "node hidden"] | None = None
    ) -> Float[Array, "node node hidden"]:
        return self.layer(*self._dense(scalars), mask, hidden)

    def with_weights(
        self,
        scalars: Scalars,
        mask: Mask | None = None,
        hidden: Float[Array, "node hidden"] | None = None,
        terms: Float[Array, "node node node"] | None = None,
    ) -> tuple[Float[Array, "node node hidden"], Float[Array, "head node node node"]]:
        """Returns the edge latents and the attention weights."""
        if terms is not None:
            raise ValueError(
                "lossless edge pointers add to the logits of TripletEdgeAttention itself, but "
                f"{type(self.layer).__name__} is a subclass, which may compute them in another way; use "
                "edge_pointers='means'"
            )
        dense = self._dense(scalars)
        return self.layer(*dense, mask, hidden), self.layer.attention_weights(*dense, mask, hidden)

    def _dense(self, scalars: Scalars) -> tuple[Array, Array, Array]:
        bases = self.bases
        return bases.node(scalars.node), bases.edge(scalars.edge), bases.graph(scalars.graph)


def with_reverses(
    pairs: tuple[Array, Array, Array], maps: tuple | None, edges: Float[Array, "node node _"]
) -> tuple[Array, Array, Array]:
    """Adds to the vectors of pairs what the maps (Linears or bases) of e_ji, e_ki and e_kj give, if there are any."""
    if maps is None:
        return pairs
    ij, ik, jk = (pair + of_reverse(reverse(edges)) for pair, of_reverse in zip(pairs, maps, strict=True))
    return ij, ik, jk


def through(basis: Basis, linears: tuple[Linear, ...] | None) -> tuple[Basis, ...] | None:
    """Returns the bases of Linears of the same features, if there are any."""
    return None if linears is None else tuple(basis.through(linear) for linear in linears)
