"""What `narkit.fused.accelerate` finds: the fast form of a network, and what of it does not run fast and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from narkit.fused import availability, reasoner
from narkit.fused.attention_layer import FusedTripletEdgeAttention
from narkit.fused.recognition import Place, Refusal, check_attention, check_network, recognise_processor
from narkit.models.network import Reasoner
from narkit.models.triplet_edge_attention import TripletEdgeAttention
from narkit.models.unrolling import Unrolling


@dataclass(frozen=True)
class Acceleration:
    """The fast form of a network, or why it has none.

    The `form` of a `Reasoner` is the function that binds it (`bind=` of `unroll` and `loss`), that of a layer is a
    layer that is called alike. It is None where nothing runs in kernels. `plain` gives the reason for every part that
    runs by the plain formulas; it is empty if the whole network runs in kernels.
    """

    form: Any
    plain: Mapping[str, str]
    parts: tuple[str, ...]

    @property
    def fast(self) -> bool:
        """True if the whole network runs in kernels."""
        return not self.plain

    @property
    def reason(self) -> str:
        """The reasons why parts run by the plain formulas, in one line; "" if none do."""
        if self.form is None:
            return next(iter(self.plain.values()))
        return "; ".join(f"{part}: {reason}" for part, reason in self.plain.items())

    @property
    def report(self) -> dict[str, Any]:
        """The same as entries of a record."""
        parts = {part: self.plain.get(part, "fast") for part in self.parts}
        return {"fast": self.fast, "reason": self.reason, "parts": parts}

    def __str__(self) -> str:
        fast = [part for part in self.parts if part not in self.plain]
        if not fast:
            return f"runs by plain formulas: {self.reason}"
        if self.fast:
            return "runs in fused kernels"
        return f"runs in fused kernels ({', '.join(fast)}) and by plain formulas ({self.reason})"


def accelerate(network: Any, unrolling: Unrolling | None = None) -> Acceleration:
    """Does what `narkit.fused.accelerate` describes."""
    if not isinstance(network, Reasoner | TripletEdgeAttention):
        known = "narkit.Reasoner or narkit.TripletEdgeAttention"
        return _refused(f"expected a {known}, got a {type(network).__name__}", ("network",))
    parts = ("processor", "decoders") if isinstance(network, Reasoner) else ("attention",)
    reason = availability.refusal()
    if reason is not None:
        return _refused(reason, parts)
    try:
        if isinstance(network, TripletEdgeAttention):
            check_attention(network, rectified=False)
            return Acceleration(FusedTripletEdgeAttention(network), {}, parts)
        check_network(network, unrolling)
    except Refusal as refusal:
        return _refused(str(refusal), parts)
    places = (Place.of(network, algorithm) for algorithm in network.algorithms)
    reasons = (recognise_processor(network.processor, place)[1] for place in places)
    reason = next(filter(None, reasons), "")
    return Acceleration(reasoner.bind, {"processor": reason} if reason else {}, parts)


def _refused(reason: str, parts: tuple[str, ...]) -> Acceleration:
    return Acceleration(None, dict.fromkeys(parts, reason), parts)
