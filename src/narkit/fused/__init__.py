"""Everything that is written for GPUs: kernels that do in one launch what the compiler would spread over dozens.

Each has its plain formula beside it, in `narkit.models`.
"""

from __future__ import annotations


def report_paths(algorithm: str, processor: str, num_nodes: int, hidden_size: int = 128) -> dict[str, str]:
    """Which way each part of a network goes on this machine: "fused" (kernels of our own) or "plain".

    The parts are the processor's ("attention" or "triplets" where it has them, "messages" and "update", or just
    "processor"), "decoders" and, where a kernel decodes the pointers among them, "pointers" (of nodes) and
    "edge_pointers".
    """
    from narkit.fused import paths  # pulls in JAX

    return paths.report(algorithm, processor, num_nodes, hidden_size)
