"""The triplet reductions equal their plain references: values and gradients, ties included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narkit.models import triplet_formulas, triplets

NODES, HIDDEN, HEADS, BATCH = 5, 6, 2, 3
PAIRS, VECTOR = (NODES, NODES, HIDDEN), (HIDDEN,)
CASES = {
    "attention_logits": [PAIRS, PAIRS, PAIRS, (HEADS, HIDDEN // HEADS)],
    "attention_logits of one head": [PAIRS, PAIRS, PAIRS, (1, HIDDEN)],
    "triplet_max": [PAIRS, PAIRS],
    "edge_pointer_logits": [PAIRS, (NODES, HIDDEN), VECTOR],
}


def functions(case):
    name = case.split()[0]
    options = (0.01,) if name == "attention_logits" else ()
    return (
        lambda *arrays: getattr(triplets, name)(*arrays, *options),
        lambda *arrays: getattr(triplet_formulas, name)(*arrays, *options),
    )


def draw(shapes, dtype, ties, batch=()):
    """Random arrays; with ties, of few different values, so that maxima are shared."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(*batch, *shape)) for shape in shapes]
    # Sums of the tied values are never zero, where the LeakyReLU has no derivative.
    return [jnp.asarray(np.sign(array) * 0.5 + 0.125 if ties else array, dtype) for array in arrays]


def with_gradients(function, arrays):
    value, pullback = jax.vjp(function, *arrays)
    cotangent = np.random.default_rng(1).normal(size=value.shape)
    return value, pullback(jnp.asarray(cotangent, value.dtype))


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 2e-5)])
@pytest.mark.parametrize("case", CASES)
def test_equals_reference(case, dtype, tolerance, ties):
    with jax.enable_x64(dtype == "float64"):
        arrays = draw(CASES[case], dtype, ties)
        ours, plain = functions(case)
        result, expected = with_gradients(ours, arrays), with_gradients(plain, arrays)
        assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(result))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), result, expected)


@pytest.mark.parametrize("case", CASES)
def test_under_vmap(case):
    with jax.enable_x64(True):
        arrays = draw(CASES[case], "float64", False, batch=(BATCH,))
        ours, plain = map(jax.vmap, functions(case))
        result, expected = with_gradients(ours, arrays), with_gradients(plain, arrays)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), result, expected)
