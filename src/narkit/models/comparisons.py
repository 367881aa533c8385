"""Comparisons of scalar inputs: which of two nodes has the smaller key, as a feature of the edge between them.

A network that reads keys as numbers tells two of them apart only as finely as its weights resolve; these features are
exact at any size. They are further inputs, made of those that an instance has:

    x_below_x  a feature of the edge from i to j: 1 if x_i < x_j, else 0, for every scalar input x of nodes
    x_below_g  a feature of node i: 1 if x_i < g, else 0, for every scalar input g of the graph

Positions are not compared: they are drawn at random.
"""

from __future__ import annotations

from collections.abc import Collection

import jax.numpy as jnp
from jaxtyping import Array

from narkit.spec import Kind, Location, Probe, Spec, Stage

POSITIONS = "pos"


def comparisons(spec: Spec) -> dict[str, tuple[str, str]]:
    """Returns the comparisons of an algorithm's inputs by name, each with the two inputs that are compared."""
    nodes, graphs = (_scalar_inputs(spec, location) for location in (Location.NODE, Location.GRAPH))
    pairs = [(node, node) for node in nodes] + [(node, graph) for node in nodes for graph in graphs]
    named = {f"{left}_below_{right}": (left, right) for left, right in pairs}
    if taken := set(named) & set(spec):
        raise ValueError(f"expected probes with other names than those of comparisons, got {sorted(taken)}")
    return named


def _scalar_inputs(spec: Spec, location: Location) -> list[str]:
    return [
        name
        for name, probe in spec.items()
        if probe.stage is Stage.INPUT and probe.kind is Kind.SCALAR and probe.location is location and name != POSITIONS
    ]


def with_comparisons(spec: Spec, wanted: Collection[str] | None = None) -> Spec:
    """Returns the spec with the comparisons of its inputs: all of them, or only those whose names are wanted."""
    found = {
        name: Probe(Stage.INPUT, Location.EDGE if left == right else Location.NODE, Kind.SCALAR)
        for name, (left, right) in comparisons(spec).items()
        if wanted is None or name in wanted
    }
    return {**spec, **found}


def compare(spec: Spec, inputs: dict[str, Array], wanted: Collection[str]) -> dict[str, Array]:
    """Returns the inputs of a batch, as networks read them, with the comparisons that are wanted. `spec` has none."""
    made = {}
    for name, (left, right) in comparisons(spec).items():
        if name in wanted:
            ours, others = inputs[left], inputs[right]
            below = ours[..., :, None] < others[..., None, :] if left == right else ours < others[..., None]
            made[name] = below.astype(jnp.result_type(float))
    return {**inputs, **made}
