"""Kernels: parts of networks that are written for speed, each with its plain formula beside it.

- `triplets`: reductions over triplets of nodes that never hold an array over all triplets and features; `reference` has
  the same written plainly.
- `time_loop`: the loop over the steps of an algorithm, with its own gradient (`deferred_gradients`).
- `fused`: CUDA kernels, each of which does in one launch what the compiler would spread over dozens.
- `narrow_product`: products with a matrix of few rows.
"""

from __future__ import annotations


def report_paths(algorithm: str, processor: str, num_nodes: int, hidden_size: int = 128) -> dict[str, str]:
    """Which way each part of a network goes on this machine: "fused" (kernels of our own) or "plain".

    The parts are the processor's ("attention" or "triplets" where it has them, "messages" and "update", or just
    "processor"), "decoders" and, where a kernel decodes the pointers among them, "pointers" (of nodes) and
    "edge_pointers".
    """
    from narkit.kernels import paths  # pulls in JAX

    return paths.report(algorithm, processor, num_nodes, hidden_size)
