"""Products with few rows, and those of arrays over edges, equal matrix products: values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narkit.fused import narrow_product as module
from narkit.fused.edge_product import edge_product
from narkit.fused.narrow_product import narrow_product


@pytest.mark.parametrize("axes", [(), (4,), (2, 3, 4)], ids=["one", "nodes", "edges of samples"])
@pytest.mark.parametrize("num_scalars", [0, 1, 3, 9])
@pytest.mark.parametrize("largest_factor", [0, 2**19], ids=["summed", "one product"])
@pytest.mark.parametrize("has_offset", [True, False], ids=["offset", "no offset"])
def test_equals_product(has_offset, largest_factor, num_scalars, axes, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_FACTOR", largest_factor)
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        shapes = [(*axes, num_scalars), (num_scalars, 5), (5,)][: 3 if has_offset else 2]
        operands = [jnp.asarray(rng.normal(size=shape)) for shape in shapes]
        cotangent = jnp.asarray(rng.normal(size=(*axes, 5)))
        expected, pull_back = jax.vjp(lambda s, d, offset=0.0: s @ d + offset, *operands)
        result, our_pull_back = jax.vjp(narrow_product, *operands)
        ours = (result, *our_pull_back(cotangent))
        assert all(leaf.dtype == "float64" for leaf in ours)
        for have, want in zip(ours, (expected, *pull_back(cotangent)), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("precision", [None, jax.lax.Precision.HIGHEST])
def test_products_over_edges(precision):
    """For several seeds, as networks are trained; the gradient of the matrix is no product over all samples."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        values, weight, cotangent = (
            jnp.asarray(rng.normal(size=s)) for s in [(2, 3, 4, 4, 5), (2, 5, 6), (2, 3, 4, 4, 6)]
        )
        ours = jax.vmap(lambda v, w: edge_product(v, w, precision))
        result, pull_back = jax.vjp(ours, values, weight)
        expected, plain_pull_back = jax.vjp(jax.vmap(jnp.matmul), values, weight)
        for have, want in zip((result, *pull_back(cotangent)), (expected, *plain_pull_back(cotangent)), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)
        program = str(jax.make_jaxpr(pull_back)(cotangent))
    assert "f64[2,3,5,6]" in program
