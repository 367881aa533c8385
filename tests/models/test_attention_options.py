"""Triplet Edge Attention's options against their equations, written out literally and in float64."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import narkit
from narkit.models.features import Bases, Basis, Scalars
from narkit.models.processors.team import TEAM
from narkit.models.triplet_edge_attention import TripletEdgeAttention

NODES, HIDDEN = 4, 6

OPTIONS = {
    "both": {"reads": "both"},
    "log": {"scale": "log"},
    "directions": {"both_directions": True},
    "kj": {"values_of_kj": True},
    "residual": {"residual": True},
    "maxima": {"maxima": 2},
    "norm": {"norm": True},
    "from_third": {"third_edges": "from"},
    "receiver": {"values_of": "receiver"},
    "second_reading": {
        "reads": "both", "residual": True, "norm": True, "third_edges": "from", "values_of": "receiver",
    },
    "all": {
        "reads": "both", "scale": "log", "both_directions": True, "values_of_kj": True, "residual": True,
        "maxima": 2, "norm": True,
    },
}  # fmt: skip
MASK = jnp.array([[1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]], bool)


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def make(num_heads: int, options: dict) -> TripletEdgeAttention:
    """A layer whose parameters, biases too, are random."""
    layer = TripletEdgeAttention(HIDDEN, num_heads, key=jax.random.key(0), **options)
    leaves, structure = jax.tree.flatten(layer)
    rng = np.random.default_rng(1)
    return jax.tree.unflatten(structure, [jnp.asarray(rng.normal(size=leaf.shape) * 0.5) for leaf in leaves])


def features(seed: int = 2, num_nodes: int = NODES):
    rng = np.random.default_rng(seed)
    shapes = (num_nodes, HIDDEN), (num_nodes, num_nodes, HIDDEN), (HIDDEN,), (num_nodes, HIDDEN)
    return tuple(jnp.asarray(rng.normal(size=shape)) for shape in shapes)


def equations(xp, layer, x, e, g, hidden, mask, options):
    """The equations of the docstring, one triplet after the other. `xp` is NumPy, or JAX for the gradients."""
    n = len(x)
    z = {"inputs": x, "both": xp.concatenate([x, hidden], axis=1)}[options.get("reads", "inputs")]
    twice, far = options.get("both_directions"), options.get("values_of_kj")
    c = {"none": 1.0, "log": math.log(n) / math.log(16)}[options.get("scale", "none")]
    towards_third = e if options.get("third_edges", "to") == "to" else xp.swapaxes(e, 0, 1)
    num_heads, width = layer.attention.shape

    def at(linear, value):
        return value @ linear.weight + linear.bias

    def t(i, j, k):
        total = at(layer.node_i, z[i]) + at(layer.node_j, z[j]) + at(layer.node_k, z[k]) + at(layer.graph, g)
        total = total + at(layer.edge_ij, e[i, j]) + at(layer.edge_ik, towards_third[i, k])
        total = total + at(layer.edge_jk, towards_third[j, k])
        if twice:
            ji, ki, kj = layer.reversed_edges
            total = total + at(ji, e[j, i]) + at(ki, e[k, i]) + at(kj, e[k, j])
        return xp.where(total > 0, total, layer.slope * total)

    def value(i, j, k) -> Any:
        whose = i if options.get("values_of", "sender") == "sender" else j
        edges = [towards_third[whose, k], *([e[k, i]] if twice else []), *([e[k, j]] if far else [])]
        edges += [e[j, k]] if twice and far else []
        linears = [layer.value, *(layer.further_values or ())]
        return sum((at(*pair) for pair in zip(linears, edges, strict=True)), xp.zeros(num_heads * width))

    def narrow(i, j, k):
        nodes, edges = layer.maxima.nodes, layer.maxima.edges
        total = at(layer.maxima.graph, g) + sum(
            at(linear, z[node]) for linear, node in zip(nodes, (i, j, k), strict=True)
        )
        for linears, (a, b) in zip(edges, ((i, j), (i, k), (j, k)), strict=True):
            total = total + at(linears[0], e[a, b]) + (at(linears[1], e[b, a]) if twice else 0.0)
        return total

    rows = []
    for i in range(n):
        for j in range(n):
            third = [k for k in range(n) if mask is None or mask[i, k] or mask[j, k]]
            heads = []
            for m in range(num_heads):
                share = slice(m * width, (m + 1) * width)
                odds = [xp.exp(c * (layer.attention[m] @ t(i, j, k)[share] + layer.attention_bias[m])) for k in third]
                values = [value(i, j, k)[share] for k in third]
                heads.append(sum((o / sum(odds) * v for o, v in zip(odds, values, strict=True)), xp.zeros(width)))
            total = xp.concatenate(heads)
            if options.get("residual"):
                total = total + at(layer.residual[0], e[i, j]) + (at(layer.residual[1], e[j, i]) if twice else 0.0)
            if options.get("maxima"):
                best = functools.reduce(xp.maximum, [narrow(i, j, k) for k in range(n)])
                total = total + at(layer.maxima.out, best)
            total = xp.maximum(total, 0.0)
            if options.get("norm"):
                total = (total - total.mean()) / xp.sqrt(total.var() + 1e-5) * layer.norm.scale + layer.norm.offset
            rows.append(total)
    return xp.stack(rows).reshape(n, n, -1)


@pytest.mark.parametrize("name", OPTIONS)
def test_values(name):
    options = OPTIONS[name]
    layer, (x, e, g, hidden) = make(2 if name == "all" else 1, options), features()
    arrays = [np.asarray(array) for array in (x, e, g, hidden)]
    in_numpy = jax.tree.map(np.asarray, layer)
    for mask in (None, MASK):
        expected = equations(np, in_numpy, *arrays, mask, options)  # type: ignore[call-arg]
        np.testing.assert_allclose(layer(x, e, g, mask, hidden), expected, rtol=1e-9, atol=1e-11)


def test_gradients():
    """Of three nodes, since every operation on every triplet is one of its own here."""
    options = OPTIONS["all"]
    cotangent = jnp.asarray(np.random.default_rng(3).normal(size=(3, 3, HIDDEN)))

    def ours(layer, x, e, g, hidden):
        return jnp.sum(cotangent * layer(x, e, g, None, hidden))

    def literally(layer, x, e, g, hidden):
        return jnp.sum(cotangent * equations(jnp, layer, x, e, g, hidden, None, options))

    arguments = (make(1, options), *features(num_nodes=3))
    gradients = jax.grad(ours, argnums=(0, 1, 2, 3, 4))(*arguments)
    expected = jax.grad(literally, argnums=(0, 1, 2, 3, 4))(*arguments)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9), gradients, expected)


@pytest.mark.parametrize("name", OPTIONS)
def test_factored_features_give_the_same(name):
    rng = np.random.default_rng(4)

    def basis(count):
        return Basis(jnp.asarray(rng.normal(size=(count, HIDDEN))), jnp.asarray(rng.normal(size=HIDDEN)))

    def scalars(*shape):
        return jnp.asarray(rng.normal(size=shape))

    bases = Bases(basis(2), basis(3), basis(1))
    values = Scalars.of(scalars(NODES, 2), scalars(NODES, NODES, 3), scalars(1))
    dense = bases.node(values.node), bases.edge(values.edge), bases.graph(values.graph)
    hidden = scalars(NODES, HIDDEN)
    layer = make(2, OPTIONS[name])
    for mask in (None, MASK):
        factored = layer.bind(bases)(values, mask, hidden)
        np.testing.assert_allclose(factored, layer(*dense, mask, hidden), rtol=1e-9, atol=1e-11)


def test_options_leave_the_other_parameters_as_they_are():
    plain = TripletEdgeAttention(HIDDEN, key=jax.random.key(5))
    with_options = TripletEdgeAttention(HIDDEN, both_directions=True, residual=True, maxima=2, key=jax.random.key(5))
    for name in ("node_i", "edge_jk", "value"):
        assert jnp.array_equal(getattr(plain, name).weight, getattr(with_options, name).weight)


def test_a_layer_that_reads_hidden_states_asks_for_them():
    layer, (x, e, g, _) = make(1, OPTIONS["both"]), features()
    with pytest.raises(ValueError, match=r"reads 'both' needs the hidden states: pass hidden="):
        layer(x, e, g)


@pytest.mark.parametrize(("option", "value"), [("reads", "hidden"), ("scale", "logarithm"), ("third_edges", "form")])
def test_unknown_choices_are_refused(option, value):
    with pytest.raises(narkit.errors.UnknownNameError, match=value):
        TripletEdgeAttention(HIDDEN, key=jax.random.key(0), **{option: value})


def test_edges_in_one_direction_are_refused_beside_edges_in_both():
    with pytest.raises(
        ValueError, match=r"neither both_directions nor .* with third_edges='from' and values_of='sender'"
    ):
        TripletEdgeAttention(HIDDEN, third_edges="from", both_directions=True, key=jax.random.key(0))


def test_the_second_readings_have_as_many_parameters_as_the_first():
    def count(**options):
        made = jax.eval_shape(lambda key: TEAM(128, **options, key=key), jax.random.key(0))
        return sum(leaf.size for leaf in jax.tree.leaves(made))

    assert count() == 379_649
    for third_edges in ("to", "from"):
        for values_of in ("sender", "receiver"):
            direction = {"third_edges": third_edges, "values_of": values_of}
            assert count(reads="both", residual=True, norm=True, gated=False, **direction) == 379_649
