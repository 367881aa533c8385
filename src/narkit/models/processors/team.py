"""TEAM (Jung & Ahn, "Triplet Edge Attention for Algorithmic Reasoning", 2023): the flagship."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from narkit.models.bound_attention import BoundTripletEdgeAttention, DenseTripletEdgeAttention
from narkit.models.features import Bases, Scalars
from narkit.models.layers import Linear
from narkit.models.processors.base import Adjacency, BoundProcessor, Hidden, Processor, Triplets
from narkit.models.processors.message_passing import BoundMessagePassing, MessagePassing
from narkit.models.triplet_edge_attention import Reads, Scale, ThirdEdges, TripletEdgeAttention, ValuesOf

Latents = Float[Array, "node node hidden"]


class TEAM(Processor):
    """Message passing in which the edges' share of the messages comes from Triplet Edge Attention.

    By default the attention reads the encoder's features, without the hidden state, and over all third nodes; decoders
    read the encoded edges, not the attention's latents; and the message passing is gated. This layout gives the paper's
    parameter counts for all algorithms.

    **Arguments**, beside those of `TripletEdgeAttention`:

    - `latents`: whether decoders read the attention's latents beside the encoded edges.
    - `gated`: whether the hidden state moves towards its update through a gate.

    Other readings of the paper have exactly as many parameters. One is `reads="both", residual=True, norm=True,
    gated=False`; and each of the two readings can be had with `third_edges="from"`, `values_of="receiver"` or both.
    """

    attention: TripletEdgeAttention
    message_passing: MessagePassing
    latent_size: int = eqx.field(static=True)
    attends: ClassVar[bool] = True

    def __init__(
        self,
        hidden_size: int,
        num_heads: int = 1,
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
        latents: bool = False,
        gated: bool = True,
        key: PRNGKeyArray,
    ):
        attention, messages = jax.random.split(key)
        self.attention = TripletEdgeAttention(
            hidden_size,
            num_heads,
            slope=slope,
            reads=reads,
            scale=scale,
            both_directions=both_directions,
            values_of_kj=values_of_kj,
            residual=residual,
            maxima=maxima,
            norm=norm,
            third_edges=third_edges,
            values_of=values_of,
            key=attention,
        )
        self.message_passing = MessagePassing(hidden_size, gated, key=messages)
        self.latent_size = hidden_size if latents else 0

    def bind(self, bases: Bases) -> BoundProcessor:
        return BoundTEAM(
            self.attention.bind(bases),
            self.message_passing.edge,
            self.message_passing.bind(bases),
            shows_latents=self.latent_size > 0,
        )


class BoundTEAM(BoundProcessor):
    attention: BoundTripletEdgeAttention | DenseTripletEdgeAttention
    edge: Linear
    message_passing: BoundMessagePassing
    shows_latents: bool = eqx.field(static=True)  # to the decoders

    def __call__(self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden) -> Hidden:
        return self._step(scalars, hidden)[0]

    def edge_latents(self, scalars: Scalars, hidden: Hidden) -> Latents | None:
        return self.attention(scalars, hidden=hidden) if self.shows_latents else None

    def with_latents(self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden) -> tuple[Hidden, Latents | None]:
        next_hidden, latents = self._step(scalars, hidden)
        return next_hidden, latents if self.shows_latents else None

    def _step(self, scalars: Scalars, hidden: Hidden) -> tuple[Hidden, Latents]:
        latents = self.attention(scalars, hidden=hidden)
        return self.message_passing(scalars, hidden, self.edge(latents), None), latents

    def attend(
        self, scalars: Scalars, hidden: Hidden, terms: Triplets | None
    ) -> tuple[Latents | None, Triplets | None]:
        latents, weights = self.attention.with_weights(scalars, hidden=hidden, terms=terms)
        return latents if self.shows_latents else None, weights.mean(0)

    def step_attending(
        self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden, terms: Triplets | None
    ) -> tuple[Hidden, Latents | None, Triplets | None]:
        latents, weights = self.attention.with_weights(scalars, hidden=hidden, terms=terms)
        next_hidden = self.message_passing(scalars, hidden, self.edge(latents), None)
        return next_hidden, latents if self.shows_latents else None, weights.mean(0)
