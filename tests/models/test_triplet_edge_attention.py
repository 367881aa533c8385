"""Triplet Edge Attention against the paper's equations, written out literally and in float64."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import PRNGKeyArray

import narkit
from narkit.models.features import Bases, Basis, Scalars
from narkit.models.processors.team import TEAM
from narkit.models.triplet_edge_attention import TripletEdgeAttention

NODES, HIDDEN = 4, 6


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def make(num_heads: int = 1, **options) -> TripletEdgeAttention:
    """A layer whose parameters, biases too, are random."""
    layer = TripletEdgeAttention(HIDDEN, num_heads, key=jax.random.key(0), **options)
    leaves, structure = jax.tree.flatten(layer)
    rng = np.random.default_rng(1)
    return jax.tree.unflatten(structure, [jnp.asarray(rng.normal(size=leaf.shape) * 0.5) for leaf in leaves])


def features(seed: int = 2):
    rng = np.random.default_rng(seed)
    shapes = (NODES, HIDDEN), (NODES, NODES, HIDDEN), (HIDDEN,)
    return tuple(jnp.asarray(rng.normal(size=shape)) for shape in shapes)


# k is allowed where mask[i, k] or mask[j, k]: nodes 2 and 3 have no neighbours, so the edges between them have none.
MASK = jnp.array([[1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]], bool)


def equations(xp, layer, x, e, g, mask=None, activation=None):
    """Equations 1 to 4, one triplet after the other. `xp` is NumPy, or JAX for the gradients."""
    n = len(x)
    nodes, edges = (layer.node_i, layer.node_j, layer.node_k), (layer.edge_ij, layer.edge_ik, layer.edge_jk)
    linears = (*nodes, *edges, layer.graph)
    W = xp.concatenate([linear.weight for linear in linears]).T
    bias = sum(linear.bias for linear in linears)
    activation = activation or (lambda values: xp.maximum(values, 0.0))
    num_heads, width = layer.attention.shape
    rows = []
    for i in range(n):
        for j in range(n):
            third = [k for k in range(n) if mask is None or mask[i, k] or mask[j, k]]
            heads = []
            for m in range(num_heads):
                share = slice(m * width, (m + 1) * width)
                unnormalised = []
                for k in third:
                    t = W @ xp.concatenate([x[i], x[j], x[k], e[i, j], e[i, k], e[j, k], g]) + bias
                    leaky = xp.where(t > 0, t, layer.slope * t)[share]
                    unnormalised.append(xp.exp(layer.attention[m] @ leaky + layer.attention_bias[m]))
                total = sum(unnormalised)
                values = [(e[i, k] @ layer.value.weight + layer.value.bias)[share] for k in third]
                mixed = sum((w / total * v for w, v in zip(unnormalised, values, strict=True)), xp.zeros(width))
                heads.append(activation(mixed))
            rows.append(xp.concatenate(heads))
    return xp.stack(rows).reshape(n, n, -1)


def in_numpy(layer):
    return jax.tree.map(np.asarray, layer)


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])
@pytest.mark.parametrize("num_heads", [1, 3, 6])
def test_values(num_heads, mask):
    layer, (x, e, g) = make(num_heads), features()
    expected = equations(np, in_numpy(layer), np.asarray(x), np.asarray(e), np.asarray(g), mask)
    np.testing.assert_allclose(layer(x, e, g, mask), expected, rtol=1e-10, atol=1e-12)
    if mask is not None:
        assert (expected[2:, 2:] == 0).all()


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])
def test_gradients(mask):
    cotangent = jnp.asarray(np.random.default_rng(3).normal(size=(NODES, NODES, HIDDEN)))
    arguments = (make(2), *features())

    def ours(layer, x, e, g):
        return jnp.sum(cotangent * layer(x, e, g, mask))

    def papers(layer, x, e, g):
        return jnp.sum(cotangent * equations(jnp, layer, x, e, g, mask))

    gradients = jax.grad(ours, argnums=(0, 1, 2, 3))(*arguments)
    expected = jax.grad(papers, argnums=(0, 1, 2, 3))(*arguments)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10), gradients, expected)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


def test_nothing_allowed_gives_zeros_and_finite_gradients():
    layer, (x, e, g) = make(), features()
    nothing = jnp.zeros((NODES, NODES), bool)
    latents, gradient = jax.value_and_grad(lambda e: jnp.sum(layer(x, e, g, nothing) ** 2))(e)
    assert latents == 0 and jnp.array_equal(gradient, jnp.zeros_like(e))


def test_large_logits_do_not_overflow():
    layer, (x, e, g) = make(), features()
    for mask in (None, MASK):
        value, gradient = jax.value_and_grad(lambda x, mask=mask: jnp.sum(layer(x, e, g, mask)))(1e4 * x)
        assert jnp.isfinite(value) and jnp.isfinite(gradient).all()


def test_the_activation_is_a_choice():
    x, e, g = features()
    for activation, in_np in ((jax.nn.relu, None), (jnp.tanh, np.tanh), (lambda values: values, lambda values: values)):
        layer = make(activation=activation)
        expected = equations(np, in_numpy(layer), np.asarray(x), np.asarray(e), np.asarray(g), None, in_np)
        np.testing.assert_allclose(layer(x, e, g), expected, rtol=1e-10, atol=1e-12)


def test_weights_of_allowed_third_nodes_sum_to_one():
    x, e, g = features()
    weights = make(2).attention_weights(x, e, g, MASK)
    allowed = (MASK[:, None] | MASK[None]).any(-1)
    np.testing.assert_allclose(weights.sum(-1), np.broadcast_to(allowed, (2, NODES, NODES)), atol=1e-12)


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])
@pytest.mark.parametrize("num_scalars", [0, 3])
def test_factored_features_give_the_same(num_scalars, mask):
    rng = np.random.default_rng(4)

    def basis(count):
        return Basis(jnp.asarray(rng.normal(size=(count, HIDDEN))), jnp.asarray(rng.normal(size=HIDDEN)))

    def scalars(*shape):
        return jnp.asarray(rng.normal(size=shape))

    bases = Bases(basis(2), basis(num_scalars), basis(1))
    values = Scalars.of(scalars(NODES, 2), scalars(NODES, NODES, num_scalars), scalars(1))
    dense = bases.node(values.node), bases.edge(values.edge), bases.graph(values.graph)
    layer = make(2)
    np.testing.assert_allclose(layer.bind(bases)(values, mask), layer(*dense, mask), rtol=1e-10, atol=1e-12)


def test_batches_are_vmapped():
    layer = make(2)
    batch = jax.tree.map(lambda a, b: jnp.stack([a, b]), features(5), features(6))
    together = jax.vmap(layer)(*batch)
    for i, seed in enumerate((5, 6)):
        np.testing.assert_allclose(together[i], layer(*features(seed)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("hidden_size", [0, False])
def test_the_width_is_a_whole_number(hidden_size):
    with pytest.raises(ValueError, match="hidden_size: expected"):
        narkit.TripletEdgeAttention(hidden_size, key=jax.random.key(0))


@pytest.mark.parametrize("num_heads", [0, 4, 7])
def test_heads_must_divide_the_width(num_heads):
    with pytest.raises(
        ValueError, match=r"divides the hidden size, got . heads for size 6; choose one of \[1, 2, 3, 6\]"
    ):
        narkit.TripletEdgeAttention(6, num_heads, key=jax.random.key(0))


class OfTheOtherEnd(TripletEdgeAttention):
    """Mixes the values of the receiver's edges, in one method."""

    def __init__(self, *, key: PRNGKeyArray):
        super().__init__(8, key=key)

    def mix(self, weights, values, edge="ik"):
        return super().mix(weights, values, "jk")


