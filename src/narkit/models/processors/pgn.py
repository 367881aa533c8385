"""PGN (Velickovic et al., "Pointer graph networks", 2020)."""

from typing import ClassVar

from narkit.models.processors.message_passing import MessagePassingProcessor, Senders, neighbours


class PGN(MessagePassingProcessor):
    """Nodes send only along pointers and edges.

    Predicted edge masks are probabilities and never zero, so where they are hints the graph is complete from the
    second step on; the reference behaves in the same way.
    """

    senders: ClassVar[Senders] = staticmethod(neighbours)
    gated: ClassVar[bool] = False


class GatedPGN(MessagePassingProcessor):
    """PGN with the gate of Triplet-GMPNN."""

    senders: ClassVar[Senders] = staticmethod(neighbours)
    gated: ClassVar[bool] = True
