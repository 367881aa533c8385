"""The plain transcription computes what narkit's network computes."""

import jax
import numpy as np
import pytest

import narkit
from narkit.bench.subjects import load_plain_team
from narkit.models.network import DeviceBatch
from narkit.models.unrolling import unroll


@pytest.mark.parametrize("algorithm", ["bfs", "articulation_points"])
def test_logits_are_equal(algorithm: str) -> None:
    plain = load_plain_team()
    reasoner = narkit.Reasoner(algorithm, "team", hidden_size=8, key=jax.random.key(1))
    batch = DeviceBatch.of(narkit.sample(algorithm, size=4, batch_size=3, seed=0))
    parameters = plain.parameters_of(reasoner, algorithm)
    assert sum(leaf.size for leaf in jax.tree.leaves(parameters)) == sum(
        leaf.size for leaf in jax.tree.leaves(reasoner)
    )
    ours = jax.jit(unroll)(reasoner, batch)
    theirs = jax.jit(plain.forward, static_argnums=2)(parameters, batch, 8)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keys() == other.keys()
        for name in mine:
            np.testing.assert_allclose(mine[name], other[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_an_algorithm_with_permutations_is_refused() -> None:
    plain = load_plain_team()
    reasoner = narkit.Reasoner("bubble_sort", "team", hidden_size=4, key=jax.random.key(1))
    with pytest.raises(ValueError, match="no permutations, which bubble_sort needs"):
        plain.parameters_of(reasoner, "bubble_sort")
