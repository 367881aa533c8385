"""Encoders: they turn probes into the scalars of factored features, and hold the bases that go with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from narkit.models.edge_pointers import is_edge_pointer, means, pointed_at
from narkit.models.features import Bases, Scalars, join
from narkit.models.layers import Linear
from narkit.spec import Kind, Location, Probe, Spec, Stage

Values = Mapping[str, Array]
"""Probe values as networks read them: floats, pointers as distributions over the nodes."""


class Encoders(eqx.Module):
    """One Linear per encoded probe (two for edge pointers), from its scalars to the hidden size."""

    linears: dict[str, tuple[Linear, ...]]
    hidden_size: int = eqx.field(static=True)
    pointed_at: dict[str, Linear] | None  # of edge pointers that are read whole: G of `edge_pointers`

    def __init__(self, spec: Spec, hidden_size: int, whole: Sequence[str] = (), *, key: PRNGKeyArray):
        """Builds encoders for every probe of `spec`; leave out those that are not to be encoded. `whole` names the edge
        pointers that are read whole."""
        keys = jax.random.split(key, len(spec))
        linears = {
            name: _linears(probe, hidden_size, key=k) for (name, probe), k in zip(spec.items(), keys, strict=True)
        }
        # In the order in which JAX gives dictionaries back, so that a network reads the same inside `jax.jit` and out.
        self.linears = dict(sorted(linears.items()))
        self.hidden_size = hidden_size
        self.pointed_at = None
        if whole:
            further = jax.random.split(jax.random.fold_in(key, 1), len(whole))
            inputs = _num_pointed_at(spec)
            self.pointed_at = {
                name: Linear(inputs, hidden_size, key=k, stddev=hidden_size**-0.5)
                for name, k in zip(sorted(whole), further, strict=True)
            }

    @property
    def whole(self) -> tuple[str, ...]:
        """The edge pointers that are read whole."""
        return tuple(self.pointed_at or ())

    def bases(self, spec: Spec) -> Bases:
        """Returns the bases of node, edge and graph features, in the order in which `scalars_of` has the scalars."""
        at = {location: [] for location in Location}
        for name, linears in self.linears.items():
            at[feature_location(spec[name])].extend(linears)
        at[Location.EDGE].extend((self.pointed_at or {}).values())
        return Bases(
            *(join(at[location], self.hidden_size) for location in (Location.NODE, Location.EDGE, Location.GRAPH))
        )


def scalars_of(spec: Spec, values: Values, num_nodes: int) -> Scalars:
    """Returns the scalars of one sample at one step, in the order of `values`, which must be that of the encoders."""
    return Scalars.of(*(_joined(spec, values, num_nodes, at) for at in (Location.NODE, Location.EDGE, Location.GRAPH)))


def _joined(spec: Spec, values: Values, num_nodes: int, location: Location) -> Array:
    """Concatenates the scalars that are features of nodes, edges or the graph."""
    parts = [_scalars(spec[name], value) for name, value in values.items() if feature_location(spec[name]) is location]
    shapes = {Location.NODE: (num_nodes,), Location.EDGE: (num_nodes, num_nodes), Location.GRAPH: ()}
    return jnp.concatenate(parts, -1) if parts else jnp.zeros((*shapes[location], 0))


class Reading(eqx.Module):
    """The values that a network reads at a step, for a batch."""

    rows: Float[Array, "batch node scalar"]  # as in `Scalars`
    # Of the probes that are features of edges their scalars, or edge pointers as they are where they are read whole.
    edges: dict[str, Float[Array, "batch node node _"]]

    @classmethod
    def of(cls, spec: Spec, values: Values, num_nodes: int, whole: Sequence[str] = ()) -> Reading:
        """Makes the reading from the values of a batch, in the order of the encoders."""
        rows = jax.vmap(lambda sample: scalars_of(spec, sample, num_nodes).rows)(values)
        return cls(rows, edge_scalars(spec, values, whole))

    def scalars(self, num_node_scalars: int, whole: Sequence[str] = ()) -> Scalars:
        parts = [means(values) if name in whole else values for name, values in self.edges.items()]
        if whole:
            plain = self._concatenated([values for name, values in self.edges.items() if name not in whole])
            node = self.rows[..., :num_node_scalars]
            parts += [pointed_at(self.edges[name], plain, node) for name in whole]
        return Scalars(self.rows, self._concatenated(parts), num_node_scalars)

    def _concatenated(self, parts: list[Array]) -> Float[Array, "batch node node scalar"]:
        none = jnp.zeros((*self.rows.shape[:2], self.rows.shape[1], 0))
        return jnp.concatenate(parts, axis=-1) if parts else none

    def pointers(self, whole: Sequence[str]) -> dict[str, Float[Array, "batch node node node"]]:
        """Returns the edge pointers that are read whole."""
        return {name: self.edges[name] for name in whole}

    def adjacency(self, spec: Spec) -> Bool[Array, "batch node node"]:
        """Returns who may send to whom: both ways along node pointers and edge masks, and everyone to itself."""
        connected = jnp.broadcast_to(
            jnp.eye(self.rows.shape[1], dtype=bool), (*self.rows.shape[:2], self.rows.shape[1])
        )
        for name, scalars in self.edges.items():
            probe = spec[name]
            if probe.location is Location.NODE or probe.kind is Kind.MASK:
                either = scalars[..., 0] + jnp.swapaxes(scalars[..., 0], 1, 2)
                connected |= either > (0.5 if probe.location is Location.NODE else 0.0)
        return connected


def edge_scalars(spec: Spec, values: Values, whole: Sequence[str] = ()) -> dict[str, Array]:
    """Returns the scalars of the probes that are features of edges; edge pointers in `whole` as they are."""
    found = {name: value for name, value in values.items() if feature_location(spec[name]) is Location.EDGE}
    return {name: value if name in whole else _scalars(spec[name], value) for name, value in found.items()}


def edge_columns(spec: Spec, names: Sequence[str]) -> dict[str, int]:
    """Returns at which column of an edge's scalars those of a probe begin, for every encoded probe that is there."""
    columns, at = {}, 0
    for name in names:
        if feature_location(spec[name]) is Location.EDGE:
            columns[name] = at
            at += 2 if is_edge_pointer(spec[name]) else num_scalars(spec[name])
    return columns


