"""Products with few rows equal matrix products: values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narkit.fused import narrow_product as module
from narkit.fused.narrow_product import narrow_product


@pytest.mark.parametrize("axes", [(), (4,), (2, 3, 4)], ids=["one", "nodes", "edges of samples"])
@pytest.mark.parametrize("num_scalars", [0, 1, 3])
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