def test_what_a_subclass_computes_is_computed_inside_team_too():
    team = TEAM(8, key=jax.random.key(0))
    other = eqx.tree_at(lambda t: t.attention, team, OfTheOtherEnd(key=jax.random.key(1)))
    own = OfTheOtherEnd(key=jax.random.key(1))
    keys = jax.random.split(jax.random.key(2), 7)
    bases = Bases(*(Basis(jax.random.normal(key, (2, 8)), jnp.zeros(8)) for key in keys[:3]))
    scalars = Scalars.of(
        jax.random.normal(keys[3], (5, 2)), jax.random.normal(keys[4], (5, 5, 2)), jax.random.normal(keys[5], (2,))
    )
    dense = bases.node(scalars.node), bases.edge(scalars.edge), bases.graph(scalars.graph)
    bound = other.attention.bind(bases)
    np.testing.assert_array_equal(bound(scalars), own(*dense))
    latents, weights = bound.with_weights(scalars)
    np.testing.assert_array_equal(latents, own(*dense))
    np.testing.assert_array_equal(weights, own.attention_weights(*dense))
    usual = TripletEdgeAttention(8, key=jax.random.key(1)).bind(bases)(scalars)
    assert not np.allclose(usual, latents)
    hidden = jax.random.normal(keys[6], (5, 8))
    everywhere = jnp.ones((5, 5), bool)
    assert other.bind(bases)(scalars, everywhere, hidden).shape == (5, 8)
    with pytest.raises(ValueError, match="OfTheOtherEnd is a subclass"):
        bound.with_weights(scalars, terms=jnp.zeros((5, 5, 5)))
