"""Edge pointers that lose nothing: read, attended to, predicted and kept as a whole.

An edge pointer P says for every pair of nodes (i, j) to which node k it points: P_ijk are probabilities. The reference
reads the means of P over i and over j, which forget which pair points where and shrink as graphs grow, and predicts k
from features of i, j, their edge and k alone: neither e_ik nor e_kj is seen, on which shortest paths, products of
matrices and search trees depend. With `edge_pointers="lossless"`, beside all that:

- **Read**: of the node that is pointed to, the scalars of the edges ik and kj (but those of edge pointers) and of k:

      e_ij += G [sum_k P_ijk s_ik || sum_k P_ijk s_kj || sum_k P_ijk x_k]

- **Attended to**, where the processor has Triplet Edge Attention: P in three directions is added to the attention's
  logits, after their scale, with weights b that start at zero:

      logit_ijk += b_1 P_ijk + b_2 P_ikj + b_3 P_kji

- **Predicted** with both edges, kept with a gate, and followed through the attention alpha (the last node before j on
  the path from i by way of m is that on the path from m):

      [q_ij || q'_ij || gamma_ij || kappa_ij] = Q_1 z_i + Q_2 z_j + Q_3 e_ij,   z = [x || hidden || next hidden]
      logit_ijk += (q_ij . K e_ik + q'_ij . K' e_kj) / sqrt(16) + gamma_ij P_ijk + kappa_ij sum_m alpha_ijm P_mjk

  where e has the processor's latents beside the encoded edges, if decoders read them. Every edge pointer that is read
  has a gamma and a kappa of its own.

No array over triplets has features: those over triplets are P, alpha and logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from narkit.models.features import Bases, FoldedLinear, fold
from narkit.models.layers import Linear, concatenated, split_outputs
from narkit.spec import Kind, Location, Probe

PAIR_SIZE = 16  # features in which an edge ij is compared with ik, and with kj

Pointer = Float[Array, "*batch node node node"]
Pointers = Mapping[str, Pointer]
"""Edge pointers by name, as probabilities."""


def is_edge_pointer(probe: Probe) -> bool:
    """Returns whether the values of a probe point from edges to nodes."""
    return probe.location is Location.EDGE and probe.kind is Kind.POINTER


def means(pointer: Pointer) -> Float[Array, "*batch node node 2"]:
    """Returns what the reference reads: averages over the edges that enter a node, and over those that leave it."""
    return jnp.stack([pointer.mean(-3), pointer.mean(-2)], axis=-1)


def pointed_at(
    pointer: Pointer, edge: Float[Array, "*batch node node edge_scalar"], node: Float[Array, "*batch node node_scalar"]
) -> Float[Array, "*batch node node scalar"]:
    """Returns the scalars at the node that is pointed to: of the edge to it, of the edge from it, and of itself."""
    return jnp.concatenate(
        [
            jnp.einsum("...ijk,...ikp->...ijp", pointer, edge),
            jnp.einsum("...ijk,...kjp->...ijp", pointer, edge),
            jnp.einsum("...ijk,...kp->...ijp", pointer, node),
        ],
        axis=-1,
    )


def attention_terms(weights: Mapping[str, Float[Array, " 3"]], pointers: Pointers) -> Pointer:
    """Returns the terms that are added to the logits of Triplet Edge Attention."""
    terms = []
    for name, (straight, swapped, reverse) in weights.items():
        pointer = pointers[name]
        terms.append(straight * pointer + swapped * jnp.swapaxes(pointer, -1, -2) + reverse * _reverse(pointer))
    return sum(terms[1:], terms[0])


def _reverse(pointer: Pointer) -> Pointer:
    """Returns P_kji in the place of P_ijk."""
    return jnp.swapaxes(pointer, -3, -1)


class EdgePointerDecoder(eqx.Module):
    """The Linears that predict an edge pointer with both edges, a gate and the attention, beside the usual ones."""

    query_nodes: tuple[Linear, Linear]  # Q_1 and Q_2
    query_edge: Linear  # Q_3
    keys: tuple[Linear, Linear]  # K and K'
    read: tuple[str, ...] = eqx.field(static=True)  # the edge pointers that have gates
    attends: bool = eqx.field(static=True)  # whether there is an attention to follow them through

    def __init__(self, hidden_size: int, edge_size: int, read: Sequence[str], attends: bool, *, key: PRNGKeyArray):
        self.read, self.attends = tuple(read), attends
        first, second, edge, *keys = jax.random.split(key, 5)
        width = 2 * PAIR_SIZE + len(self.read) * (2 if attends else 1)
        self.query_nodes = (Linear(3 * hidden_size, width, key=first), Linear(3 * hidden_size, width, key=second))
        self.query_edge = Linear(edge_size, width, key=edge)
        to, from_ = (Linear(edge_size, PAIR_SIZE, key=k) for k in keys)
        self.keys = (to, from_)

    def bind(self, bases: Bases, hidden_size: int, latent_sizes: Sequence[int]) -> BoundEdgePointerDecoder:
        on_edges = concatenated([self.query_edge, *self.keys])
        return BoundEdgePointerDecoder(
            fold(concatenated(self.query_nodes), bases.node, [hidden_size, hidden_size]),
            fold(on_edges, bases.edge, latent_sizes),
            self.read,
            self.attends,
        )


class BoundEdgePointerDecoder(eqx.Module):
    """The terms that are added to an edge pointer's usual logits. Made by `EdgePointerDecoder.bind`."""

    on_nodes: FoldedLinear  # Q_1 and Q_2
    on_edges: FoldedLinear  # Q_3, K and K'
    read: tuple[str, ...] = eqx.field(static=True)
    attends: bool = eqx.field(static=True)

    def __call__(
        self,
        nodes: Sequence[Float[Array, "batch node _"]],  # what Linears of nodes read
        edges: Sequence[Float[Array, "batch node node _"]],  # what Linears of edges read
        pointers: Pointers,
        attention: Float[Array, "batch node node node"] | None,
    ) -> Float[Array, "batch node node node"]:
        num_gates = len(self.read)
        widths = [PAIR_SIZE, PAIR_SIZE, num_gates] + ([num_gates] if self.attends else [])
        of_nodes, of_edges = self.on_nodes(*nodes), self.on_edges(*edges)
        first, second = split_outputs(of_nodes, [sum(widths)] * 2)
        third, to, from_ = split_outputs(of_edges, [sum(widths), PAIR_SIZE, PAIR_SIZE])
        query, other, keep, *follow = split_outputs(first[:, :, None] + second[:, None] + third, widths)
        pairs = jnp.einsum("bijw,bikw->bijk", query, to) + jnp.einsum("bijw,bkjw->bijk", other, from_)
        logits = PAIR_SIZE**-0.5 * pairs
        for place, name in enumerate(self.read):
            logits = logits + keep[..., place, None] * pointers[name]
            if self.attends and attention is not None:
                followed = jnp.einsum("bijm,bmjk->bijk", attention, pointers[name])
                logits = logits + follow[0][..., place, None] * followed
        return logits
