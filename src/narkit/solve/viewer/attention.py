"""The attention of a network over the steps of a run, and its compact form in a page."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from narkit.data.batch import Batch

LARGEST_PAYLOAD = 900_000  # bytes of compressed attention in one page
LEVELS = 255


def attention_over_time(reasoner: Any, truth: Batch, hint_logits: Mapping[str, Any]) -> np.ndarray | None:
    """Computes the weights (step, i, j, k) of Triplet Edge Attention, the mean over heads; None for other processors.

    The layer reads what the network reads at a step: the inputs and, where hints are fed back, its own soft
    predictions of the step before, true ones at the first step.
    """
    import jax
    import jax.numpy as jnp

    from narkit.models.growing_hints import soften_growing
    from narkit.models.network import DeviceBatch, first_values
    from narkit.models.predictions import soften
    from narkit.models.triplet_edge_attention import TripletEdgeAttention

    layer = getattr(reasoner.processor, "attention", None)
    if not isinstance(layer, TripletEdgeAttention) or not reasoner.processor.attends:
        return None
    batch = DeviceBatch.of(truth[:1])
    network = reasoner.bind(batch.algorithm)
    num_steps = max(1, int(batch.lengths[0]) - 1)
    given = first_values(network, batch)

    def fed_back(name: str, logits: Any) -> Any:
        probe, logits = network.spec[name], jnp.asarray(logits)
        return soften_growing(probe, logits, batch.num_nodes) if growing else soften(probe, logits)

    growing = reasoner.interfaces.growing_hints
    read = {  # (step, sample, ...) of all that changes with the step
        name: jnp.concatenate([given[name][None], fed_back(name, logits)[: num_steps - 1, :1]])
        for name, logits in hint_logits.items()
        if name in network.encoded
    }

    def step(hidden: Any, changing: dict) -> tuple[Any, Any]:
        """Returns the hidden state of the next step, if the layer reads it, and the weights."""
        next_hidden, weights = network.attention(network.read({**given, **changing}), hidden)
        return hidden if layer.reads is None else next_hidden, weights[0]

    hidden = jnp.zeros((1, truth.num_nodes, reasoner.hidden_size))
    if not read and layer.reads is None:
        return np.asarray(jax.jit(step)(hidden, {})[1])[None].repeat(num_steps, 0)
    return np.asarray(jax.jit(lambda steps: jax.lax.scan(step, hidden, steps, num_steps)[1])(read))


def packed(attention: np.ndarray) -> dict[str, Any]:
    """Packs attention for a page: bytes, each step as its difference to the one before, deflated, base64.

    `every` is 1 if all steps are there; else only each so many is, so that the page stays small.
    """
    every, payload = 1, _deflated(attention)
    while len(payload) > LARGEST_PAYLOAD and every < len(attention):
        every *= 2
        payload = _deflated(attention[::every])
    kept = len(attention[::every]) if len(payload) <= LARGEST_PAYLOAD else 0
    data = base64.b64encode(payload).decode() if kept else ""
    return {"every": every, "kept": kept, "nodes": attention.shape[1], "levels": LEVELS, "data": data}


def _deflated(attention: np.ndarray) -> bytes:
    """Deflates a byte per weight. Steps resemble each other, so their differences (modulo 256) take far less room."""
    levels = np.rint(attention * LEVELS).astype(np.uint8)
    return zlib.compress(np.diff(levels, axis=0, prepend=np.zeros_like(levels[:1])).tobytes(), 9)
