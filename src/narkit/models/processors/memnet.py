"""Memnet: a one-hop end-to-end memory network (Sukhbaatar et al., 2015) as a processor."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from narkit.models.layers import LayerNorm, Linear
from narkit.models.processors.base import Adjacency, DenseProcessor, Hidden


class Memnet(DenseProcessor):
    """Nodes and the graph ask, a node's edges to its neighbours are its memories.

    A query is matched with every memory; the answer is the memories' contents weighted by the match, added to the
    query. The graph has no edges, so its answer is its own embedding, which reaches all nodes. The hidden state plays
    no part: what a run remembers, it remembers in its hints.

    dm-clrs's Memnet cannot learn (its embeddings start at zero behind a ReLU and its features are truncated to
    integers); this one is the network of the paper, differentiable throughout, and makes no claim of parity.
    """

    query: Linear  # B
    memory: Linear  # A
    content: Linear  # C
    out: Linear  # W
    norm: LayerNorm
    latent_size: int = eqx.field(static=True, default=0)

    def __init__(self, hidden_size: int, *, key: PRNGKeyArray):
        query, memory, content, out = (Linear(hidden_size, hidden_size, key=k) for k in jax.random.split(key, 4))
        self.query, self.memory, self.content, self.out = query, memory, content, out
        self.norm = LayerNorm(hidden_size)

    def process(
        self,
        nodes: Float[Array, "node hidden"],
        edges: Float[Array, "node node hidden"],
        graph: Float[Array, " hidden"],
        adjacency: Adjacency,
        hidden: Hidden,
    ) -> Hidden:
        queries = self.query(nodes)
        match = jnp.einsum("ih,ijh->ij", queries, self.memory(edges)) * queries.shape[-1] ** -0.5
        weights = jax.nn.softmax(jnp.where(adjacency, match, -jnp.inf), axis=-1)
        answers = queries + jnp.einsum("ij,ijh->ih", weights, self.content(edges))
        return self.norm(jax.nn.relu(self.out(answers) + self.out(self.query(graph))))
