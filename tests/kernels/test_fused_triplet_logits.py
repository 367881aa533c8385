"""The fused kernel of the attention's logits, compiled for the CPU, equals the plain formula."""

import equinox as eqx
import jax
import numpy as np
import pytest
from jaxtyping import Array, PRNGKeyArray

import narkit
from narkit import TripletEdgeAttention
from narkit.kernels.fused import launch
from narkit.models import objective
from narkit.models.network import DeviceBatch
from narkit.models.processors import DenseProcessor

from .emulation import emulated, needs_compiler

pytestmark = needs_compiler


@pytest.mark.parametrize("num_nodes", [*(pytest.param(n, marks=pytest.mark.slow) for n in (2, 7)), 9])
def test_layer_equals_plain_layer(num_nodes: int) -> None:
    """Two graphs through the layer, and a gradient."""
    layer = TripletEdgeAttention(128, key=jax.random.key(0))
    keys = jax.random.split(jax.random.key(num_nodes), 4)
    axes = (2, num_nodes)
    shapes = ((*axes, 128), (*axes, num_nodes, 128), (2, 128), (*axes, num_nodes, 128))
    nodes, edges, graph, cotangent = (jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True))

    def run() -> tuple:
        latents, pull_back = jax.vjp(lambda e: jax.vmap(layer)(nodes, e, graph), edges)
        return latents, *pull_back(cotangent)

    expected = run()
    with emulated():
        assert "fused_kernel" in str(jax.make_jaxpr(jax.vmap(layer))(nodes, edges, graph))
        ours = run()
    for have, want in zip(ours, expected, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_several_heads_run_plain() -> None:
    layer = TripletEdgeAttention(128, num_heads=2, key=jax.random.key(0))
    arguments = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((3, 128), (3, 3, 128), (128,))]
    with launch.use("fused"):
        assert "fused_kernel" not in str(jax.make_jaxpr(layer)(*arguments))


class OwnProcessor(DenseProcessor):
    """What a user may write: the layer in a processor that knows nothing of kernels."""

    attention: TripletEdgeAttention
    latent_size: int = eqx.field(static=True, default=0)

    def __init__(self, hidden_size: int, *, key: PRNGKeyArray):
        self.attention = TripletEdgeAttention(hidden_size, key=key)

    def process(self, nodes: Array, edges: Array, graph: Array, adjacency: Array, hidden: Array) -> Array:
        return jax.nn.tanh(hidden + self.attention(nodes, edges, graph).max(0))


@pytest.mark.slow
def test_a_processor_of_ones_own_trains_with_the_layer() -> None:
    """In the time loop the kernel runs under `jax.vmap` over samples, beside kernels that take batches."""
    batch = DeviceBatch.of(narkit.sample("bfs", size=4, batch_size=2, seed=9))
    reasoner = narkit.Reasoner("bfs", OwnProcessor, key=jax.random.key(0))

    def loss(network: narkit.Reasoner) -> Array:
        return objective.loss(network, batch)

    expected = jax.tree.leaves(jax.jit(jax.value_and_grad(loss))(reasoner))
    with emulated():
        ours = jax.tree.leaves(jax.jit(jax.value_and_grad(lambda network: loss(network)))(reasoner))
    for have, want in zip(ours, expected, strict=True):
        np.testing.assert_allclose(have, want, atol=2e-3 * max(1.0, np.abs(want).max()))
