"""Triplet Edge Attention (Jung & Ahn, 2023), the layer on its own."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from narkit.models import triplets
from narkit.models.features import Bases, Basis, Scalars
from narkit.models.layers import Linear

Mask = Bool[Array, "node node"]


class TripletEdgeAttention(eqx.Module):
    r"""Edge latents by attention over all third nodes.

    From "Triplet Edge Attention for Algorithmic Reasoning" (Jung & Ahn, 2023), equations 1 to 4:

    $$t_{ijk} = W [x_i \| x_j \| x_k \| e_{ij} \| e_{ik} \| e_{jk} \| g], \quad
      \alpha_{ijk} = \mathrm{softmax}_k\, a^\top \mathrm{LeakyReLU}(t_{ijk}), \quad
      h_{ij} = \mathrm{ReLU}\Big(\sum_{k \in N_i \cup N_j} \alpha_{ijk}\, W' e_{ik}\Big)$$

    With M heads, each has its own share of the features of t, of a and of W', and the heads' results are
    concatenated. The layer takes one graph; use `jax.vmap` for more.

    **Arguments**

    - `hidden_size`: the width h of all features.
    - `num_heads`: must divide `hidden_size`.
    - `activation`: applied to the aggregated values; the paper leaves the choice to the task.
    - `slope`: of the LeakyReLU below zero.

    **Shapes**: nodes (n, h), edges (n, n, h), graph (h,), mask (n, n) or None -> (n, n, h).
    """

    node_i: Linear
    node_j: Linear
    node_k: Linear
    edge_ij: Linear
    edge_ik: Linear
    edge_jk: Linear
    graph: Linear
    attention: Float[Array, "head width"]
    attention_bias: Float[Array, " head"]  # the softmax cancels it; it is kept because the paper's model counts it
    value: Linear
    activation: Callable[[Array], Array] = eqx.field(static=True)
    slope: float = eqx.field(static=True)

    def __init__(
        self,
        hidden_size: int,
        num_heads: int = 1,
        activation: Callable[[Array], Array] = jax.nn.relu,
        slope: float = 0.01,
        *,
        key: PRNGKeyArray,
    ):
        if num_heads < 1 or hidden_size % num_heads:
            raise ValueError(
                f"expected a number of heads that divides the hidden size, got {num_heads} heads for size "
                f"{hidden_size}; choose one of {[m for m in range(1, hidden_size + 1) if hidden_size % m == 0]}"
            )
        keys = jax.random.split(key, 9)
        linears = [Linear(hidden_size, hidden_size, key=k) for k in keys[:8]]
        self.node_i, self.node_j, self.node_k = linears[:3]
        self.edge_ij, self.edge_ik, self.edge_jk = linears[3:6]
        self.graph, self.value = linears[6:]
        width = hidden_size // num_heads
        self.attention = hidden_size**-0.5 * jax.random.truncated_normal(keys[8], -2.0, 2.0, (num_heads, width))
        self.attention_bias = jnp.zeros((num_heads,))
        self.activation = activation
        self.slope = slope

    def __call__(
        self,
        nodes: Float[Array, "node hidden"],
        edges: Float[Array, "node node hidden"],
        graph: Float[Array, " hidden"],
        mask: Mask | None = None,
    ) -> Float[Array, "node node hidden"]:
        """The edge latents. `mask` allows k where mask[i, k] or mask[j, k]; where it allows none, they are zero."""
        pairs = self.vectors_of_pairs(nodes, edges, graph)
        return self.aggregate(self._attend(*pairs, mask), self.value(edges))

    def vectors_of_pairs(self, nodes: Array, edges: Array, graph: Array) -> tuple[Array, Array, Array]:
        """The vectors of pairs (i, j), (i, k) and (j, k) that t is the sum of."""
        return (
            (self.node_i(nodes) + self.graph(graph))[:, None] + self.node_j(nodes)[None] + self.edge_ij(edges),
            self.node_k(nodes)[None] + self.edge_ik(edges),
            self.edge_jk(edges),
        )

    def aggregate(
        self, weights: Float[Array, "head node node node"], values: Float[Array, "node node hidden"]
    ) -> Float[Array, "node node hidden"]:
        """The edge latents, from attention weights and values."""
        if len(self.attention) == 1:  # as one product, whose result the compiler need not transpose
            return self.activation(weights[0] @ values)
        by_head = values.reshape(*values.shape[:2], *self.attention.shape)
        return self.activation(jnp.einsum("mijk,ikmw->ijmw", weights, by_head).reshape(values.shape))

    def attention_weights(
        self,
        nodes: Float[Array, "node hidden"],
        edges: Float[Array, "node node hidden"],
        graph: Float[Array, " hidden"],
        mask: Mask | None = None,
    ) -> Float[Array, "head node node node"]:
        """How much each third node k counts for the edge from i to j: (head, i, j, k), for looking at."""
        return self._attend(*self.vectors_of_pairs(nodes, edges, graph), mask)

    def bind(self, bases: Bases) -> BoundTripletEdgeAttention:
        """The layer for factored features: every Linear is folded into the bases."""
        return BoundTripletEdgeAttention(
            layer=self,
            node_i=bases.node.through(self.node_i),
            node_j=bases.node.through(self.node_j),
            node_k=bases.node.through(self.node_k),
            edge_ij=bases.edge.through(self.edge_ij),
            edge_ik=bases.edge.through(self.edge_ik),
            edge_jk=bases.edge.through(self.edge_jk),
            graph=bases.graph.through(self.graph),
            value=bases.edge.through(self.value),
        )

    def _attend(
        self,
        pair_ij: Float[Array, "node node hidden"],
        pair_ik: Float[Array, "node node hidden"],
        pair_jk: Float[Array, "node node hidden"],
        mask: Mask | None,
    ) -> Float[Array, "head node node node"]:
        logits = triplets.attention_logits(pair_ij, pair_ik, pair_jk, self.attention, self.slope)
        return self.normalise(logits, mask)

    def normalise(
        self, logits: Float[Array, "head node node node"], mask: Mask | None
    ) -> Float[Array, "head node node node"]:
        """Attention weights from logits: the softmax over the third nodes that the mask allows."""
        logits = logits + self.attention_bias[:, None, None, None]
        if mask is None:
            return jax.nn.softmax(logits, axis=-1)
        return _masked_softmax(logits, mask[:, None, :] | mask[None, :, :])


class BoundTripletEdgeAttention(eqx.Module):
    """Triplet Edge Attention that reads scalars. Made by `TripletEdgeAttention.bind`."""

    layer: TripletEdgeAttention
    node_i: Basis
    node_j: Basis
    node_k: Basis
    edge_ij: Basis
    edge_ik: Basis
    edge_jk: Basis
    graph: Basis
    value: Basis

    def __call__(self, scalars: Scalars, mask: Mask | None = None) -> Float[Array, "node node hidden"]:
        weights = self.layer._attend(
            (self.node_i(scalars.node) + self.graph(scalars.graph))[:, None]
            + self.node_j(scalars.node)[None]
            + self.edge_ij(scalars.edge),
            self.node_k(scalars.node)[None] + self.edge_ik(scalars.edge),
            self.edge_jk(scalars.edge),
            mask,
        )
        return self.layer.activation(self._aggregate(weights, scalars.edge))

    def _aggregate(
        self, weights: Float[Array, "head node node node"], scalars: Float[Array, "node node scalar"]
    ) -> Float[Array, "node node hidden"]:
        """The weighted sum of values, taken over the scalars: `sum_k a_ijk V e_ik = (sum_k a_ijk s_ik) (E V) + ...`.

        The offset counts as often as the weights say: once, or not at all where no third node is allowed.
        """
        num_heads, width = self.layer.attention.shape
        mixed = jnp.einsum("mijk,ikp->ijmp", weights, scalars)
        directions = self.value.directions.reshape(-1, num_heads, width)
        offset = self.value.offset.reshape(num_heads, width)
        total = jnp.moveaxis(weights.sum(-1), 0, -1)[..., None]
        values = jnp.einsum("ijmp,pmw->ijmw", mixed, directions) + total * offset
        return values.reshape(*scalars.shape[:2], num_heads * width)


def _masked_softmax(
    logits: Float[Array, "head node node node"], allowed: Bool[Array, "node node node"]
) -> Float[Array, "head node node node"]:
    """Softmax over the allowed third nodes; all zero where none is allowed."""
    highest = jnp.max(jnp.where(allowed, logits, -jnp.inf), axis=-1, keepdims=True)
    highest = jax.lax.stop_gradient(jnp.where(jnp.isfinite(highest), highest, 0.0))
    unnormalised = jnp.where(allowed, jnp.exp(jnp.where(allowed, logits - highest, 0.0)), 0.0)
    total = unnormalised.sum(-1, keepdims=True)
    return unnormalised / jnp.where(total > 0, total, 1.0)
