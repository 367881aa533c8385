"""MPNN (Gilmer et al., "Neural message passing for quantum chemistry", 2017) on the complete graph."""

from typing import ClassVar

from narkit.models.processors.message_passing import MessagePassingProcessor, Senders, everyone


class MPNN(MessagePassingProcessor):
    """Every node sends to every node."""

    senders: ClassVar[Senders] = staticmethod(everyone)
    gated: ClassVar[bool] = False


class GatedMPNN(MessagePassingProcessor):
    """MPNN with the gate of Triplet-GMPNN."""

    senders: ClassVar[Senders] = staticmethod(everyone)
    gated: ClassVar[bool] = True
