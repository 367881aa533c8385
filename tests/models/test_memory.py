"""No program holds an array over all triplets of nodes and features, neither forward nor backward."""

import math
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import narkit
from narkit.models.network import DeviceBatch
from narkit.models.objective import loss

NODES, HIDDEN, STEPS, BATCH = 64, 16, 3, 1
LIMIT = NODES**3 * HIDDEN
# Edge pointers are the probes with the largest logits, one per triplet of nodes.
ALGORITHM = "floyd_warshall"
PROCESSORS = [
    name if name in ("team", "triplet_gmpnn") else pytest.param(name, marks=pytest.mark.slow)
    for name in narkit.PROCESSORS
]
# The other tests' programs are compiled in haste; this is about those that users run. What LLVM does afterwards, which
# is as hasty here, changes none of the arrays.
AS_FOR_USERS: dict[str, str | bool] = {"xla_cpu_use_fusion_emitters": True}
SHAPE = re.compile(r"\b(?:pred|bf16|[fsuc]\d+)\[([\d,]+)\]")


def largest_array(program: jax.stages.Compiled) -> int:
    """The number of elements of the largest array that a compiled program speaks of."""
    return max(math.prod(map(int, shape.split(","))) for shape in SHAPE.findall(program.as_text() or ""))


def make_batch() -> DeviceBatch:
    """Few steps, since what is kept for every step of a run is no matter here."""
    parts = {"input": {}, "hint": {}, "output": {}}
    for name, probe in narkit.ALGORITHMS[ALGORITHM].transformed_spec.items():
        leading = (STEPS, BATCH) if probe.stage == "hint" else (BATCH,)
        parts[probe.stage][name] = jnp.zeros((*leading, *probe.shape(NODES)), probe.dtype)
    return DeviceBatch(ALGORITHM, parts["input"], parts["hint"], parts["output"], jnp.full(BATCH, STEPS))


@pytest.mark.parametrize("processor", PROCESSORS)
def test_no_array_over_triplets_and_features(processor):
    reasoner = eqx.filter_eval_shape(
        lambda key: narkit.Reasoner(ALGORITHM, processor, HIDDEN, key=key), jax.random.key(0)
    )
    batch = eqx.filter_eval_shape(make_batch)
    program = jax.jit(jax.value_and_grad(loss)).lower(reasoner, batch).compile(AS_FOR_USERS)  # and not run
    largest = largest_array(program)
    assert NODES**3 * BATCH <= largest < LIMIT  # the pointers' logits are there


def test_a_plain_reduction_would_be_caught():
    from narkit.models import triplet_formulas

    pairs = jax.ShapeDtypeStruct((NODES, NODES, HIDDEN), "float32")
    weights = jax.ShapeDtypeStruct((1, HIDDEN), "float32")
    gradient = jax.grad(
        lambda ij, ik, jk, a: triplet_formulas.attention_logits(ij, ik, jk, a, 0.01).sum(), argnums=(0, 3)
    )
    program = jax.jit(gradient).lower(pairs, pairs, pairs, weights).compile()
    assert largest_array(program) >= LIMIT
