"""The one file to read first, `examples/team_in_one_file.py`, computes what the library computes."""

import ast

import jax
import numpy as np
import pytest

import narkit
from narkit.bench.training_steps import load_plain_team
from narkit.models import objective
from narkit.models.network import DeviceBatch
from narkit.models.unrolling import unroll

HIDDEN = 8
plain = load_plain_team()


# Between them they have all kinds of probes at all locations: permutations, and pointers of edges and of the graph.
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("insertion_sort", "floyd_warshall", "graham_scan")]


@pytest.mark.parametrize("algorithm", ["articulation_points", *SLOW])
def test_values_and_gradients_are_equal(algorithm: str) -> None:
    reasoner = narkit.Reasoner(algorithm, "team", hidden_size=HIDDEN, key=jax.random.key(1))
    batch = DeviceBatch.of(narkit.sample(algorithm, size=4, batch_size=3, seed=1))
    # In these some samples end before others, whose further hints must not count.
    assert algorithm not in ("articulation_points", "graham_scan") or len(set(np.asarray(batch.lengths).tolist())) > 1
    parameters = plain.parameters_of(reasoner, algorithm)
    count = sum(leaf.size for leaf in jax.tree.leaves(reasoner))
    assert sum(leaf.size for leaf in jax.tree.leaves(parameters)) == count

    @jax.jit
    def ours(reasoner):
        value, gradient = jax.value_and_grad(lambda r: objective.loss(r, batch))(reasoner)
        return unroll(reasoner, batch), value, plain.parameters_of(gradient, algorithm)

    @jax.jit
    def theirs(parameters):
        value, gradient = jax.value_and_grad(plain.loss)(parameters, batch, HIDDEN)
        return plain.forward(parameters, batch, HIDDEN), value, gradient

    have, want = jax.tree.leaves_with_path(ours(reasoner)), jax.tree.leaves_with_path(theirs(parameters))
    assert [path for path, _ in have] == [path for path, _ in want]
    for (path, mine), (_, other) in zip(have, want, strict=True):
        counts = np.abs(other) < 1e5  # all but the diagonals of Sinkhorn's result
        np.testing.assert_allclose(
            np.asarray(mine)[counts],
            np.asarray(other)[counts],
            rtol=1e-4,
            atol=1e-4,
            err_msg=jax.tree_util.keystr(path),
        )


def test_parameters_are_laid_out_alike() -> None:
    for algorithm in ("bfs", "floyd_warshall", "graham_scan"):
        shapes = jax.eval_shape(
            lambda key, name=algorithm: plain.parameters_of(narkit.Reasoner(name, "team", HIDDEN, key=key), name),
            jax.random.key(0),
        )
        spec = narkit.ALGORITHMS[algorithm].transformed_spec
        own = jax.eval_shape(
            lambda key, spec=spec: plain.one_file.initial_parameters(key, spec, HIDDEN), jax.random.key(0)
        )
        assert jax.tree.structure(own) == jax.tree.structure(shapes)
        assert [leaf.shape for leaf in jax.tree.leaves(own)] == [leaf.shape for leaf in jax.tree.leaves(shapes)]


def test_it_is_one_file_of_at_most_250_lines() -> None:
    text = plain.ONE_FILE.read_text()
    assert len(text.splitlines()) <= 250
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports}
    assert {module for module in modules if str(module).startswith("narkit")} == {
        "narkit.data.execution",
        "narkit.spec",
    }


def test_it_trains(capsys: pytest.CaptureFixture[str]) -> None:
    plain.one_file.main(["--algorithm", "minimum", "--steps", "2", "--hidden-size", "4"])
    assert "step 1: loss" in capsys.readouterr().out
