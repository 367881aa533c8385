"""Everything that is written for GPUs: kernels that do in one launch what the compiler would spread over dozens.

`accelerate` is the one entry: it takes a network, or Triplet Edge Attention on its own, and gives its fast form or the
reason why it has none. The formulas that the kernels stand for are those of `narkit.models`, which knows nothing of
this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narkit.fused.acceleration import Acceleration
    from narkit.models.unrolling import Unrolling


def accelerate(network: Any, unrolling: Unrolling | None = None) -> Acceleration:
    """Returns the fast form of a `Reasoner`, or of a `TripletEdgeAttention`, or why it has none.

    ```python
    found = narkit.fused.accelerate(reasoner)
    found.form          # for `unroll` and `loss`, as `bind=`; None if nothing of it runs in kernels
    found.report        # {"fast": True, "reason": "", "parts": {...}}

    attention = narkit.fused.accelerate(layer).form or layer
    attention(nodes, edges, graph)
    ```

    It looks at classes, shapes and options, never at numbers, so it may be asked inside `jax.jit`. `unrolling` are the
    options that a network is to be unrolled with, if any.
    """
    from narkit.fused import acceleration  # pulls in JAX

    return acceleration.accelerate(network, unrolling)


def report_parts(
    algorithm: str, processor: str, num_nodes: int, hidden_size: int = 128, edge_pointers: str = "means"
) -> dict[str, str]:
    """Returns how each part of a network runs on this machine: "fused" (kernels of our own) or "plain".

    The parts are the processor's ("attention" or "triplets" where it has them, "messages" and "update", or just
    "processor"), "decoders" and, where a kernel decodes the pointers among them, "pointers" (of nodes) and
    "edge_pointers". With `edge_pointers="lossless"` (see `narkit.Reasoner`) "whole_pointers" says whether the kernels
    of the attention are told of edge pointers and give its weights to decoders. What then remains are products over
    triplets without features, which the compiler makes.
    """
    from narkit.fused import parts  # pulls in JAX

    return parts.report(algorithm, processor, num_nodes, hidden_size, edge_pointers)
