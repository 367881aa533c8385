"""The ablation of TEAM+ as systems: each takes one lever out of the network that the column was run with.

    PYTHONPATH=benchmarks/development narkit --import ablation sweep --preset development \
        --systems team_plus,without_scale --algorithms bfs,binary_search --out results/development/ablation

trains three seeds of each on 4,000 steps and scores them at size 64 on instances of their own. `python
benchmarks/development/tables.py` writes what lies in results/development/ablation into docs/beyond.md. What runs where:

    python benchmarks/development/ablation.py
"""

from dataclasses import replace

import narkit

ALGORITHMS = (
    "floyd_warshall", "matrix_chain_order", "optimal_bst", "insertion_sort", "mst_prim", "kmp_matcher",
    "naive_string_matcher", "binary_search", "bfs", "graham_scan",
)  # fmt: skip
"""The rows of the ablation; the last two are guards."""
EDGE_POINTERS = ALGORITHMS[:3]
WITH_COPYING = ("quickselect", "dfs", "strongly_connected_components")
"""The rows that are trained with node pointers that are kept from step to step, and without."""

WHOLE = narkit.SYSTEMS["team_plus"]
OUT_OF_THE_PROCESSOR = {
    "scale": "none", "both_directions": False, "values_of_kj": False, "residual": False, "maxima": 0, "latents": False,
}  # fmt: skip
OUT_OF_THE_REST = {"growing_hints": ("growing_hints", False), "lossless": ("edge_pointers", "means"),
                   "damping": ("hint_gradient", 1.0)}  # fmt: skip


def _without(lever: str) -> narkit.System:
    system = replace(WHOLE, name=f"without_{lever}", title=f"TEAM+ without {lever}", colour=None)
    if lever in OUT_OF_THE_PROCESSOR:
        return replace(system, options={lever: OUT_OF_THE_PROCESSOR[lever]})
    name, value = OUT_OF_THE_REST[lever]
    return replace(system, settings={**WHOLE.settings, name: value})


ARMS = {lever: _without(lever) for lever in (*OUT_OF_THE_PROCESSOR, *OUT_OF_THE_REST)}
COPYING = replace(
    WHOLE,
    name="with_copying",
    title="TEAM+ with copying",
    settings={**WHOLE.settings, "keep_pointers": True},
    colour=None,
)
THREE = replace(
    WHOLE,
    name="without_three",
    title="TEAM+ without maxima, values of kj and growing hints",
    options={name: OUT_OF_THE_PROCESSOR[name] for name in ("maxima", "values_of_kj")},
    settings={**WHOLE.settings, "growing_hints": False},
    colour=None,
)
"""The three levers whose loss gained most on binary search, taken out at once; on that row only."""
for _system in (*ARMS.values(), COPYING, THREE):
    narkit.SYSTEMS.add(_system)


def algorithms_of(system: str) -> tuple[str, ...]:
    """The rows that an arm is trained on: without edge pointers, `without_lossless` is TEAM+ itself."""
    if system == "without_lossless":
        return EDGE_POINTERS
    if system == COPYING.name:
        return WITH_COPYING
    return (*ALGORITHMS, *WITH_COPYING) if system == WHOLE.name else ALGORITHMS


if __name__ == "__main__":
    for name in (WHOLE.name, *(arm.name for arm in ARMS.values()), COPYING.name):
        print(name, ",".join(algorithms_of(name)))
