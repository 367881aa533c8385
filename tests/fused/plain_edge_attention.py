"""Triplet Edge Attention on dense features, written so that it rounds where the fused kernels do, and compared."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from narkit import TripletEdgeAttention
from narkit.fused import accelerate, availability

# A number next to the edge between two numbers of half precision may be rounded either way.
TOLERANCE = 5e-4
# What all the rounding amounts to, for features of about one: the same as that of products in TF32.
OF_ROUNDING = 5e-3


def fast(layer: TripletEdgeAttention) -> Any:
    """The layer in kernels where these are in use, else the layer."""
    return accelerate(layer).form or layer


def latents(layer: TripletEdgeAttention, nodes: Array, edges: Array, graph: Array, mask: Array | None) -> Array:
    """The edge latents of one graph before the activation."""

    def product(linear: Any) -> Array:
        return jnp.matmul(_half(edges), _half(linear.weight), precision="highest")

    biases = layer.edge_ij.bias + layer.edge_ik.bias + layer.edge_jk.bias
    with jax.default_matmul_precision("highest"):
        x_i, x_j, x_k = layer.node_i(nodes) + layer.graph(graph) + biases, layer.node_j(nodes), layer.node_k(nodes)
    u = _half(product(layer.edge_ij) + x_i[:, None] + x_j)
    w, q, v = (
        _half(product(layer.edge_ik) + x_k),
        _half(product(layer.edge_jk)),
        _half(product(layer.value) + layer.value.bias),
    )
    t = _half(_half(w[:, None] + u[:, :, None]) + q)
    a, slope = layer.attention[0], layer.slope
    logits = (1 - slope) * jnp.sum(jax.nn.relu(t) * a, -1) + jnp.sum(w * _half(slope * a), -1)[:, None]
    logits = logits + jnp.sum(q * _half(slope * a), -1)  # the rest of t cancels in the softmax
    if mask is not None:
        logits = jnp.where(mask[:, None] | mask, logits, -jnp.inf)
    highest = logits.max(-1, keepdims=True)
    unnormalised = jnp.exp(logits - jnp.where(jnp.isfinite(highest), highest, 0.0))
    total = unnormalised.sum(-1, keepdims=True)
    mixed = jnp.einsum("ijk,ikh->ijh", _half(unnormalised), v, precision="highest")
    return mixed / jnp.where(total > 0, total, 1.0)


def _half(x: Array) -> Array:
    return x.astype(jnp.float16).astype(jnp.float32)


def problem(batch_size: int, num_nodes: int, masked: bool, **options: Any) -> tuple[TripletEdgeAttention, tuple]:
    """A layer with random biases, and a batch; with a mask that allows some edges no third node."""
    layer = TripletEdgeAttention(128, key=jax.random.key(0), **options)
    leaves, structure = jax.tree.flatten(layer)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noise = [0.1 * jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
    layer = jax.tree.unflatten(structure, [a + b if a.ndim == 1 else a for a, b in zip(leaves, noise, strict=True)])
    axes = (batch_size, num_nodes)
    shapes = (*axes, 128), (*axes, num_nodes, 128), (batch_size, 128)
    keys = jax.random.split(jax.random.key(num_nodes), 4)
    features = tuple(jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=False))
    mask = jax.random.bernoulli(keys[3], 0.3, (*axes, num_nodes)).at[:, -1].set(False)
    return layer, (*features, mask) if masked else features


def assert_equal_to_plain(num_nodes: int, masked: bool, device: Any, batch_size: int = 2) -> None:
    """On the device in use; formulas run on `device`."""
    layer, inputs = problem(batch_size, num_nodes, masked)
    program = str(jax.make_jaxpr(jax.vmap(fast(layer)))(*inputs))
    assert "pair_vectors" in program and "edge_attention" in program
    with jax.default_matmul_precision("highest"):
        ours = jax.jit(lambda layer, inputs: jax.vmap(fast(layer))(*inputs))(layer, inputs)
    layer, inputs = jax.device_put((layer, inputs), device)
    with availability.use("plain"), jax.default_device(device):
        plain = jax.jit(lambda layer, inputs: jax.vmap(layer)(*inputs))(layer, inputs)
        nodes, edges, graph, *mask = inputs
        rounded = [
            latents(layer, nodes[b], edges[b], graph[b], mask[0][b] if masked else None) for b in range(batch_size)
        ]
    np.testing.assert_allclose(ours, jax.nn.relu(jnp.stack(rounded)), rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(ours, plain, rtol=OF_ROUNDING, atol=OF_ROUNDING)
    if masked:
        assert not np.asarray(ours)[:, -1, -1].any()
