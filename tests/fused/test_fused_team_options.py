"""TEAM with options in fused kernels, compiled for the CPU, equals TEAM by plain formulas, option by option."""

from __future__ import annotations

from typing import Any

import jax
import pytest

from narkit.fused import availability
from narkit.models.processors import TEAM_PLUS

from .emulation import emulated, needs_compiler
from .plain_team_options import ALL, READINGS, assert_equal_to_plain, assert_folding_is_exact

# Options, nodes, and scalars per edge.
WITH_KERNELS: list[tuple[dict[str, Any], int, int]] = [
    (ALL, 7, 3),
    ({"values_of_kj": True, "residual": True, "scale": "log", "latents": True}, 4, 1),
]
OTHERS: list[tuple[dict[str, Any], int, int]] = [
    (ALL, 4, 0), (ALL, 13, 1), (ALL, 16, 3), (ALL, 20, 6), (TEAM_PLUS, 4, 0), ({"latents": True}, 5, 2),
    ({"both_directions": True, "latents": True}, 5, 2), ({"maxima": 8}, 5, 2),
    ({"reads": "both"}, 5, 2), ({"residual": True, "scale": "log"}, 5, 2),
    *((options, 5, 2) for options in READINGS.values()), (READINGS["from thirds, to the receiver"], 4, 3),
    (TEAM_PLUS, 6, 2), ({"third_edges": "from"}, 4, 0),
    ({"values_of": "receiver"}, 4, 1),
    ({**ALL, "values_of_kj": False}, 5, 2), ({**ALL, "both_directions": False}, 5, 2),
    ({**ALL, "maxima": 0}, 5, 2), ({**ALL, "gated": False}, 5, 2),
    (READINGS["second reading"], 13, 3), ({**ALL, "norm": True, "latents": False}, 5, 2),
]  # fmt: skip


def name_of(options: dict[str, Any], num_nodes: int, num_scalars: int) -> str:
    changed = [f"{name}={value}" for name, value in options.items() if ALL.get(name) != value]
    chosen = ["all", *changed] if set(ALL) <= set(options) else [f"{k}={v}" for k, v in options.items()]
    return f"{', '.join(chosen)}; nodes: {num_nodes}, scalars: {num_scalars}"


def cases(slow: Any = ()) -> list[Any]:
    chosen = [(case, ()) for case in WITH_KERNELS] + [(case, slow) for case in OTHERS]
    return [pytest.param(*case, id=name_of(*case), marks=marks) for case, marks in chosen]


@pytest.mark.parametrize(("options", "num_nodes", "num_scalars"), cases())
def test_folding_is_exact(options: dict[str, Any], num_nodes: int, num_scalars: int) -> None:
    """What the kernels are given, by formulas without rounding, equals the plain processor. `test_fused_latent_step`
    compares the kernels with these formulas."""
    with availability.use("fused"):
        assert_folding_is_exact(options, num_nodes, num_scalars)


@needs_compiler
@pytest.mark.parametrize(("options", "num_nodes", "num_scalars"), cases(slow=pytest.mark.slow))
def test_processor_equals_plain_formulas(options: dict[str, Any], num_nodes: int, num_scalars: int) -> None:
    """Both together, up to the noise of bfloat16."""
    samples = 16 if num_nodes < 7 else 2  # of few edges a message that wins by rounding is much of a gradient
    with emulated():
        measured = (options, num_nodes, num_scalars) in WITH_KERNELS
        assert_equal_to_plain(options, samples, num_nodes, num_scalars, jax.devices()[0], measured)
