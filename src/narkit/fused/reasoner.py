"""A reasoner in fused kernels, from the parameters of the plain one. Made by `narkit.fused.accelerate`."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from narkit.fused.bases import bind_together
from narkit.fused.decoders import FusedDecoders, bind_decoders
from narkit.fused.loop import FUSED_LOOP
from narkit.fused.processors import FusedProcessor
from narkit.fused.recognition import Place, processor_binder
from narkit.fused.whole_pointers import WholePointers, scalars_of, terms_of_logits
from narkit.loops.backend import Backend
from narkit.loops.deferred_gradients import keep_values
from narkit.models.edge_pointers import Pointer
from narkit.models.encoders import Reading, row_columns
from narkit.models.features import Bases
from narkit.models.feedback import Feedback
from narkit.models.network import BoundNetwork, Hints, LastStep, Reasoner


class FusedReasoner(BoundNetwork):
    """A reasoner for one algorithm whose steps are kernels, where its processor has them."""

    algorithm: str = eqx.field(static=True)
    encoded: tuple[str, ...] = eqx.field(static=True)
    num_node_scalars: int = eqx.field(static=True)
    processor: FusedProcessor
    output_decoders: FusedDecoders
    hint_decoders: FusedDecoders
    whole: tuple[str, ...] = eqx.field(static=True)
    attention_terms: dict[str, Float[Array, " 3"]] | None
    loop: ClassVar[Backend] = FUSED_LOOP

    @property
    def decoded_together(self) -> tuple[str, ...]:
        return self.hint_decoders.decoded_together

    def step(
        self, reading: Reading, hidden: Float[Array, "batch node hidden"], *, soften: bool = False
    ) -> tuple[LastStep, dict[str, Array], Feedback]:
        scalars = scalars_of(reading, self.num_node_scalars, self.whole)
        # The kernels backward read them again.
        scalars = eqx.tree_at(lambda s: s.edge, scalars, keep_values(scalars.edge))
        connected = reading.adjacency(self.spec)
        pointers = reading.pointers(self.whole)
        next_hidden, latents, attention = self.processor.step_attending(
            scalars, connected, hidden, self._to_logits(pointers)
        )
        whole = WholePointers(pointers, attention)
        logits, feedback = self.hint_decoders(scalars, hidden, next_hidden, latents, whole, soften=soften)
        return LastStep(scalars, hidden, next_hidden, pointers), logits, feedback

    def outputs(self, last: LastStep) -> dict[str, Array]:
        latents, attention = self.processor.attend(last.scalars, last.hidden, self._to_logits(last.pointers))
        whole = WholePointers(last.pointers, attention)
        logits, _ = self.output_decoders(last.scalars, last.hidden, last.next_hidden, latents, whole)
        return logits

    def _to_logits(self, pointers: dict[str, Pointer]) -> Pointer | None:
        """Returns what is added to the logits of the processor's attention for edge pointers."""
        return None if self.attention_terms is None else terms_of_logits(self.attention_terms, pointers)


def bind(reasoner: Reasoner, algorithm: str) -> BoundNetwork:
    """Returns the fast form of a network that `accelerate` has recognised, for one of its algorithms."""
    reasoner.check_algorithm(algorithm)
    spec = reasoner.spec(algorithm)
    encoders = reasoner.encoders[algorithm]
    # Where hints are read again, they go from their decoders straight into the rows of the next step.
    columns = row_columns(spec, tuple(encoders.linears)) if reasoner.hints is Hints.ENCODED else None
    bind_processor = processor_binder(reasoner.processor, Place.of(reasoner, algorithm))

    def bind_all(bases: Bases) -> FusedReasoner:
        return FusedReasoner(
            algorithm=algorithm,
            encoded=tuple(encoders.linears),
            num_node_scalars=len(bases.node.directions),
            processor=bind_processor(reasoner.processor, bases),
            output_decoders=bind_decoders(reasoner.output_decoders[algorithm], spec, bases),
            hint_decoders=bind_decoders(reasoner.hint_decoders[algorithm], spec, bases, columns),
            whole=encoders.whole,
            attention_terms=(reasoner.attention_terms or {}).get(algorithm),
        )

    return bind_together(bind_all, encoders.bases(spec))
