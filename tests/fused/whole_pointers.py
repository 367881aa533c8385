"""Networks that read edge pointers whole, and one step of them by kernels and by plain formulas."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import narkit
from narkit.fused import accelerate
from narkit.models.network import DeviceBatch, LastStep, first_values

from .plain_step import difference

OF_VALUES = 2e-2  # products are rounded to bfloat16, and what adds up to logits to half precision


def network(algorithm: str, processor: str, growing_hints: bool = False) -> narkit.Reasoner:
    """One whose attention does not count all third nodes nearly the same, and is told of pointers.

    The latter starts at zero, and would then have no gradient to what it is multiplied with.
    """
    options: dict[str, Any] = {"edge_pointers": "lossless", "growing_hints": growing_hints}
    reasoner = narkit.Reasoner(algorithm, processor, key=jax.random.key(0), **options)
    reasoner = eqx.tree_at(lambda r: r.processor.attention.attention, reasoner, replace_fn=lambda a: 10 * a)
    told = {name: jnp.array([1.5, -1.0, 0.7]) for name in reasoner.encoders[algorithm].whole}
    return eqx.tree_at(lambda r: r.attention_terms, reasoner, {algorithm: told})


def assert_steps_agree(algorithm: str, size: int, device: Any) -> None:
    """The logits of one step, by the kernels where JAX computes by default and by plain formulas on a device."""
    batch = DeviceBatch.of(narkit.sample(algorithm, size=size, batch_size=1, seed=3))
    reasoner = network(algorithm, "team_plus")
    rng = np.random.default_rng(size)
    hidden = jnp.asarray(rng.normal(size=(1, batch.num_nodes, reasoner.hidden_size)), jnp.float32)
    bind = accelerate(reasoner).form
    assert bind is not None

    def step(bind: Any, reasoner: narkit.Reasoner, batch: DeviceBatch, hidden: jax.Array) -> Any:
        bound = bind(reasoner, algorithm)
        last, logits, _ = bound.step(bound.read(first_values(bound, batch)), hidden)
        return last.next_hidden, logits, bound.outputs(LastStep(last.scalars, hidden, last.next_hidden, last.pointers))

    def run(bind: Any, *arguments: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return jax.jit(lambda *given: step(bind, *given))(*arguments)

    ours = run(bind, reasoner, batch, hidden)
    expected = run(narkit.Reasoner.bind, *jax.device_put((reasoner, batch, hidden), device))
    for (path, want), have in zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(ours), strict=True):
        assert difference(have, want) < OF_VALUES, (jax.tree_util.keystr(path), difference(have, want))
