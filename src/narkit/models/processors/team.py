"""TEAM (Jung & Ahn, "Triplet Edge Attention for Algorithmic Reasoning", 2023): the flagship."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from narkit.models.features import Bases, Scalars
from narkit.models.layers import Linear
from narkit.models.processors.base import Adjacency, BoundProcessor, Hidden, Processor
from narkit.models.processors.message_passing import BoundMessagePassing, MessagePassing
from narkit.models.triplet_edge_attention import BoundTripletEdgeAttention, TripletEdgeAttention


class TEAM(Processor):
    """Gated message passing in which the edges' share of the messages comes from Triplet Edge Attention.

    The attention reads the encoder's features, without the hidden state, and over all third nodes; decoders read the
    encoded edges, not the attention's latents. This layout gives the paper's parameter counts for all algorithms.
    """

    attention: TripletEdgeAttention
    message_passing: MessagePassing
    latent_size: int = eqx.field(static=True, default=0)

    def __init__(self, hidden_size: int, num_heads: int = 1, slope: float = 0.01, *, key: PRNGKeyArray):
        attention, messages = jax.random.split(key)
        self.attention = TripletEdgeAttention(hidden_size, num_heads, slope=slope, key=attention)
        self.message_passing = MessagePassing(hidden_size, gated=True, key=messages)

    def bind(self, bases: Bases) -> BoundProcessor:
        return BoundTEAM(self.attention.bind(bases), self.message_passing.edge, self.message_passing.bind(bases))


class BoundTEAM(BoundProcessor):
    attention: BoundTripletEdgeAttention
    edge: Linear
    message_passing: BoundMessagePassing

    def __call__(self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden) -> Hidden:
        edge_messages = self.edge(self.attention(scalars))
        return self.message_passing(scalars, hidden, edge_messages, None)
