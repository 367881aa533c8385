"""Feedback: hints in the form in which the next step of a network reads them.

A step reads scalars (see `features`). Those of nodes and of the graph are one row per node, inputs and hints alike, so
the whole row is fed back; those of edges are fed back probe by probe, without the inputs. A network that makes parts of
the feedback itself, along with the logits, hands them over; the others are made of the logits.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from narkit.loops.deferred_gradients import SAVED
from narkit.models.encoders import Reading, Values, edge_scalars, feature_location, num_scalars
from narkit.models.layers import split_outputs
from narkit.spec import Location, Spec


class Feedback(eqx.Module):
    """The scalars of hints, for a batch. A field that is empty is still to be computed, or there are no such hints."""

    rows: Float[Array, "batch node scalar"] | None = None  # all that a step reads of nodes and the graph
    edges: dict[str, Float[Array, "batch node node _"]] = eqx.field(default_factory=dict)
    edges_together: Float[Array, "batch node node _"] | None = None  # of hints that are decoded together, concatenated


@dataclass(frozen=True, eq=False)
class FeedbackForm:
    """The layout of a network's feedback: which probes stand where, and how steps read them there."""

    spec: Spec
    num_nodes: int
    encoded: tuple[str, ...]  # all probes that a step reads, in the order of the encoders
    together: tuple[str, ...]  # the hints in `edges_together`
    whole: tuple[str, ...] = ()  # the edge pointers that steps read whole

    @functools.cached_property
    def of_edges(self) -> frozenset[str]:
        """The encoded probes that are features of edges."""
        return frozenset(name for name in self.encoded if feature_location(self.spec[name]) is Location.EDGE)

    def read(self, inputs: Values, feedback: Feedback) -> Reading:
        """Returns what a step reads of the inputs and the hints."""
        rows = feedback.rows
        if rows is None:  # the same at every step
            rows = checkpoint_name(self._rows(inputs), SAVED)
        edges = {**edge_scalars(self.spec, inputs, self.whole), **feedback.edges}
        if feedback.edges_together is not None:
            widths = [num_scalars(self.spec[name]) for name in self.together]
            edges |= zip(self.together, split_outputs(feedback.edges_together, widths), strict=True)
        return Reading(rows, {name: edges[name] for name in self.encoded if name in self.of_edges})

    def missing(self, feedback: Feedback, hints: Iterable[str]) -> list[str]:
        """Returns the hints that a feedback does not have yet."""
        wanted = [name for name in hints if name not in feedback.edges]
        if feedback.rows is not None:
            wanted = [name for name in wanted if name in self.of_edges]
        if feedback.edges_together is not None:
            wanted = [name for name in wanted if name not in self.together]
        return wanted

    def complete(self, feedback: Feedback, inputs: Values, hints: Values) -> Feedback:
        """Returns the feedback with the values of hints that were missing."""
        rows, together = feedback.rows, feedback.edges_together
        if rows is None and any(name not in self.of_edges for name in hints):
            rows = self._rows({**inputs, **hints})
        edges = edge_scalars(self.spec, hints, self.whole)
        if together is None and self.together:
            together = jnp.concatenate([edges.pop(name) for name in self.together], axis=-1)
        return Feedback(rows, edges | feedback.edges, together)

    def of(self, inputs: Values, hints: Values) -> Feedback:
        """Returns the feedback of the values of all hints."""
        return self.complete(Feedback(), inputs, hints)

    def _rows(self, values: Values) -> Float[Array, "batch node scalar"]:
        in_rows = {name: values[name] for name in self.encoded if name not in self.of_edges}
        return Reading.of(self.spec, in_rows, self.num_nodes).rows
