"""Which parts of networks run as fused kernels: what is reported, and who decides."""

import jax
import jax.numpy as jnp
import pytest

from narkit.errors import UnknownNameError
from narkit.fused import availability, report_parts
from narkit.fused.launch import Kernel

FUSED, PLAIN = "fused", "plain"
AROUND_PROCESSORS = {"node_linears": FUSED, "pointers": FUSED, "hints_read_again": FUSED}
PARTS = {
    "team": {"attention": FUSED, "messages": FUSED, "update": FUSED},
    "team_plus": {"attention": FUSED, "messages": FUSED, "update": FUSED},
    "triplet_gmpnn": {"triplets": FUSED, "messages": FUSED, "update": FUSED},
    "triplet_mpnn": {"triplets": FUSED, "messages": FUSED, "update": FUSED},  # no gate
    "triplet_gpgn": {"triplets": FUSED, "messages": FUSED, "update": FUSED},  # neighbours only
    "mpnn": {"messages": FUSED, "update": FUSED},
    "pgn": {"messages": FUSED, "update": FUSED},
    "deepsets": {"messages": FUSED, "update": FUSED},
    "memnet": {"processor": PLAIN},
}


@pytest.mark.parametrize("processor", PARTS)
def test_parts_with_kernels(processor: str) -> None:
    with availability.use(FUSED):
        parts = report_parts("bfs", processor, 16)
    assert parts == PARTS[processor] | AROUND_PROCESSORS


@pytest.mark.parametrize("algorithm", ["floyd_warshall", "matrix_chain_order", "optimal_bst"])
def test_parts_of_edge_pointers(algorithm: str) -> None:
    for processor in ("team", "team_plus", "triplet_gmpnn"):
        with availability.use(FUSED):
            assert set(report_parts(algorithm, processor, 7).values()) == {FUSED}
            narrow = report_parts(algorithm, processor, 7, hidden_size=64)
        assert narrow["edge_pointers"] == PLAIN and set(narrow.values()) == {PLAIN}


@pytest.mark.parametrize("algorithm", ["floyd_warshall", "matrix_chain_order", "optimal_bst"])
def test_parts_of_edge_pointers_that_are_read_whole(algorithm: str) -> None:
    for processor in ("team", "team_plus", "triplet_gmpnn", "memnet"):
        with availability.use(FUSED):
            parts = report_parts(algorithm, processor, 7, edge_pointers="lossless")
        assert ("whole_pointers" in parts) == processor.startswith("team")
        assert set(parts.values()) == {FUSED} or (processor == "memnet" and parts["edge_pointers"] == FUSED)
        with availability.use(PLAIN):
            plain = report_parts(algorithm, processor, 7, edge_pointers="lossless")
        assert set(plain) == set(parts) and set(plain.values()) == {PLAIN}


def test_parts_are_those_that_an_algorithm_has() -> None:
    with availability.use(FUSED):
        assert "pointers" not in report_parts("minimum", "team", 7)  # no hint of it points
        assert "edge_pointers" not in report_parts("bfs", "team", 7)
    with availability.use(PLAIN):
        parts = report_parts("floyd_warshall", "team", 7)
    assert parts["edge_pointers"] == PLAIN and parts["node_linears"] == PLAIN and parts["hints_read_again"] == PLAIN


def test_parts_without_kernels() -> None:
    with availability.use(PLAIN):
        assert set(report_parts("bfs", "team", 16).values()) == {PLAIN}
    with availability.use(FUSED):
        assert set(report_parts("bfs", "team", 16, hidden_size=64).values()) == {PLAIN}


def test_a_machine_without_gpu_runs_plain() -> None:
    if jax.default_backend() == "cpu":
        assert availability.mode() is availability.Mode.PLAIN
    with availability.use(FUSED):
        assert availability.mode() is availability.Mode.FUSED
        with availability.use(None):
            assert (availability.refusal() is None) == (jax.default_backend() == "gpu")
        assert availability.mode() is availability.Mode.FUSED


def test_the_environment_can_ask_for_a_mode(monkeypatch) -> None:
    monkeypatch.setenv("NARKIT_KERNELS", FUSED)
    assert availability.mode() is availability.Mode.FUSED
    with availability.use(PLAIN):  # which is nearer
        assert availability.mode() is availability.Mode.PLAIN
    monkeypatch.setenv("NARKIT_KERNELS", "fuse")
    with pytest.raises(UnknownNameError, match="did you mean 'fused'"):
        availability.mode()


def test_unknown_names_propose_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'bfs'"):
        report_parts("bfss", "team", 16)
    with pytest.raises(UnknownNameError, match="did you mean 'team'"):
        report_parts("bfs", "teams", 16)
    with pytest.raises(UnknownNameError, match="did you mean 'plain'"), availability.use("plane"):
        pass
    with pytest.raises(ValueError, match="positive number of nodes, got 0"):
        report_parts("bfs", "team", 0)


def test_a_kernel_on_a_cpu_says_what_to_do() -> None:
    kernel = Kernel("update.cu", "update_forward", (), (1, 1), 0)
    with pytest.raises(RuntimeError, match="the kernel update_forward runs on NVIDIA GPUs only; use the plain mode"):
        jax.jit(lambda x: kernel(x, outputs=[((2,), jnp.float32)]))(jnp.zeros(2))
