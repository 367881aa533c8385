"""The fused kernel of the attention's logits, compiled for the CPU, equals the plain formula."""

import jax
import numpy as np
import pytest

from narkit import TripletEdgeAttention
from narkit.fused import accelerate

from .emulation import emulated, needs_compiler

pytestmark = needs_compiler


@pytest.mark.parametrize("num_nodes", [*(pytest.param(n, marks=pytest.mark.slow) for n in (2, 7)), 9])
def test_weights_equal_plain_weights(num_nodes: int) -> None:
    """The attention of two graphs, and a gradient."""
    layer = TripletEdgeAttention(128, key=jax.random.key(0))
    keys = jax.random.split(jax.random.key(num_nodes), 4)
    axes = (2, num_nodes)
    shapes = ((*axes, 128), (*axes, num_nodes, 128), (2, 128), (2, 1, *3 * (num_nodes,)))
    nodes, edges, graph, cotangent = (jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True))

    def run() -> tuple:
        form = accelerate(layer).form or layer
        weights, pull_back = jax.vjp(lambda e: jax.vmap(form.attention_weights)(nodes, e, graph), edges)
        return weights, *pull_back(cotangent)

    expected = run()
    with emulated():
        program = jax.make_jaxpr(jax.vmap(accelerate(layer).form.attention_weights))(nodes, edges, graph)
        assert "fused_kernel" in str(program)
        ours = run()
    for have, want in zip(ours, expected, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
