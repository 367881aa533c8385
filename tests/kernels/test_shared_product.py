"""Several products of the same values as one: results and gradients."""

import jax
import jax.numpy as jnp
import numpy as np

from narkit.kernels.shared_product import merge, shared_product


def test_equals_separate_products() -> None:
    values_key, *keys = jax.random.split(jax.random.key(0), 4)
    values = jax.random.normal(values_key, (2, 3, 5))
    weights = tuple(jax.random.normal(key, (5, width)) for key, width in zip(keys, (4, 1, 7), strict=True))

    def ours(values, weights):
        return sum(jnp.sin(part).sum() for part in shared_product(values, weights, merge(*weights)))

    def plain(values, weights):
        return sum(jnp.sin(values @ weight).sum() for weight in weights)

    ours_and_gradient, plain_and_gradient = (
        jax.value_and_grad(function, (0, 1))(values, weights) for function in (ours, plain)
    )
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), ours_and_gradient, plain_and_gradient)


def test_nothing_to_merge() -> None:
    assert merge(None, jnp.ones((5, 2))) is None
