"""The message passing that most processors share: messages along edges, their maximum, an update, perhaps a gate.

With z = [x || hidden], where i sends and j receives:

    m_ij = MLP(ReLU(M1 z_j + M2 z_i + (message of the edge) + Mg g))
    m_j  = max over i of m_ij
    r    = LayerNorm(ReLU(O1 z + O2 m))
    hidden' = r, or with a gate c = sigmoid(G3 ReLU(G1 z + G2 m)): c r + (1 - c) hidden
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from narkit.models.features import Bases, Basis, FoldedLinear, Scalars, fold
from narkit.models.layers import LayerNorm, Linear, concatenated, max_over_first, split_outputs
from narkit.models.processors.base import Adjacency, BoundProcessor, Hidden, Processor

NO_MESSAGE = -1e6  # what a node that may not send contributes to the maximum
INITIAL_GATE_BIAS = -3.0  # gates start nearly closed


Senders = Callable[[Adjacency], Adjacency | None]
"""Chooses from the adjacency which nodes may send to which; None stands for everyone to everyone."""


def everyone(adjacency: Adjacency) -> None:
    """Lets every node send to every node."""
    return None


def neighbours(adjacency: Adjacency) -> Adjacency:
    """Lets nodes send along pointers and edges, and to themselves."""
    return adjacency


def only_oneself(adjacency: Adjacency) -> Adjacency:
    """Lets no node hear another."""
    return jnp.eye(len(adjacency), dtype=bool)


class Gate(eqx.Module):
    """The gate that moves the hidden state towards its update."""

    from_nodes: Linear
    from_messages: Linear
    out: Linear

    def __init__(self, hidden_size: int, *, key: PRNGKeyArray):
        nodes, messages, out = jax.random.split(key, 3)
        self.from_nodes = Linear(2 * hidden_size, hidden_size, key=nodes)
        self.from_messages = Linear(hidden_size, hidden_size, key=messages)
        self.out = Linear(hidden_size, hidden_size, key=out, bias=INITIAL_GATE_BIAS)


class MessagePassing(eqx.Module):
    """The parameters of message passing; `gate` is None for the ungated form."""

    receiver: Linear  # M1
    sender: Linear  # M2
    edge: Linear  # Me
    graph: Linear  # Mg
    mlp: tuple[Linear, Linear]
    from_nodes: Linear  # O1
    from_messages: Linear  # O2
    norm: LayerNorm
    gate: Gate | None

    def __init__(self, hidden_size: int, gated: bool, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 9)
        self.receiver = Linear(2 * hidden_size, hidden_size, key=keys[0])
        self.sender = Linear(2 * hidden_size, hidden_size, key=keys[1])
        self.edge = Linear(hidden_size, hidden_size, key=keys[2])
        self.graph = Linear(hidden_size, hidden_size, key=keys[3])
        self.mlp = (Linear(hidden_size, hidden_size, key=keys[4]), Linear(hidden_size, hidden_size, key=keys[5]))
        self.from_nodes = Linear(2 * hidden_size, hidden_size, key=keys[6])
        self.from_messages = Linear(hidden_size, hidden_size, key=keys[7])
        self.norm = LayerNorm(hidden_size)
        self.gate = Gate(hidden_size, key=keys[8]) if gated else None

    def bind(self, bases: Bases) -> BoundMessagePassing:
        hidden_size = self.graph.bias.shape[0]
        on_nodes = [self.receiver, self.sender, self.from_nodes]
        on_messages = [self.from_messages]
        if self.gate is not None:
            on_nodes.append(self.gate.from_nodes)
            on_messages.append(self.gate.from_messages)
        return BoundMessagePassing(
            on_nodes=fold(concatenated(on_nodes), bases.node, [hidden_size]),
            graph=bases.graph.through(self.graph),
            mlp=self.mlp,
            on_messages=concatenated(on_messages),
            norm=self.norm,
            gate=None if self.gate is None else self.gate.out,
        )


class BoundMessagePassing(eqx.Module):
    """Message passing that reads scalars; the edges' share of the messages is handed in."""

    on_nodes: FoldedLinear
    graph: Basis
    mlp: tuple[Linear, Linear]
    on_messages: Linear
    norm: LayerNorm
    gate: Linear | None

    def __call__(
        self,
        scalars: Scalars,
        hidden: Hidden,
        edge_messages: Float[Array, "node node hidden"],
        connected: Adjacency | None,
    ) -> Hidden:
        """Returns the next hidden state. `connected[i, j]` lets i send to j; None lets everyone."""
        size = hidden.shape[-1]
        from_nodes = split_outputs(self.on_nodes(scalars.node, hidden), [size] * (3 if self.gate is None else 4))
        to_receive, to_send = from_nodes[:2]
        messages = to_receive[None] + to_send[:, None] + edge_messages + self.graph(scalars.graph)
        for linear in self.mlp:
            messages = linear(jax.nn.relu(messages))
        if connected is not None:
            messages = jnp.where(connected[..., None], messages, NO_MESSAGE)
        from_messages = split_outputs(
            self.on_messages(max_over_first(messages)), [size] * (1 if self.gate is None else 2)
        )

        update = self.norm(jax.nn.relu(from_nodes[2] + from_messages[0]))
        if self.gate is None:
            return update
        openness = jax.nn.sigmoid(self.gate(jax.nn.relu(from_nodes[3] + from_messages[1])))
        return openness * update + (1.0 - openness) * hidden


class MessagePassingProcessor(Processor):
    """A processor that passes messages over the encoded edges. Subclasses choose who sends, and whether gated."""

    message_passing: MessagePassing
    senders: ClassVar[Senders]
    gated: ClassVar[bool]
    latent_size: int = eqx.field(static=True, default=0)

    def __init__(self, hidden_size: int, *, key: PRNGKeyArray):
        self.message_passing = MessagePassing(hidden_size, self.gated, key=key)

    def bind(self, bases: Bases) -> BoundProcessor:
        edge = bases.edge.through(self.message_passing.edge)
        return BoundMessagePassingProcessor(self.message_passing.bind(bases), edge, type(self).senders)


class BoundMessagePassingProcessor(BoundProcessor):
    message_passing: BoundMessagePassing
    edge: Basis
    senders: Senders = eqx.field(static=True)

    def __call__(self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden) -> Hidden:
        return self.message_passing(scalars, hidden, self.edge(scalars.edge), self.senders(adjacency))