def _num_pointed_at(spec: Spec) -> int:
    """Returns the number of scalars of `pointed_at`: an edge's twice, without edge pointers, and a node's."""
    plain = [probe for probe in spec.values() if not is_edge_pointer(probe)]
    edge, node = (
        sum(num_scalars(probe) for probe in plain if feature_location(probe) is location)
        for location in (Location.EDGE, Location.NODE)
    )
    return 2 * edge + node


def row_columns(spec: Spec, names: Sequence[str]) -> dict[str, int]:
    """Returns at which column of a node's row the scalars of a probe begin, for every encoded probe that is there."""
    columns, at = {}, 0
    for location in (Location.NODE, Location.GRAPH):
        for name in names:
            if feature_location(spec[name]) is location:
                columns[name] = at
                at += num_scalars(spec[name])
    return columns


def num_scalars(probe: Probe) -> int:
    """Returns the number of scalars that a probe has in a node's row."""
    return probe.num_classes or 1


def _linears(probe: Probe, hidden_size: int, *, key: PRNGKeyArray) -> tuple[Linear, ...]:
    # Scalar hints are drawn with a smaller spread, as the reference's `xavier_on_scalars` does.
    stddev = hidden_size**-0.5 if probe.stage is Stage.HINT and probe.kind is Kind.SCALAR else None
    inputs = probe.num_classes if probe.kind is Kind.CATEGORICAL else 1
    count = 2 if probe.location is Location.EDGE and probe.kind is Kind.POINTER else 1
    return tuple(Linear(inputs, hidden_size, key=k, stddev=stddev) for k in jax.random.split(key, count))


def feature_location(probe: Probe) -> Location:
    """Returns where an encoding is added: a pointer from a node is a feature of edges, one from the graph of nodes."""
    match probe.kind:
        case Kind.SCALAR | Kind.MASK | Kind.MASK_ONE | Kind.CATEGORICAL:
            return probe.location
        case Kind.POINTER | Kind.PERMUTATION_POINTER | Kind.SHOULD_BE_PERMUTATION:
            return Location.NODE if probe.location is Location.GRAPH else Location.EDGE
        case _:
            assert_never(probe.kind)


def _scalars(probe: Probe, value: Array) -> Array:
    """Returns the scalars of one probe, on a new last axis."""
    match probe.kind:
        case Kind.CATEGORICAL:
            return value
        case Kind.POINTER if probe.location is Location.EDGE:
            return means(value)
        case _:
            return value[..., None]


def as_values(spec: Spec, arrays: Mapping[str, Array], num_nodes: int) -> dict[str, Array]:
    """Returns stored probes (compact types, pointers as indices) as networks read them."""
    return {name: as_value(spec[name], array, num_nodes) for name, array in arrays.items()}


def as_value(probe: Probe, array: Array, num_nodes: int) -> Array:
    match probe.kind:
        case Kind.SCALAR | Kind.MASK | Kind.MASK_ONE | Kind.CATEGORICAL:
            return array.astype(float)
        case Kind.POINTER | Kind.PERMUTATION_POINTER | Kind.SHOULD_BE_PERMUTATION:
            return jax.nn.one_hot(array, num_nodes)
        case _:
            assert_never(probe.kind)
