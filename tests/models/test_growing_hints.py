"""Hints whose logits grow with the number of nodes."""

import math

import jax
import numpy as np
import pytest

import narkit
from narkit.models.growing_hints import growth, names_a_node
from narkit.models.network import DeviceBatch
from narkit.models.unrolling import unroll
from narkit.spec import ALGORITHMS

# Pointers from nodes and masks of one node; flags of the graph; pointers from edges, read whole; pointers kept.
CASES = [
    ("insertion_sort", {}),
    ("kmp_matcher", {}),
    ("floyd_warshall", {"edge_pointers": "lossless"}),
    ("dfs", {"keep_pointers": True, "node_pointers": "both"}),
]


def first_hints(algorithm, size, **options):
    reasoner = narkit.Reasoner(algorithm, "team_plus", 8, key=jax.random.key(0), **options)
    rng = np.random.default_rng(0)  # so that gates that start closed are open
    reasoner = jax.tree.map(lambda leaf: leaf + 0.1 * rng.normal(size=leaf.shape).astype(leaf.dtype), reasoner)
    batch = DeviceBatch.of(narkit.sample(algorithm, size=size, batch_size=2, seed=1))
    hints = jax.jit(lambda reasoner: unroll(reasoner, batch)[1])(reasoner)
    return batch.num_nodes, {name: np.asarray(logits[0]) for name, logits in hints.items()}


@pytest.mark.parametrize(("algorithm", "options"), CASES)
def test_logits_over_nodes_are_multiplied_and_no_others(algorithm, options):
    num_nodes, grown = first_hints(algorithm, 5, growing_hints=True, **options)
    _, plain = first_hints(algorithm, 5, **options)
    factor = math.log(num_nodes) / math.log(16)
    spec = ALGORITHMS[algorithm].transformed_spec
    assert any(names_a_node(spec[name]) for name in plain)
    for name, logits in plain.items():
        expected = factor * logits if names_a_node(spec[name]) else logits
        np.testing.assert_allclose(grown[name], expected, rtol=2e-5, atol=2e-5, err_msg=name)


def test_it_changes_nothing_for_the_largest_graphs_of_training():
    _, grown = first_hints("insertion_sort", 16, growing_hints=True)
    _, plain = first_hints("insertion_sort", 16)
    assert growth(16) == 1.0
    for name, logits in plain.items():
        np.testing.assert_array_equal(grown[name], logits)


def test_weights_remember_it(tmp_path):
    reasoner = narkit.Reasoner("bfs", "mpnn", 4, growing_hints=True, key=jax.random.key(0))
    narkit.save(reasoner, tmp_path / "network.safetensors")
    loaded = narkit.load(tmp_path / "network.safetensors")
    assert loaded.interfaces.changed == {"growing_hints": True}
    batch = narkit.sample("bfs", size=4, batch_size=2, seed=0)
    for name, logits in narkit.predict(reasoner, batch).hint_logits.items():
        np.testing.assert_array_equal(logits, narkit.predict(loaded, batch).hint_logits[name])
