"""Compares the formulas that kernels stand for with the kernels again, and renews their digests if they are equal.

    python tests/fused/renew_formulas.py

The kernels are compiled for the CPU, which takes g++ and about ten minutes. To be run in a checkout after a formula of
`narkit.models` was edited in a way that changes nothing as long as a new option is off, or together with its kernel.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FORMULAS = [
    "test_fused.py", "test_fused_edge_attention.py", "test_fused_triplets.py", "test_fused_triplet_logits.py",
    "test_fused_latent_step.py", "test_fused_team_options.py", "test_fused_whole_pointers.py",
]  # fmt: skip
# With those that take too long for the default tests.
NETWORKS = [
    "test_fused.py::test_network_equals_plain_network", "test_fused_team_options.py",
    *(f"test_fused_whole_pointers.py::test_network_equals_plain_network[{case}]"
      for case in ("floyd_warshall-4", "matrix_chain_order-5", "optimal_bst-4")),
]  # fmt: skip


def main() -> int:
    sys.path.insert(0, str(HERE.parents[1] / "src"))
    from narkit.fused import formulas

    before = {name: digest for part in formulas.ROOTS for name, digest in formulas.digests(part).items()}
    formulas.trust()
    for marks, chosen in (("not gpu and not slow", FORMULAS), ("slow", NETWORKS)):
        tests = [str(HERE / comparison) for comparison in chosen]
        status = pytest.main(["-q", "-x", "-m", marks, "-p", "no:cacheprovider", "-p", "no:xdist", *tests])
        if status != 0:
            print("the comparison failed, so the digests stay as they are", file=sys.stderr)
            return int(status)
    formulas.write(before)
    print(f"{len(before)} digests written to {formulas.DIGESTS.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
