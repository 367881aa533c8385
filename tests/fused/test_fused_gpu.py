"""On a GPU the fused kernels run, and equal plain formulas. `pytest -m gpu`; needs Ampere or later.

The plain formulas are computed on the CPU. XLA for GPUs (JAX 0.11.2, an H200) miscompiled them: at 13 nodes, two seeds
of one sample each, the gradients of what nodes receive and send came out wrong, where the kernels were right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import narkit
from narkit.fused import accelerate, availability, report_parts
from narkit.models import objective
from narkit.models.network import DeviceBatch
from narkit.models.processors import TEAM_PLUS
from narkit.models.unrolling import Unrolling

from . import (
    plain_edge_attention,
    plain_edge_pointers,
    plain_edge_readout,
    plain_latent_step,
    plain_node_product,
    plain_over_time,
    plain_pointers,
    plain_readout,
    plain_team_options,
    plain_triplets,
    whole_pointers,
)
from .plain_latent_step import Case
from .plain_step import assert_equal_to_plain
from .plain_team_options import ALL, READINGS

pytestmark = pytest.mark.gpu

SIZES = [4, 7, 11, 13, 16, 20, 64]
EDGE_POINTERS = ["floyd_warshall", "matrix_chain_order", "optimal_bst"]
PROCESSORS = ["team", "team_plus", "triplet_gmpnn"]


@pytest.fixture(autouse=True, scope="module")
def _optimised() -> Iterator[None]:
    """Programs are compiled as they are for training; the other tests leave most optimisations out."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def cpu() -> Any:
    return jax.devices("cpu")[0]


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_nothing_falls_back(processor: str, num_nodes: int) -> None:
    parts = report_parts("bfs", processor, num_nodes)
    assert set(parts.values()) == {"fused"}, parts


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("algorithm", EDGE_POINTERS)
def test_edge_pointers_do_not_fall_back(algorithm: str, num_nodes: int) -> None:
    for processor in PROCESSORS:
        parts = report_parts(algorithm, processor, num_nodes)
        assert set(parts.values()) == {"fused"}, parts


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("algorithm", EDGE_POINTERS)
def test_whole_edge_pointers_do_not_fall_back(algorithm: str, num_nodes: int) -> None:
    for processor in PROCESSORS:
        parts = report_parts(algorithm, processor, num_nodes, edge_pointers="lossless")
        assert set(parts.values()) == {"fused"}, parts


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("attends", [True, False], ids=["attention", "no attention"])
def test_step_equals_plain_formulas(attends: bool, num_nodes: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    seeds, samples = (2, 3) if num_nodes < 64 else (1, 1)  # on the CPU an array over all triplets and features is large
    assert_equal_to_plain(seeds, samples, num_nodes, 3, attends, device=cpu(), flips=1)


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("num_scalars", [2, 6, 12])
def test_step_over_latents_equals_plain_formulas(num_scalars: int, num_nodes: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    seeds, samples = (2, 3) if num_nodes < 64 else (1, 1)
    case = Case(num_nodes, num_scalars, scale=1.1)
    plain_latent_step.assert_equal_to_plain(seeds, samples, case, device=cpu(), flips=4)


@pytest.mark.parametrize("num_nodes", [4, 7, 11, 13, 16, 20])
@pytest.mark.parametrize("num_scalars", [3, 26, 32, 34, 46])
def test_step_with_further_logits_equals_plain_formulas(num_scalars: int, num_nodes: int) -> None:
    """As in networks that read edge pointers whole, which have as many scalars."""
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    case = Case(num_nodes, num_scalars, scale=0.9, added=True)
    plain_latent_step.assert_equal_to_plain(2, 2, case, device=cpu(), flips=4)


@pytest.mark.parametrize("num_scalars", [1, 4, 8, 10])
@pytest.mark.parametrize(
    "without", ["nothing", "values_of_jk", "residual", "maxima"], ids=lambda name: f"without {name}"
)
def test_step_over_latents_with_any_options(without: str, num_scalars: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    case = Case(13, num_scalars)
    if without != "nothing":
        case = case._replace(**{without: False})
    plain_latent_step.assert_equal_to_plain(2, 2, case, device=cpu(), flips=4)


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("gated", [True, False], ids=["gate", "no gate"])
def test_step_over_normalised_latents_equals_plain_formulas(gated: bool, num_nodes: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    seeds, samples = (2, 3) if num_nodes < 64 else (1, 1)
    case = Case(num_nodes, 3, values_of_jk=False, maxima=False, gated=gated, norm=True)
    plain_latent_step.assert_equal_to_plain(seeds, samples, case, device=cpu(), flips=4)


@pytest.mark.parametrize("num_nodes", [4, 7, 16, 20])
@pytest.mark.parametrize("num_scalars", [0, 3, 6])
@pytest.mark.parametrize("options", [TEAM_PLUS, ALL, *READINGS.values()], ids=["plus", "all", *READINGS])
def test_team_with_options_equals_plain_processor(options: dict[str, Any], num_scalars: int, num_nodes: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    plain_team_options.assert_equal_to_plain(options, 16, num_nodes, num_scalars, cpu())


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("gated", [True, False], ids=["gate", "no gate"])
@pytest.mark.parametrize("masked", [True, False], ids=["mask", "no mask"])
def test_steps_without_a_gate_and_with_masks(masked: bool, gated: bool, num_nodes: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    seeds, samples = (2, 3) if num_nodes < 64 else (1, 1)
    assert_equal_to_plain(seeds, samples, num_nodes, 3, False, device=cpu(), flips=1, gated=gated, masked=masked)


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize(("width", "dense_widths"), [(896, (512,)), (528, (528, 528))], ids=["terms", "decoders"])
def test_linears_of_nodes_equal_plain_formulas(width: int, dense_widths: tuple[int, ...], num_nodes: int) -> None:
    plain_node_product.assert_equal_to_plain(2, 3, num_nodes, 14, width, dense_widths, cpu())


@pytest.mark.parametrize("scale", [1, 7, 60])
@pytest.mark.parametrize("num_steps", [0, 1, plain_over_time.CAPACITY])
def test_products_over_time_equal_plain_formulas(num_steps: int, scale: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    plain_over_time.assert_equal_to_plain(plain_over_time.several, num_steps, seeds=3, scale=scale)


@pytest.mark.parametrize("num_nodes", SIZES)
def test_readout_equals_plain_formula(num_nodes: int) -> None:
    plain_readout.assert_equal_to_plain(2, 3, num_nodes, cpu())
    plain_edge_readout.assert_equal_to_plain(2, 3, num_nodes, 6, cpu())


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("num_scalars", [0, 3, None], ids=["no scalars", "scalars", "features"])
def test_pointers_equal_plain_formula(num_scalars: int | None, num_nodes: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    plain_pointers.assert_equal_to_plain(2, 3, num_nodes, num_scalars, cpu())


@pytest.mark.parametrize("num_nodes", [*SIZES, 2])
@pytest.mark.parametrize("num_scalars", [0, 6, None], ids=["no scalars", "scalars", "features"])
def test_edge_pointers_equal_plain_formula(num_scalars: int | None, num_nodes: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    seeds, samples = (2, 3) if num_nodes < 64 else (1, 1)  # on the CPU an array over all triplets and features is large
    plain_edge_pointers.assert_equal_to_plain(seeds, samples, num_nodes, num_scalars, cpu())
    plain_edge_pointers.assert_equal_to_plain(seeds, samples, num_nodes, num_scalars, cpu(), ties=True)


@pytest.mark.parametrize("num_scalars", [1, 2, 3, 4, 5, 7, 8])
def test_edge_pointers_with_any_number_of_scalars(num_scalars: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    plain_edge_pointers.assert_equal_to_plain(2, 2, 16, num_scalars, cpu())


@pytest.mark.parametrize("num_nodes", [*SIZES, 2, 80])
@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
def test_triplet_edge_attention_equals_plain_layer(masked: bool, num_nodes: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    plain_edge_attention.assert_equal_to_plain(num_nodes, masked, cpu())


@pytest.mark.parametrize("num_nodes", [7, 20])
def test_gradient_of_triplet_edge_attention_equals_plain_layers(num_nodes: int) -> None:
    layer, features = plain_edge_attention.problem(2, num_nodes, False)
    cotangent = jax.random.normal(jax.random.key(2), features[1].shape)

    def gradients(layer: narkit.TripletEdgeAttention, features: Any, cotangent: Any) -> list[Any]:
        pull_back = jax.vjp(
            lambda layer, features: jax.vmap(plain_edge_attention.fast(layer))(*features), layer, features
        )[1]
        return jax.tree.leaves(pull_back(cotangent))

    with jax.default_matmul_precision("highest"):
        ours = jax.jit(gradients)(layer, features, cotangent)
        with availability.use("plain"), jax.default_device(cpu()):
            theirs = jax.jit(lambda *inputs: gradients(*inputs))(*jax.device_put((layer, features, cotangent), cpu()))
    for have, want in zip(ours, theirs, strict=True):
        # A latent, or a t, next to zero may fall on the other side.
        np.testing.assert_allclose(have, want, rtol=1e-3, atol=1e-3 * max(1.0, np.abs(want).max()))


@pytest.mark.parametrize("num_nodes", SIZES)
@pytest.mark.parametrize("num_scalars", [0, 3, 13])
def test_triplets_equal_plain_formulas(num_scalars: int, num_nodes: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    seeds, samples = (2, 3) if num_nodes < 64 else (1, 1)
    plain_triplets.assert_maxima_equal_to_plain(seeds, samples, num_nodes, num_scalars, cpu())
    plain_triplets.assert_logits_equal_to_plain(seeds, samples, num_nodes, num_scalars, cpu(), flips=4)


@pytest.mark.parametrize("num_nodes", [4, 7, 13, 16, 33])
@pytest.mark.parametrize("num_features", [1, 3, 8, 14, 26, 44, 48])
def test_latents_of_any_number_of_features(num_features: int, num_nodes: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    plain_triplets.assert_logits_equal_to_plain(2, 3, num_nodes, 3, cpu(), flips=4, num_features=num_features)
    plain_edge_readout.assert_equal_to_plain(2, 3, num_nodes, 2, cpu(), num_features)


@pytest.mark.parametrize("num_scalars", [1, 2, 4, 5, 6, 8])
def test_any_number_of_scalars(num_scalars: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    assert_equal_to_plain(2, 2, 7, num_scalars, True, device=cpu(), flips=1)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize(
    ("algorithm", "hint_gradient"),
    [("bfs", 1.0), ("segments_intersect", 1.0), ("floyd_warshall", 1.0), ("bfs", 0.5), ("mst_kruskal", 0.5)],
)
def test_network_equals_plain_network(algorithm: str, hint_gradient: float, processor: str) -> None:
    assert_networks_agree(algorithm, processor, Unrolling(hint_gradient=hint_gradient), 0.99)


@pytest.mark.parametrize("algorithm", EDGE_POINTERS)
@pytest.mark.parametrize("hint_gradient", [1.0, 0.5])
def test_network_with_whole_edge_pointers_equals_plain_network(algorithm: str, hint_gradient: float) -> None:
    reasoner = whole_pointers.network(algorithm, "team_plus")
    assert_networks_agree(algorithm, reasoner, Unrolling(hint_gradient=hint_gradient), 0.99)


@pytest.mark.parametrize("algorithm", EDGE_POINTERS)
@pytest.mark.parametrize("size", [7, 16, 33, 64])
def test_step_with_whole_edge_pointers_equals_plain_formulas(algorithm: str, size: int) -> None:
    assert availability.mode() is availability.Mode.FUSED, "this machine has no GPU that the kernels run on"
    whole_pointers.assert_steps_agree(algorithm, size, cpu())


@pytest.mark.parametrize("processor", ["mpnn", "pgn", "gpgn", "deepsets", "triplet_pgn"])
@pytest.mark.parametrize("options", [Unrolling(), Unrolling(0.5, "hard")], ids=["soft", "forced and hard"])
@pytest.mark.parametrize("algorithm", ["bfs", "mst_prim"])
def test_networks_of_message_passing_equal_plain_ones(algorithm: str, options: Unrolling, processor: str) -> None:
    """Without a gate, rounding turns gradients further: plain ones by up to 0.989 if weights change by one in 256."""
    assert_networks_agree(algorithm, processor, options, 0.97)


def assert_networks_agree(algorithm: str, processor: str | narkit.Reasoner, options: Unrolling, cosine: float) -> None:
    """Loss and gradients of a network as it trains. Rounding decides between nearly equal messages, so these compare
    directions. On the CPU the same kernels are compared leaf by leaf (`test_fused.assert_same_gradients`), and above
    each of them with formulas that round as it does."""
    batch = DeviceBatch.of(narkit.sample(algorithm, size=16, batch_size=8, seed=0))
    reasoner = processor
    if not isinstance(reasoner, narkit.Reasoner):
        reasoner = narkit.Reasoner(algorithm, reasoner, key=jax.random.key(0))

    def run(reasoner: narkit.Reasoner, batch: DeviceBatch) -> Any:
        how = {"key": jax.random.key(1), "options": options, "bind": accelerate(reasoner, options).form}
        return jax.jit(jax.value_and_grad(lambda r: objective.loss(r, batch, **how)))(reasoner)

    loss, gradients = run(reasoner, batch)
    with availability.use("plain"), jax.default_device(cpu()):
        expected, expected_gradients = run(*jax.device_put((reasoner, batch), cpu()))
    assert float(loss) == pytest.approx(float(expected), rel=3e-3)
    ours, theirs = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(g)]) for g in (gradients, expected_gradients)
    )
    assert np.vdot(ours, theirs) / (np.linalg.norm(ours) * np.linalg.norm(theirs)) > cosine
