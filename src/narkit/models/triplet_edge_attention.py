"""Triplet Edge Attention (Jung & Ahn, 2023), the layer on its own."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from narkit.models import triplets
from narkit.models.bound_attention import (
    BoundTripletEdgeAttention,
    DenseTripletEdgeAttention,
    Mask,
    through,
    with_reverses,
)
from narkit.models.features import Bases, fold
from narkit.models.layers import LayerNorm, Linear
from narkit.models.narrow_maxima import NarrowMaxima, NodeMap, in_directions, reverse
from narkit.settings import choice, whole_number

_Choice = TypeVar("_Choice", bound=enum.StrEnum)


class Reads(enum.StrEnum):
    """The features of nodes that the attention reads."""

    INPUTS = "inputs"  # x, the encoder's
    BOTH = "both"  # [x || hidden], the hidden state of the step before, too


class Scale(enum.StrEnum):
    """The growth of logits with the number of nodes n: a softmax that is sharp over 16 nodes is not over 64."""

    NONE = "none"  # not at all
    LOG = "log"  # by log n / log 16


class ThirdEdges(enum.StrEnum):
    """The direction of the edges that i and j have in common with the third node k."""

    TO = "to"  # the third node: e_ik and e_jk
    FROM = "from"  # the third node: e_ki and e_kj


class ValuesOf(enum.StrEnum):
    """The edge in common with the third node k that is mixed into the latents of the edge from i to j."""

    SENDER = "sender"  # that of i
    RECEIVER = "receiver"  # that of j


REFERENCE_SIZE = 16  # the largest graphs of training, for which the factor is 1


class TripletEdgeAttention(eqx.Module):
    r"""Edge latents by attention over all third nodes.

    From "Triplet Edge Attention for Algorithmic Reasoning" (Jung & Ahn, 2023), equations 1 to 4:

    $$t_{ijk} = W [x_i \| x_j \| x_k \| e_{ij} \| e_{ik} \| e_{jk} \| g], \quad
      \alpha_{ijk} = \mathrm{softmax}_k\, a^\top \mathrm{LeakyReLU}(t_{ijk}), \quad
      h_{ij} = \mathrm{ReLU}\Big(\sum_{k \in N_i \cup N_j} \alpha_{ijk}\, W' e_{ik}\Big)$$

    With M heads, each has its own share of the features of t, of a and of W', and the heads' results are
    concatenated. The layer takes one graph; use `jax.vmap` for more.

    The options go beyond the paper, and all of them together give

    $$t_{ijk} = W [z_i \| z_j \| z_k \| e_{ij} \| e_{ik} \| e_{jk} \| e_{ji} \| e_{ki} \| e_{kj} \| g], \quad
      \alpha_{ijk} = \mathrm{softmax}_k\, \frac{\log n}{\log 16}\, a^\top \mathrm{LeakyReLU}(t_{ijk})$$

    $$h_{ij} = \mathrm{LayerNorm}\,\mathrm{ReLU}\Big(\sum_k \alpha_{ijk}
      (V_1 e_{ik} + V_2 e_{ki} + V_3 e_{kj} + V_4 e_{jk}) + S_1 e_{ij} + S_2 e_{ji} + O \max_k m_{ijk}\Big)$$

    where z is x, or x and the hidden state, and m has few features that are computed like t (see `NarrowMaxima`).

    Two options are other readings of the paper, with as many parameters: with `third_edges="from"` e_ki and e_kj stand
    in the place of e_ik and e_jk, and with `values_of="receiver"` the value is that of e_jk (or e_kj).

    **Arguments**

    - `hidden_size`: the width h of all features.
    - `num_heads`: must divide `hidden_size`.
    - `activation`: applied to the aggregated values; the paper leaves the choice to the task.
    - `slope`: of the LeakyReLU below zero.
    - `reads`: which features of nodes are z: "inputs" or "both".
    - `scale`: "log" for logits that grow with log n, or "none".
    - `both_directions`: whether e_ji, e_ki and e_kj are read in t, and the reverses of all edges elsewhere.
    - `values_of_kj`: whether values are of the edge from k to j, too (V_3 and, with both directions, V_4).
    - `residual`: whether the edge itself is added (S_1 and, with both directions, S_2).
    - `maxima`: the number of features of m; 0 for none.
    - `norm`: whether a LayerNorm follows.
    - `third_edges`: "to" or "from", see `ThirdEdges`.
    - `values_of`: "sender" or "receiver", see `ValuesOf`. The second choices of these two exclude `both_directions`,
      `values_of_kj` and `maxima`.

    **Shapes**: nodes (n, h), edges (n, n, h), graph (h,), mask (n, n) or None, hidden (n, h) -> (n, n, h).
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
    # What the options add; None where they are off.
    reversed_edges: tuple[Linear, Linear, Linear] | None  # of e_ji, e_ki and e_kj in t
    further_values: tuple[Linear, ...] | None  # V_2, V_3 and V_4, as far as they are there
    residual: tuple[Linear, ...] | None  # S_1 and perhaps S_2
    maxima: NarrowMaxima | None
    norm: LayerNorm | None
    reads: Reads | None = eqx.field(static=True)  # this and the next three are None where they are as in the paper
    scale: Scale | None = eqx.field(static=True)
    third_edges: ThirdEdges | None = eqx.field(static=True)
    values_of: ValuesOf | None = eqx.field(static=True)
    both_directions: bool = eqx.field(static=True)
    values_of_kj: bool = eqx.field(static=True)

    def __init__(
        self,
        hidden_size: int,
        num_heads: int = 1,
        activation: Callable[[Array], Array] = jax.nn.relu,
        slope: float = 0.01,
        *,
        reads: str = Reads.INPUTS.value,
        scale: str = Scale.NONE.value,
        both_directions: bool = False,
        values_of_kj: bool = False,
        residual: bool = False,
        maxima: int = 0,
        norm: bool = False,
        third_edges: str = ThirdEdges.TO.value,
        values_of: str = ValuesOf.SENDER.value,
        key: PRNGKeyArray,
    ):
        hidden_size = whole_number("hidden_size", hidden_size, at_least=1, example=128)
        num_heads = whole_number("num_heads", num_heads, example=1)
        if num_heads < 1 or hidden_size % num_heads:
            raise ValueError(
                f"expected a number of heads that divides the hidden size, got {num_heads} heads for size "
                f"{hidden_size}; choose one of {[m for m in range(1, hidden_size + 1) if hidden_size % m == 0]}"
            )
        if maxima < 0:
            raise ValueError(f"maxima: expected a number of features, or 0 for none, got {maxima}")
        self.reads = _choice("reads", reads, Reads)
        self.scale = _choice("scale", scale, Scale)
        self.third_edges = _choice("third_edges", third_edges, ThirdEdges)
        self.values_of = _choice("values_of", values_of, ValuesOf)
        self.both_directions, self.values_of_kj = both_directions, values_of_kj
        if (self.third_edges or self.values_of) and (both_directions or values_of_kj or maxima):
            raise ValueError(
                f"expected neither both_directions nor values_of_kj nor maxima with third_edges={third_edges!r} and "
                f"values_of={values_of!r}, which read edges one way and mix one of them; leave out one of the two"
            )
        node_size = 2 * hidden_size if self.reads else hidden_size
        keys = jax.random.split(key, 9)
        sizes = [node_size] * 3 + [hidden_size] * 5
        linears = [Linear(size, hidden_size, key=k) for size, k in zip(sizes, keys[:8], strict=True)]
        self.node_i, self.node_j, self.node_k = linears[:3]
        self.edge_ij, self.edge_ik, self.edge_jk = linears[3:6]
        self.graph, self.value = linears[6:]
        width = hidden_size // num_heads
        self.attention = hidden_size**-0.5 * jax.random.truncated_normal(keys[8], -2.0, 2.0, (num_heads, width))
        self.attention_bias = jnp.zeros((num_heads,))
        self.activation = activation
        self.slope = slope

        further = iter(jax.random.split(jax.random.fold_in(key, 1), 9))  # so that options leave the others as they are
        num_directions = 2 if both_directions else 1

        def linears_of_edges(count: int) -> tuple[Linear, ...]:
            return tuple(Linear(hidden_size, hidden_size, key=next(further)) for _ in range(count))

        self.reversed_edges = linears_of_edges(3) if both_directions else None  # type: ignore[assignment]
        num_values = num_directions * (2 if values_of_kj else 1)
        self.further_values = linears_of_edges(num_values - 1) or None
        self.residual = linears_of_edges(num_directions) if residual else None
        self.maxima = (
            NarrowMaxima(hidden_size, node_size, maxima, both_directions, key=next(further)) if maxima else None
        )
        self.norm = LayerNorm(hidden_size) if norm else None

    def __call__(
        self,
        nodes: Float[Array, "node hidden"],
        edges: Float[Array, "node node hidden"],
        graph: Float[Array, " hidden"],
        mask: Mask | None = None,
        hidden: Float[Array, "node hidden"] | None = None,
    ) -> Float[Array, "node node hidden"]:
        """Returns the edge latents. `mask` allows k where mask[i, k] or mask[j, k]; where it allows none, nothing is
        attended to, and without further options the latents are zero. `hidden` is needed if the layer reads hidden
        states.
        """
        read = self._read(nodes, hidden)
        weights = self._attend(*self._vectors_of_pairs(read, edges, graph), mask)
        values = self.value(self.towards_third(edges))
        if not self.goes_beyond:
            return self.aggregate(weights, values)
        mixed = self.mix(weights, values, self.edge_of_values)
        if self.further_values is not None:
            for linear, edge in zip(self.further_values, self.further_edges, strict=True):
                mixed = mixed + self.mix(weights, linear(edges), edge)
        if self.residual is not None:
            mixed = mixed + in_directions(self.residual, edges)
        if self.maxima is not None:
            mixed = mixed + self.maxima(read, edges, graph)
        return self.finish(mixed)

    def _read(self, nodes: Array, hidden: Array | None) -> Array:
        """Returns the features z of nodes."""
        if self.reads is None:
            return nodes
        if hidden is None:
            raise ValueError(f"a layer that reads {self.reads.value!r} needs the hidden states: pass hidden=...")
        return jnp.concatenate([nodes, hidden], axis=-1)

    @property
    def goes_beyond(self) -> bool:
        """True if an option adds something to the aggregated values, or follows them."""
        return any(part is not None for part in (self.further_values, self.residual, self.maxima, self.norm))

    def vectors_of_pairs(
        self, nodes: Array, edges: Array, graph: Array, hidden: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Returns the vectors of pairs (i, j), (i, k) and (j, k) that t is the sum of."""
        return self._vectors_of_pairs(self._read(nodes, hidden), edges, graph)

    def _vectors_of_pairs(self, read: Array, edges: Array, graph: Array) -> tuple[Array, Array, Array]:
        pairs = (
            (self.node_i(read) + self.graph(graph))[:, None] + self.node_j(read)[None] + self.edge_ij(edges),
            self.node_k(read)[None] + self.edge_ik(self.towards_third(edges)),
            self.edge_jk(self.towards_third(edges)),
        )
        return with_reverses(pairs, self.reversed_edges, edges)

    def towards_third(self, edges: Float[Array, "node node _"]) -> Float[Array, "node node _"]:
        """Returns the edges that i and j have in common with the third node k, at the places (i, k) and (j, k)."""
        return edges if self.third_edges is None else reverse(edges)

    @property
    def edge_of_values(self) -> str:
        """The edge of a triplet whose values are mixed, as `mix` names it."""
        return "ik" if self.values_of is None else "jk"

    def mix(
        self, weights: Float[Array, "head node node node"], values: Float[Array, "node node hidden"], edge: str = "ik"
    ) -> Float[Array, "node node hidden"]:
        """Returns the weighted sum of the values of the edges from i to k, or of other edges of the triplet."""
        if len(self.attention) == 1 and edge == "ik":  # as one product, whose result the compiler need not transpose
            return weights[0] @ values
        by_head = values.reshape(*values.shape[:2], *self.attention.shape)
        return jnp.einsum(f"mijk,{edge}mw->ijmw", weights, by_head).reshape(values.shape)

    @property
    def further_edges(self) -> tuple[str, ...]:
        """The edges of a triplet of which there are further values."""
        far = ("kj", "jk") if self.both_directions else ("kj",)
        return (("ki",) if self.both_directions else ()) + (far if self.values_of_kj else ())

    def finish(self, mixed: Float[Array, "node node hidden"]) -> Float[Array, "node node hidden"]:
        """Returns the edge latents, from all that is added up."""
        latents = self.activation(mixed)
        return latents if self.norm is None else self.norm(latents)

    def aggregate(
        self, weights: Float[Array, "head node node node"], values: Float[Array, "node node hidden"]
    ) -> Float[Array, "node node hidden"]:
        """Returns the edge latents, from attention weights and values, of a layer that adds nothing to these."""
        return self.activation(self.mix(weights, values, self.edge_of_values))

    def attention_weights(
        self,
        nodes: Float[Array, "node hidden"],
        edges: Float[Array, "node node hidden"],
        graph: Float[Array, " hidden"],
        mask: Mask | None = None,
        hidden: Float[Array, "node hidden"] | None = None,
    ) -> Float[Array, "head node node node"]:
        """Returns how much each third node k counts for the edge from i to j: (head, i, j, k), for looking at."""
        return self._attend(*self.vectors_of_pairs(nodes, edges, graph, hidden), mask)

    def bind(self, bases: Bases) -> BoundTripletEdgeAttention | DenseTripletEdgeAttention:
        """Returns the layer for factored features: every Linear is folded into the bases.

        What a subclass computes is its own, so it gets dense features, as when it is called.
        """
        if type(self) is not TripletEdgeAttention:
            return DenseTripletEdgeAttention(self, bases)
        return BoundTripletEdgeAttention(
            layer=self,
            node_i=self._bind_nodes(bases, self.node_i),
            node_j=self._bind_nodes(bases, self.node_j),
            node_k=self._bind_nodes(bases, self.node_k),
            edge_ij=bases.edge.through(self.edge_ij),
            edge_ik=bases.edge.through(self.edge_ik),
            edge_jk=bases.edge.through(self.edge_jk),
            graph=bases.graph.through(self.graph),
            value=bases.edge.through(self.value),
            reversed_edges=through(bases.edge, self.reversed_edges),
            further_values=through(bases.edge, self.further_values),
            residual=through(bases.edge, self.residual),
            maxima=None if self.maxima is None else self.maxima.bind(bases, partial(self._bind_nodes, bases)),
        )

    def _bind_nodes(self, bases: Bases, linear: Linear) -> NodeMap:
        """Binds a Linear of z to what is read: scalars, or scalars and hidden states."""
        if self.reads is None:
            return bases.node.through(linear)
        return fold(linear, bases.node, [self.graph.bias.shape[0]])

    def _attend(
        self,
        pair_ij: Float[Array, "node node hidden"],
        pair_ik: Float[Array, "node node hidden"],
        pair_jk: Float[Array, "node node hidden"],
        mask: Mask | None,
        terms: Float[Array, "node node node"] | None = None,
    ) -> Float[Array, "head node node node"]:
        logits = triplets.attention_logits(pair_ij, pair_ik, pair_jk, self.attention, self.slope)
        return self.normalise(logits, mask, terms)

    def normalise(
        self,
        logits: Float[Array, "head node node node"],
        mask: Mask | None,
        terms: Float[Array, "node node node"] | None = None,
    ) -> Float[Array, "head node node node"]:
        """Computes attention weights from logits: the softmax over the third nodes that the mask allows.

        `terms` are added to the logits of all heads, after their scale: in this way a reasoner passes edge pointers.
        """
        logits = logits + self.attention_bias[:, None, None, None]
        if self.scale is not None:
            logits = logits * growth(logits.shape[-1])
        if terms is not None:
            logits = logits + terms
        if mask is None:
            return jax.nn.softmax(logits, axis=-1)
        return _masked_softmax(logits, mask[:, None, :] | mask[None, :, :])


def growth(num_nodes: int) -> float:
    """Returns log n / log 16, the factor by which logits grow with n nodes; 1 for the largest graphs of training."""
    return math.log(num_nodes) / math.log(REFERENCE_SIZE)


def _choice(option: str, value: str, choices: type[_Choice]) -> _Choice | None:
    """Returns the choice of that name; None for the first, which is the paper's."""
    chosen = choice(option, value, choices)
    return None if chosen is next(iter(choices)) else chosen


def _masked_softmax(
    logits: Float[Array, "head node node node"], allowed: Bool[Array, "node node node"]
) -> Float[Array, "head node node node"]:
    """Computes the softmax over the allowed third nodes; all zero where none is allowed."""
    highest = jnp.max(jnp.where(allowed, logits, -jnp.inf), axis=-1, keepdims=True)
    highest = jax.lax.stop_gradient(jnp.where(jnp.isfinite(highest), highest, 0.0))
    unnormalised = jnp.where(allowed, jnp.exp(jnp.where(allowed, logits - highest, 0.0)), 0.0)
    total = unnormalised.sum(-1, keepdims=True)
    return unnormalised / jnp.where(total > 0, total, 1.0)
