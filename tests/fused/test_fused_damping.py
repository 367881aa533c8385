"""The damped gradient through fed-back hints, beside kernels: the same as with plain formulas, and as many launches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.core import Literal
from jax.flatten_util import ravel_pytree

import narkit
from narkit.data.transforms import transform
from narkit.fused import availability
from narkit.models.unrolling import DEFAULT_UNROLLING, Unrolling
from narkit.training.config import TrainConfig
from narkit.training.packing import PackedBatch, pack
from narkit.training.presets import preset
from narkit.training.programs import Programs

from .emulation import emulated, needs_compiler
from .test_fused import MEASURED, assert_same_gradients, kernels_of, loop_bodies, network_and_loss

pytestmark = needs_compiler

DAMPED = Unrolling(hint_gradient=0.5)
NETWORKS = [
    ("bfs", "team"),  # pointers and masks of nodes
    ("mst_kruskal", "triplet_gmpnn"),  # hints of edges, nodes and the graph
    pytest.param("bfs", "triplet_gmpnn", marks=pytest.mark.slow),
    pytest.param("mst_kruskal", "team", marks=pytest.mark.slow),
    pytest.param("floyd_warshall", "team", marks=pytest.mark.slow),  # pointers of edges
    pytest.param("matrix_chain_order", "triplet_gmpnn", marks=pytest.mark.slow),
    pytest.param("graham_scan", "team", marks=pytest.mark.slow),
    pytest.param("binary_search", "triplet_gmpnn", marks=pytest.mark.slow),
]


def gradients_of(algorithm: str, processor: str, options: Unrolling) -> Any:
    reasoner, loss = network_and_loss(algorithm, processor, options=options)
    return jax.jit(jax.grad(loss))(reasoner)


@pytest.mark.parametrize(("algorithm", "processor"), NETWORKS)
def test_gradients_equal_plain_ones(algorithm: str, processor: str) -> None:
    """Also what the damping changes does: a factor that is left out, or counts twice, would show."""
    whole, half = (gradients_of(algorithm, processor, options) for options in (DEFAULT_UNROLLING, DAMPED))
    with emulated():
        our_whole, our_half = (gradients_of(algorithm, processor, options) for options in (DEFAULT_UNROLLING, DAMPED))
    assert_same_gradients(our_half, half, (algorithm, processor) in MEASURED)
    change, ours = (ravel_pytree(w)[0] - ravel_pytree(h)[0] for w, h in ((whole, half), (our_whole, our_half)))
    norm, our_norm = np.linalg.norm(change), np.linalg.norm(ours)
    assert norm > 1e-3 * np.linalg.norm(ravel_pytree(whole)[0])
    if (algorithm, processor) in MEASURED:  # 0.04 was
        assert np.linalg.norm(ours - change) < 0.08 * norm, np.linalg.norm(ours - change) / norm
    assert np.vdot(ours, change) / (norm * our_norm) > 0.95
    assert our_norm == pytest.approx(norm, rel=0.1)


@pytest.mark.parametrize(
    ("algorithm", "processor"),
    [
        ("bfs", "team"),
        ("mst_kruskal", "triplet_gmpnn"),
        ("floyd_warshall", "team"),
        ("insertion_sort", "triplet_gmpnn"),
    ],
)
def test_damping_launches_nothing(algorithm: str, processor: str) -> None:
    """The same kernels run. What is multiplied is a sum, or a part of one, which the compiler makes along with it."""

    def bodies(options: Unrolling) -> list[list[Any]]:
        reasoner, loss = network_and_loss(algorithm, processor, options=options)
        with availability.use("fused"):
            return list(loop_bodies(jax.make_jaxpr(jax.grad(loss))(reasoner).jaxpr))

    def kinds(body: list[Any]) -> Counter[Any]:
        return Counter((eqn.primitive.name, eqn.params.get("kernel"), eqn.params.get("rows")) for eqn in body)

    (forward, backward), (damped_forward, damped_backward) = bodies(DEFAULT_UNROLLING), bodies(DAMPED)
    assert kinds(damped_forward) == kinds(forward)
    added = kinds(damped_backward) - kinds(backward)
    assert set(added) == {("mul", None, None)} and not kinds(backward) - kinds(damped_backward)
    producer = {var: eqn.primitive.name for eqn in damped_backward for var in eqn.outvars}
    damped = [eqn.invars[1] for eqn in damped_backward if eqn.primitive.name == "mul" and is_half(eqn.invars[0])]
    assert len(damped) == added.total()
    assert {producer[var] for var in damped} <= {"add_any", "slice"}


def is_half(operand: Any) -> bool:
    return isinstance(operand, Literal) and bool(np.all(operand.val == 0.5))


@pytest.mark.parametrize("processor", ["team", "triplet_gmpnn"])
def test_the_preset_plus_runs_in_kernels(processor: str) -> None:
    """Averages and skipped steps are beside the network, so that they are no obstacle."""
    config = preset("plus", algorithms="bfs", processor=processor)
    assert config.averages and config.skipped_steps and config.hint_gradient == 0.5
    with availability.use("fused"):
        programs = Programs(config)
        assert programs.acceleration.fast
        state = jax.eval_shape(programs.initial_state)
        program = jax.make_jaxpr(programs._train_step)(state, packed(config, 0), programs._seeds)
    forward, backward = (body for body in loop_bodies(program.jaxpr) if kernels_of(body))
    assert "update_forward" in kernels_of(forward) and "update_backward" in kernels_of(backward)


def packed(config: TrainConfig, step: int) -> PackedBatch:
    size = min(config.sizes)
    samples = transform(narkit.sample("bfs", size=size, batch_size=2 * len(config.seeds), seed=step))
    return pack(samples, num_seeds=len(config.seeds), num_rows=6, step=step)


def test_steps_of_training_equal_plain_ones() -> None:
    """Two updates of two seeds by the preset, the second of which one seed skips."""
    config = preset("plus", algorithms="bfs", processor="triplet_gmpnn", seeds=(0, 1), batch_size=2)

    def train() -> Any:
        programs = Programs(config)
        start = jax.device_get(programs.initial_state())
        state, losses = programs.train_step(programs.initial_state(), packed(config, 0))
        first = jax.device_get(state)
        spoilt = packed(config, 1)
        spoilt.unpack().inputs["pos"][1] = np.nan
        state, spoilt_losses = programs.train_step(state, spoilt)
        return start, first, jax.device_get(state), losses, spoilt_losses

    start, first, second, losses, spoilt_losses = train()
    with emulated():
        _, our_first, our_second, our_losses, our_spoilt_losses = train()
    np.testing.assert_allclose(our_losses, losses, rtol=1e-3)
    np.testing.assert_allclose(our_spoilt_losses, spoilt_losses, rtol=1e-3)  # one is no number
    assert np.isnan(spoilt_losses[1]) and our_second.skipped_in_a_row.tolist() == [0, 1]
    assert np.array_equal(our_second.parameters[1], our_first.parameters[1])
    assert np.array_equal(our_second.average[1], our_first.average[1])
    for ours, theirs in ((our_first, first), (our_second, second)):
        for name in ("parameters", "average"):
            moved, our_move = (getattr(state, name) - start.parameters for state in (theirs, ours))
            # Adam's first moves are signs of gradients; those of gradients near zero are noise. One in 150 turned.
            norm, our_norm = np.linalg.norm(moved), np.linalg.norm(our_move)
            assert np.vdot(moved, our_move) / (norm * our_norm) > 0.97
            assert our_norm == pytest.approx(norm, rel=0.003)
