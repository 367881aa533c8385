"""The gradient through fed-back hints, damped: values stay, what flows back from step to step is multiplied."""

import equinox as eqx
import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import narkit
from narkit.models.network import DeviceBatch
from narkit.models.objective import loss
from narkit.models.unrolling import Unrolling


def test_two_steps_are_halfway_between_all_and_nothing():
    """With two steps hints are fed back once, so the gradient is linear in the factor."""
    batch = DeviceBatch.of(narkit.sample("matrix_chain_order", size=4, batch_size=2, seed=0))
    assert batch.num_steps == 2
    reasoner = narkit.Reasoner("matrix_chain_order", "mpnn", hidden_size=4, key=jax.random.key(0))

    @eqx.filter_jit
    def value_and_gradient(factor):
        value, gradient = jax.value_and_grad(loss)(reasoner, batch, options=Unrolling(hint_gradient=factor))
        return value, ravel_pytree(gradient)[0]

    whole, half, nothing = (value_and_gradient(factor) for factor in (1.0, 0.5, 0.0))
    assert whole[0] == half[0] == nothing[0]
    difference = np.abs(whole[1] - nothing[1]).max()
    assert difference > 1e-3
    np.testing.assert_allclose(half[1], (whole[1] + nothing[1]) / 2, atol=1e-4 * difference)


@pytest.mark.parametrize("factor", [-0.5, 1.5, float("nan")])
def test_factors_are_checked(factor):
    with pytest.raises(ValueError, match=r"factor of the gradient through hints in \[0, 1\]"):
        Unrolling(hint_gradient=factor)
