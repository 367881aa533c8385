"""Triplet-GMPNN (Ibarz et al., "A generalist neural algorithmic learner", 2022), the paper's baseline."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from narkit.models import triplets
from narkit.models.features import Bases, Basis, FoldedLinear, Scalars, fold
from narkit.models.layers import Linear, concatenated, split_outputs
from narkit.models.processors.base import Adjacency, BoundProcessor, Hidden, Processor
from narkit.models.processors.message_passing import (
    BoundMessagePassingProcessor,
    MessagePassing,
    Senders,
    everyone,
    neighbours,
)

TRIPLET_SIZE = 8


class TripletReasoning(eqx.Module):
    """Edge latents from triplets (Dudzik & Velickovic, 2022), with z = [x || hidden]:

    t_ijk = T1 z_i + T2 z_j + T3 z_k + E1 e_ij + E2 e_ik + E3 e_jk + G g     (8 wide)
    tri_jk = ReLU(O max over i of t_ijk)
    """

    nodes: tuple[Linear, Linear, Linear]
    edges: tuple[Linear, Linear, Linear]
    graph: Linear
    out: Linear

    def __init__(self, hidden_size: int, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 8)
        node_i, node_j, node_k = (Linear(2 * hidden_size, TRIPLET_SIZE, key=k) for k in keys[:3])
        edge_ij, edge_ik, edge_jk = (Linear(hidden_size, TRIPLET_SIZE, key=k) for k in keys[3:6])
        self.nodes = (node_i, node_j, node_k)
        self.edges = (edge_ij, edge_ik, edge_jk)
        self.graph = Linear(hidden_size, TRIPLET_SIZE, key=keys[6])
        self.out = Linear(TRIPLET_SIZE, hidden_size, key=keys[7])

    def bind(self, bases: Bases) -> BoundTripletReasoning:
        hidden_size = self.out.bias.shape[0]
        return BoundTripletReasoning(
            nodes=fold(concatenated(self.nodes), bases.node, [hidden_size]),
            edges=bases.edge.through(concatenated(self.edges)),
            graph=bases.graph.through(self.graph),
            out=self.out,
        )


class BoundTripletReasoning(eqx.Module):
    nodes: FoldedLinear
    edges: Basis
    graph: Basis
    out: Linear

    def __call__(self, scalars: Scalars, hidden: Hidden) -> Float[Array, "node node hidden"]:
        node_i, node_j, node_k = split_outputs(self.nodes(scalars.node, hidden), [TRIPLET_SIZE] * 3)
        edge_ij, edge_ik, edge_jk = split_outputs(self.edges(scalars.edge), [TRIPLET_SIZE] * 3)
        # Only terms with i take part in the maximum over i.
        best = triplets.triplet_max(node_i[:, None] + edge_ij, edge_ik)
        rest = node_j[:, None] + node_k[None] + edge_jk + self.graph(scalars.graph)
        return jax.nn.relu(self.out(best + rest))


class TripletProcessor(Processor):
    """Message passing over the encoded edges; decoders read triplet latents beside them."""

    message_passing: MessagePassing
    triplets: TripletReasoning
    latent_size: int = eqx.field(static=True)
    senders: ClassVar[Senders]
    gated: ClassVar[bool]

    def __init__(self, hidden_size: int, *, key: PRNGKeyArray):
        messages, triplet = jax.random.split(key)
        self.message_passing = MessagePassing(hidden_size, self.gated, key=messages)
        self.triplets = TripletReasoning(hidden_size, key=triplet)
        self.latent_size = hidden_size

    def bind(self, bases: Bases) -> BoundProcessor:
        triplets = self.triplets.bind(bases)
        edge = bases.edge.through(self.message_passing.edge)
        messages = BoundMessagePassingProcessor(self.message_passing.bind(bases), edge, type(self).senders)
        return BoundTripletProcessor(messages, triplets)


class BoundTripletProcessor(BoundProcessor):
    messages: BoundProcessor
    triplets: BoundTripletReasoning

    def __call__(self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden) -> Hidden:
        return self.messages(scalars, adjacency, hidden)

    def edge_latents(self, scalars: Scalars, hidden: Hidden) -> Float[Array, "node node hidden"]:
        return self.triplets(scalars, hidden)


class TripletGMPNN(TripletProcessor):
    """The baseline: every node sends to every node, and the update is gated."""

    senders: ClassVar[Senders] = staticmethod(everyone)
    gated: ClassVar[bool] = True


class TripletMPNN(TripletProcessor):
    """Triplet-GMPNN without the gate."""

    senders: ClassVar[Senders] = staticmethod(everyone)
    gated: ClassVar[bool] = False


class TripletPGN(TripletProcessor):
    """Triplet-GMPNN without the gate, in which nodes send only along pointers and edges."""

    senders: ClassVar[Senders] = staticmethod(neighbours)
    gated: ClassVar[bool] = False


class TripletGPGN(TripletProcessor):
    """Triplet-GMPNN in which nodes send only along pointers and edges."""

    senders: ClassVar[Senders] = staticmethod(neighbours)
    gated: ClassVar[bool] = True
