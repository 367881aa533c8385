"""The fused kernels of Triplet Edge Attention on dense features, compiled for the CPU, equal plain formulas."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, PRNGKeyArray

import narkit
from narkit import TripletEdgeAttention
from narkit.fused import accelerate, availability, edge_attention
from narkit.models import objective
from narkit.models.network import DeviceBatch
from narkit.models.processors import DenseProcessor

from .emulation import emulated, needs_compiler
from .plain_edge_attention import OF_ROUNDING, TOLERANCE, assert_equal_to_plain, fast, problem

pytestmark = needs_compiler

SLOW = [
    pytest.param(*case, marks=pytest.mark.slow) for case in [(2, True), (4, False), (5, False), (16, False), (33, True)]
]


@pytest.mark.parametrize(("num_nodes", "masked"), [(2, False), (5, True), (20, True), *SLOW])
def test_layer_equals_plain_layer(num_nodes: int, masked: bool) -> None:
    with emulated():
        assert_equal_to_plain(num_nodes, masked, jax.devices()[0])


@pytest.mark.slow
@pytest.mark.parametrize("shared_bytes", [50_000, 40_000])
def test_large_graphs_take_smaller_blocks(shared_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of eight, and of four nodes i, as if there were so many nodes that shared memory has no room for more."""
    monkeypatch.setattr(edge_attention, "MOST_SHARED_BYTES", shared_bytes)
    with emulated():
        assert_equal_to_plain(20, True, jax.devices()[0])


def test_sizes_of_blocks() -> None:
    sizes = [edge_attention._block_size(num_nodes) for num_nodes in (4, 5, 16, 64, 65, 208, 209, 496, 497)]
    assert sizes == [4, 8, 16, 16, 8, 8, 4, 4, None]


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
def test_gradients_are_those_of_the_plain_formulas(masked: bool) -> None:
    layer, (nodes, edges, graph, *mask) = problem(2, 5, masked)
    cotangent = jax.random.normal(jax.random.key(2), edges.shape)

    def gradients() -> list:
        def run(layer: TripletEdgeAttention, *features: Array) -> Array:
            return jax.vmap(fast(layer))(*features, *mask)

        pull_back = jax.jit(lambda *inputs: jax.vjp(run, *inputs)[1](cotangent))
        return jax.tree.leaves(pull_back(layer, nodes, edges, graph))

    expected = gradients()
    with emulated():
        ours = gradients()
    for have, want in zip(ours, expected, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)


def test_one_graph_and_seeds() -> None:
    """A graph alone, and a batch for each of two layers, one of which is the same."""
    layer, (nodes, edges, graph) = problem(2, 3, False)
    layers = jax.tree.map(lambda x: jnp.stack([x, -x]), layer)

    @jax.jit
    def run(layer: TripletEdgeAttention, layers: TripletEdgeAttention) -> tuple:
        return (
            jax.vmap(fast(layer))(nodes, edges, graph),
            fast(layer)(nodes[1], edges[1], graph[1]),
            jax.vmap(lambda layer: jax.vmap(fast(layer))(nodes, edges, graph))(layers),
            jax.vmap(lambda layer, *features: fast(layer)(*features))(layers, nodes, edges, graph),
        )

    with emulated():
        together, alone, of_seeds, in_pairs = run(layer, layers)
    # Products of nodes are the compiler's, which sums in another order for another batch.
    np.testing.assert_allclose(alone, together[1], atol=TOLERANCE)
    np.testing.assert_allclose(of_seeds[0], together, atol=TOLERANCE)
    np.testing.assert_allclose(in_pairs, np.stack([of_seeds[0, 0], of_seeds[1, 1]]), atol=TOLERANCE)
    assert np.abs(of_seeds[1] - together).max() > 0.01


def test_any_activation() -> None:
    layer, features = problem(1, 3, False, activation=jnp.tanh)
    expected = jax.vmap(layer)(*features)
    with emulated():
        ours = jax.vmap(fast(layer))(*features)
    np.testing.assert_allclose(ours, expected, atol=OF_ROUNDING)
    assert np.asarray(ours).min() < 0


def test_numbers_beyond_half_precision_stay_finite() -> None:
    layer, (nodes, edges, graph) = problem(1, 3, False)
    with emulated():
        latents = jax.vmap(fast(layer))(1e6 * nodes, 1e6 * edges, graph)
    assert np.isfinite(latents).all()


@pytest.mark.parametrize(("num_nodes", "num_heads", "kernels"), [(3, 2, []), (497, 1, ["triplet_logits"])])
def test_what_the_kernels_are_not_made_for(num_nodes: int, num_heads: int, kernels: list[str]) -> None:
    """Several heads run plain; graphs whose logits shared memory has no room for have a kernel for these alone."""
    layer = TripletEdgeAttention(128, num_heads=num_heads, key=jax.random.key(0))
    shapes = (num_nodes, 128), (num_nodes, num_nodes, 128), (128,)
    with availability.use("fused"):
        program = str(jax.make_jaxpr(fast(layer))(*(jax.ShapeDtypeStruct(shape, "float32") for shape in shapes)))
    assert [name for name in ("pair_vectors", "edge_attention", "triplet_logits") if f"'{name}'" in program] == kernels


class OwnProcessor(DenseProcessor):
    """What a user may write: a processor that asks for the fast form of the layer and knows nothing else of kernels."""

    attention: TripletEdgeAttention
    latent_size: int = eqx.field(static=True, default=0)

    def __init__(self, hidden_size: int, *, key: PRNGKeyArray):
        self.attention = TripletEdgeAttention(hidden_size, key=key)

    def process(self, nodes: Array, edges: Array, graph: Array, adjacency: Array, hidden: Array) -> Array:
        return jax.nn.tanh(hidden + fast(self.attention)(nodes, edges, graph).max(0))


@pytest.mark.slow
def test_a_processor_of_ones_own_trains_with_the_layer() -> None:
    """In the time loop the kernels run under `jax.vmap` over samples, beside kernels that take batches."""
    batch = DeviceBatch.of(narkit.sample("bfs", size=4, batch_size=2, seed=9))
    reasoner = narkit.Reasoner("bfs", OwnProcessor, key=jax.random.key(0))

    def loss(network: narkit.Reasoner) -> Array:
        return objective.loss(network, batch, bind=accelerate(network).form)

    expected = jax.tree.leaves(jax.jit(jax.value_and_grad(loss))(reasoner))
    with emulated():
        ours = jax.tree.leaves(jax.jit(jax.value_and_grad(lambda network: loss(network)))(reasoner))
    for have, want in zip(ours, expected, strict=True):
        np.testing.assert_allclose(have, want, atol=OF_ROUNDING * max(1.0, np.abs(want).max()))
