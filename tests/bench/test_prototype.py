"""The library's network is that of the development runs: the arm `ank` of benchmarks/development, weight for weight."""

import dataclasses
import functools
import importlib.util
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import narkit
from narkit.models import objective
from narkit.models.edge_pointers import is_edge_pointer
from narkit.models.encoders import feature_location, num_scalars
from narkit.models.layers import Linear
from narkit.models.network import DeviceBatch
from narkit.models.processors import TEAM_PLUS
from narkit.models.processors.team import TEAM
from narkit.models.unrolling import unroll
from narkit.spec import Location

FOLDER = Path(__file__).parents[2] / "benchmarks" / "development"
HIDDEN = 6


@pytest.fixture(scope="module")
def prototype():
    """The modules of the development runs."""
    found = {}
    for name in ("network", "arms"):  # the second imports the first by name
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        found[name] = importlib.util.module_from_spec(spec)
        sys.modules[name] = found[name]
        spec.loader.exec_module(found[name])
    yield found
    for name in found:
        del sys.modules[name]


def as_prototype(network, reasoner: narkit.Reasoner, algorithm: str, options):
    """The prototype with the weights of a reasoner."""
    net = network.Net(algorithm, options, HIDDEN, key=jax.random.key(0))
    processor: Any = reasoner.processor
    messages = processor.message_passing
    assert reasoner.attention_terms is not None
    tea, maxima = processor.attention, processor.attention.maxima
    pairs = zip((tea.edge_ij, tea.edge_ik, tea.edge_jk), tea.reversed_edges, strict=True)
    weights = {
        "enc": encoders(reasoner, algorithm, net),
        "tea_nodes": [tea.node_i, tea.node_j, tea.node_k],
        "tea_edges": [list(pair) for pair in pairs],
        "tea_graph": tea.graph,
        "a": tea.attention,
        "values": [tea.value, *tea.further_values],
        "skip": list(tea.residual),
        "tri": reasoner.attention_terms[algorithm],
        "max_nodes": list(maxima.nodes),
        "max_edges": [list(linears) for linears in maxima.edges],
        "max_graph": maxima.graph,
        "max_out": maxima.out,
        "m_recv": messages.receiver,
        "m_send": messages.sender,
        "m_edge": messages.edge,
        "m_graph": messages.graph,
        "mlp": list(messages.mlp),
        "o1": messages.from_nodes,
        "o2": messages.from_messages,
        "o3": messages.from_means,
        "norm": messages.norm,
        "g1": messages.gate.from_nodes,
        "g2": messages.gate.from_messages,
        "g3": messages.gate.out,
        "dec": {},
    }
    for decoders in (reasoner.hint_decoders[algorithm], reasoner.output_decoders[algorithm]):
        for name, decoder in decoders.by_probe.items():
            parts = {"nodes": list(decoder.on_nodes), "edges": list(decoder.on_edges), "score": decoder.score}
            if decoder.edge_pointer is not None:
                parts["q_nodes"] = list(decoder.edge_pointer.query_nodes)
                parts["q_edges"] = decoder.edge_pointer.query_edge
                parts["k_edges"] = list(decoder.edge_pointer.keys)
            weights["dec"][name] = {part: value for part, value in parts.items() if value}
    assert jax.tree.structure(weights) == jax.tree.structure(net.p)
    assert [leaf.shape for leaf in jax.tree.leaves(weights)] == [leaf.shape for leaf in jax.tree.leaves(net.p)]
    return eqx.tree_at(lambda net: net.p, net, weights)


def encoders(reasoner, algorithm, net):
    """One Linear for all probes of a place: in the prototype the order is that of the spec."""
    spec, own = reasoner.spec(algorithm), reasoner.encoders[algorithm]
    at = {location: [] for location in Location}
    for name in net.encoded:
        at[feature_location(spec[name])] += list(own.linears[name])
    plain = [name for name in own.linears if not is_edge_pointer(spec[name])]
    for name in net.edge_pointers:
        linear, rows, begin = own.pointed_at[name], [], 0
        for place in (Location.EDGE, Location.EDGE, Location.NODE):
            blocks = {}
            for each in plain:
                if feature_location(spec[each]) is place:
                    blocks[each] = linear.weight[begin : begin + num_scalars(spec[each])]
                    begin += num_scalars(spec[each])
            rows += [blocks[each] for each in net.encoded if each in blocks]
        at[Location.EDGE].append(eqx.tree_at(lambda linear: linear.weight, linear, jnp.concatenate(rows)))
    return {location.value: joined(linears) for location, linears in at.items()}


def joined(linears: list[Linear]) -> Linear:
    weight = jnp.concatenate([linear.weight for linear in linears] or [jnp.zeros((0, HIDDEN))])
    bias = sum((linear.bias for linear in linears), jnp.zeros(HIDDEN))
    empty = Linear(1, HIDDEN, key=jax.random.key(0))
    return eqx.tree_at(lambda linear: (linear.weight, linear.bias), empty, (weight, bias))


@pytest.mark.parametrize("algorithm", ["floyd_warshall", pytest.param("matrix_chain_order", marks=pytest.mark.slow)])
def test_lossless_edge_pointers_are_those_of_the_development_runs(prototype, algorithm):
    with jax.enable_x64(True):
        processor = functools.partial(TEAM, **TEAM_PLUS, reads="both", mean=True)  # what TEAM+ was in those runs
        made = narkit.Reasoner(algorithm, processor, HIDDEN, edge_pointers="lossless", key=jax.random.key(1))
        rng = np.random.default_rng(2)
        reasoner = jax.tree.map(lambda leaf: leaf + 0.2 * rng.normal(size=leaf.shape), made)
        # Not damped: between outputs and the hints of the last step the prototype damps nothing, but the library does.
        arm = dataclasses.replace(prototype["arms"].ARMS["ank"], damp=1.0)
        net = as_prototype(prototype["network"], reasoner, algorithm, arm)
        batch = DeviceBatch.of(narkit.sample(algorithm, size=5, batch_size=2, seed=3))

        def ours(reasoner):
            return unroll(reasoner, batch, training=True)

        def loss(function, network):
            outputs, hints = function(network)
            parts = objective.output_losses(batch, outputs) | objective.hint_losses(batch, hints)
            return sum(parts.values(), jnp.zeros(())), (outputs, hints)

        def found(function, network):
            return jax.jit(jax.value_and_grad(lambda n: loss(function, n), has_aux=True))(network)

        (_, logits), gradient = found(ours, reasoner)
        (_, expected), wanted = found(lambda net: prototype["network"].unroll(net, batch), net)
        for mine, theirs in zip(logits, expected, strict=True):
            assert mine.keys() == theirs.keys()
            for name in mine:
                np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-8, atol=1e-9)
        as_theirs = as_prototype(prototype["network"], gradient, algorithm, arm)
        for part in ("a", "tri", "values", "dec", "o3", "max_out"):
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8), as_theirs.p[part], wanted.p[part]
            )
