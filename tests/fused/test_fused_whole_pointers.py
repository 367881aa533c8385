"""Networks that read edge pointers whole, in fused kernels compiled for the CPU, equal plain ones."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import narkit
from narkit.fused import accelerate, availability, launch
from narkit.models import objective
from narkit.models.network import DeviceBatch
from narkit.models.unrolling import DEFAULT_UNROLLING, Unrolling

from .emulation import emulated, needs_compiler
from .test_fused import assert_same_gradients, kernels_of, loop_bodies
from .whole_pointers import assert_steps_agree, network

pytestmark = needs_compiler

ALGORITHMS = ["floyd_warshall", "matrix_chain_order", "optimal_bst"]
SIZES = [4, 5, 7, 11, 13, 16]


def losses(
    algorithm: str,
    size: int,
    processor: str = "team_plus",
    options: Unrolling = DEFAULT_UNROLLING,
    first_length: int | None = None,
    growing_hints: bool = False,
) -> tuple[narkit.Reasoner, Any]:
    """A network and its loss, as a function of it; the first sample of the batch may be over before the others."""
    batch = DeviceBatch.of(narkit.sample(algorithm, size=size, batch_size=2, seed=9))
    if first_length is not None:
        batch = eqx.tree_at(lambda batch: batch.lengths, batch, jnp.asarray(batch.lengths).at[0].set(first_length))
    reasoner = network(algorithm, processor, growing_hints)
    return reasoner, lambda network: objective.loss(
        network, batch, key=jax.random.key(1), options=options, bind=accelerate(network, options).form
    )


def assert_network_equals_plain_one(reasoner: narkit.Reasoner, loss: Any) -> None:
    with emulated():
        assert accelerate(reasoner).fast
    plain = jax.jit(jax.value_and_grad(loss))
    expected, expected_gradients = plain(reasoner)
    with emulated():
        # Another function, so that the program is not the same.
        value, gradients = jax.jit(jax.value_and_grad(lambda network: loss(network)))(reasoner)
    assert float(value) == pytest.approx(float(expected), rel=1e-3)
    assert_same_gradients(gradients, expected_gradients)
    # These few numbers are long sums that cancel. Weights rounded to half precision alone move them by 2 %
    # (Floyd-Warshall at 16) and 4 % (optimal BST at 11), where kernels, which round activations, too, are 5.1 and 5.6 %
    # off.
    _, rounded = plain(jax.tree.map(lambda x: x.astype(jnp.float16).astype(x.dtype), reasoner))
    terms, expected_terms, rounded_terms = (
        jnp.concatenate(jax.tree.leaves(found.attention_terms)) for found in (gradients, expected_gradients, rounded)
    )
    norm, moved = jnp.linalg.norm(expected_terms), jnp.linalg.norm(rounded_terms - expected_terms)
    assert moved < 0.2 * norm
    assert jnp.linalg.norm(terms - expected_terms) < 0.05 * norm + moved


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_network_equals_plain_network(algorithm: str, size: int) -> None:
    assert_network_equals_plain_one(*losses(algorithm, size))


@pytest.mark.slow
def test_team_without_options() -> None:
    """Its attention has a kernel of its own, which is told of nothing; it runs in those of TEAM with options."""
    assert_network_equals_plain_one(*losses("floyd_warshall", 5, "team"))


@pytest.mark.slow
@pytest.mark.parametrize("options", [Unrolling(hint_gradient=0.5), Unrolling(0.5, "hard")], ids=["damped", "forced"])
def test_options_of_unrolling(options: Unrolling) -> None:
    assert_network_equals_plain_one(*losses("floyd_warshall", 4, options=options))


@pytest.mark.slow
def test_hints_that_grow() -> None:
    """As in TEAM+: the softmax that is fed back has another factor than that of which the gradient is taken."""
    assert_network_equals_plain_one(*losses("floyd_warshall", 4, growing_hints=True))


@pytest.mark.slow
def test_samples_that_have_ended() -> None:
    """Kernels write zeros for them, of which the attention's weights are made all the same."""
    assert_network_equals_plain_one(*losses("floyd_warshall", 4, first_length=2))


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "size"), [("floyd_warshall", 33), ("floyd_warshall", 64), ("optimal_bst", 64)])
def test_a_step_on_larger_graphs(algorithm: str, size: int) -> None:
    """As in evaluation; optimal search trees have a node more."""
    with emulated():
        assert_steps_agree(algorithm, size, jax.devices()[0])


def test_kernels_run_once_per_step_and_direction() -> None:
    """As of other networks, and no product of triplets has features."""
    reasoner, loss = losses("floyd_warshall", 4)
    with availability.use("fused"):
        program = jax.make_jaxpr(jax.grad(loss))(reasoner)
    forward, backward = (body for body in loop_bodies(program.jaxpr) if kernels_of(body))
    names = ("messages", "features", "triplets")
    assert kernels_of(forward) == {**{f"{name}_forward_saving": 1 for name in names}, "update_forward": 1}
    names = ("messages", "attention", "triplets", "update")
    assert kernels_of(backward) == {f"{name}_backward": 1 for name in names}
    made = [var.aval.shape for eqn in (*forward, *backward) for var in eqn.outvars]
    assert not [shape for shape in made if shape[-4:] == (4, 4, 4, 128)]


def test_a_gpu_without_room_runs_the_processor_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have many scalars per edge; consumer GPUs give a block 99 kB of shared memory."""
    reasoner = eqx.filter_eval_shape(lambda: network("floyd_warshall", "team_plus"))
    monkeypatch.setattr(launch, "shared_bytes_of_a_block", lambda: 99 * 1024)
    with availability.use("fused"):
        found = accelerate(reasoner)
        bound = eqx.filter_eval_shape(lambda r: found.form(r, "floyd_warshall"), reasoner)
    assert found.plain == {"processor": "this GPU has no room for the attention over edges with 32 scalars"}
    assert type(bound.processor).__name__ == "PlainProcessor"


def test_the_plain_mode_is_plain() -> None:
    reasoner = eqx.filter_eval_shape(lambda: network("floyd_warshall", "team_plus"))
    with availability.use("plain"):
        assert accelerate(reasoner).form is None
