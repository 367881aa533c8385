"""Hints that are fed back sharper, the more nodes there are."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import narkit
from narkit.models.growing_hints import growth, names_a_node, soften_growing, with_gradient_of
from narkit.models.network import DeviceBatch, first_values
from narkit.models.predictions import soften
from narkit.models.unrolling import Unrolling, unroll
from narkit.spec import ALGORITHMS


def made(algorithm, size, **options):
    reasoner = narkit.Reasoner(algorithm, "team_plus", 8, key=jax.random.key(0), **options)
    return reasoner, DeviceBatch.of(narkit.sample(algorithm, size=size, batch_size=2, seed=1))


def hints_of(reasoner, batch):
    return jax.jit(lambda reasoner: unroll(reasoner, batch)[1])(reasoner)


# Pointers from nodes and masks of one node; flags of the graph; pointers from edges, read whole.
@pytest.mark.parametrize("algorithm", ["insertion_sort", "kmp_matcher", "floyd_warshall"])
def test_the_second_step_reads_what_the_first_predicts_times_the_factor(algorithm):
    reasoner, batch = made(algorithm, 5, growing_hints=True, edge_pointers="lossless")
    plain, _ = made(algorithm, 5, edge_pointers="lossless")
    found, without = hints_of(reasoner, batch), hints_of(plain, batch)
    spec, factor = ALGORITHMS[algorithm].transformed_spec, math.log(batch.num_nodes) / math.log(16)
    assert any(names_a_node(spec[name]) for name in found)

    @jax.jit
    def second_step(reasoner):
        network = reasoner.bind(algorithm)
        values = first_values(network, batch)
        last, logits, _ = network.step(network.read(values), jnp.zeros((2, batch.num_nodes, 8)))
        read = {
            name: soften(spec[name], (factor if names_a_node(spec[name]) else 1.0) * logits[name]) for name in logits
        }
        return logits, network.step(network.read({**values, **read}), last.next_hidden)[1]

    first, second = second_step(reasoner)
    for name in found:
        np.testing.assert_allclose(found[name][0], first[name], rtol=1e-4, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(found[name][0], without[name][0], rtol=1e-4, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(found[name][1], second[name], rtol=1e-4, atol=1e-5, err_msg=name)
    assert any(np.abs(found[name][1] - without[name][1]).max() > 1e-4 for name in found)


def test_it_changes_nothing_for_the_largest_graphs_of_training():
    assert growth(16) == 1.0
    reasoner, batch = made("insertion_sort", 16, growing_hints=True)
    plain, _ = made("insertion_sort", 16)
    without = hints_of(plain, batch)
    for name, logits in hints_of(reasoner, batch).items():
        np.testing.assert_allclose(logits, without[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_gradient_is_that_of_the_softmax_without_the_factor():
    probe = ALGORITHMS["dfs"].transformed_spec["pi_h"]
    logits, cotangent = jax.random.normal(jax.random.key(0), (2, 4, 4))

    def fed_back(logits):
        return with_gradient_of(soften(probe, logits), soften_growing(probe, logits, 4))

    values, pull_back = jax.vjp(fed_back, logits)
    np.testing.assert_allclose(values, jax.nn.softmax(0.5 * logits), rtol=1e-6)
    (expected,) = jax.vjp(jax.nn.softmax, logits)[1](cotangent)
    np.testing.assert_allclose(pull_back(cotangent)[0], expected, rtol=1e-5, atol=1e-7)


def test_hard_hints_do_not_change():
    reasoner, batch = made("bfs", 5, growing_hints=True)
    plain, _ = made("bfs", 5)
    hard = Unrolling(reprediction="hard")
    found, without = (unroll(network, batch, options=hard)[1] for network in (reasoner, plain))
    for name, logits in found.items():
        np.testing.assert_array_equal(logits, without[name])


def test_weights_remember_it(tmp_path):
    reasoner = narkit.Reasoner("bfs", "mpnn", 4, growing_hints=True, key=jax.random.key(0))
    narkit.save(reasoner, tmp_path / "network.safetensors")
    loaded = narkit.load(tmp_path / "network.safetensors")
    assert loaded.interfaces.changed == {"growing_hints": True}
    batch = narkit.sample("bfs", size=4, batch_size=2, seed=0)
    for name, logits in narkit.predict(reasoner, batch).hint_logits.items():
        np.testing.assert_array_equal(logits, narkit.predict(loaded, batch).hint_logits[name])
