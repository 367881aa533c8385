"""The base classes of processors, which turn features and a hidden state into the next hidden state."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Bool, Float

from narkit.models.features import Bases, Scalars

Adjacency = Bool[Array, "node node"]
Hidden = Float[Array, "node hidden"]
Triplets = Float[Array, "node node node"]


class BoundProcessor(eqx.Module):
    """A processor with the encoders' bases folded in. It runs at every step, for one sample."""

    @abc.abstractmethod
    def __call__(self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden) -> Hidden:
        """Returns the next hidden state."""

    def edge_latents(self, scalars: Scalars, hidden: Hidden) -> Float[Array, "node node latent"] | None:
        """Returns what decoders read beside the encoded edges, if anything."""
        return None

    def with_latents(
        self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden
    ) -> tuple[Hidden, Float[Array, "node node latent"] | None]:
        """Returns the next hidden state and the edge latents, which may have parts in common."""
        return self(scalars, adjacency, hidden), self.edge_latents(scalars, hidden)

    def attend(
        self, scalars: Scalars, hidden: Hidden, terms: Triplets | None
    ) -> tuple[Float[Array, "node node latent"] | None, Triplets | None]:
        """Returns the edge latents and, if there is an attention over third nodes (`Processor.attends`), its weights.

        `terms` are added to the logits of that attention. Several heads have them in common, and give their mean.
        """
        return self.edge_latents(scalars, hidden), None

    def step_attending(
        self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden, terms: Triplets | None
    ) -> tuple[Hidden, Float[Array, "node node latent"] | None, Triplets | None]:
        """Returns the next hidden state and what `attend` gives."""
        return *self.with_latents(scalars, adjacency, hidden), None


class Processor(eqx.Module):
    """The parameters of a processor. `latent_size` is the width of its `edge_latents`, 0 if it has none.

    `attends` says that it has an attention over third nodes, to whose logits edge pointers can be added.
    """

    latent_size: eqx.AbstractVar[int]
    attends: ClassVar[bool] = False

    @abc.abstractmethod
    def bind(self, bases: Bases) -> BoundProcessor:
        """Folds the bases of the features through the processor's Linears; done once, before the time loop."""


class DenseProcessor(Processor):
    """The simplest way to write a processor: from plain feature arrays, without factoring.

    A subclass has `latent_size = 0` and `process`, and needs to know nothing about scalars and bases.
    """

    @abc.abstractmethod
    def process(
        self,
        nodes: Float[Array, "node hidden"],
        edges: Float[Array, "node node hidden"],
        graph: Float[Array, " hidden"],
        adjacency: Adjacency,
        hidden: Hidden,
    ) -> Hidden:
        """Returns the next hidden state."""

    def bind(self, bases: Bases) -> BoundProcessor:
        return _BoundDenseProcessor(self, bases)


class _BoundDenseProcessor(BoundProcessor):
    processor: DenseProcessor
    bases: Bases

    def __call__(self, scalars: Scalars, adjacency: Adjacency, hidden: Hidden) -> Hidden:
        nodes = self.bases.node(scalars.node)
        edges = self.bases.edge(scalars.edge)
        graph = self.bases.graph(scalars.graph)
        return self.processor.process(nodes, edges, graph, adjacency, hidden)
