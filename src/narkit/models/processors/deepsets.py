"""Deep Sets (Zaheer et al., 2017): a node hears only itself, so nodes are processed as a set."""

from typing import ClassVar

from narkit.models.processors.message_passing import MessagePassingProcessor, Senders, only_oneself


class DeepSets(MessagePassingProcessor):
    """Message passing with self-loops only."""

    senders: ClassVar[Senders] = staticmethod(only_oneself)
    gated: ClassVar[bool] = False
