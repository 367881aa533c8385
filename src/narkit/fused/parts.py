"""Which parts of a network run as fused kernels: found by tracing one step of it, so it is what runs."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from narkit import fused
from narkit.algorithms import ALGORITHMS
from narkit.fused.availability import Mode
from narkit.fused.launch import Kernel, launches_in
from narkit.models.encoders import as_values
from narkit.models.network import Reasoner
from narkit.models.pointer_decoders import points
from narkit.spec import Location


def report(algorithm: str, processor: str, num_nodes: int, hidden_size: int, edge_pointers: str) -> dict[str, str]:
    """Does what `narkit.fused.report_parts` describes."""
    if num_nodes < 1:
        raise ValueError(f"expected a positive number of nodes, got {num_nodes}")
    reasoner = eqx.filter_eval_shape(
        lambda key: Reasoner(algorithm, processor, hidden_size, edge_pointers=edge_pointers, key=key),
        jax.random.key(0),
    )
    kernels = _kernels_of_step(reasoner, algorithm, num_nodes)
    sources = {kernel.source for kernel in kernels}
    attends = "latent_features.cu" in sources or any(
        kernel.source == "messages.cu" and dict(kernel.macros)["ATTENTION"] for kernel in kernels
    )
    parts: dict[str, bool] = {}
    if hasattr(reasoner.processor, "attention"):
        parts["attention"] = attends
    if hasattr(reasoner.processor, "triplets"):
        parts["triplets"] = "triplet_messages.cu" in sources
    if hasattr(reasoner.processor, "message_passing"):
        parts |= {"messages": "messages.cu" in sources, "update": "update.cu" in sources}
    else:
        parts["processor"] = False
    parts["node_linears"] = "node_product.cu" in sources
    spec = ALGORITHMS[algorithm].transformed_spec
    decoded = {(spec[name].location, points(spec[name])) for name in reasoner.hint_decoders[algorithm].by_probe}
    if (Location.NODE, True) in decoded:
        parts["pointers"] = bool(sources & {"pointer.cu", "latent_pointer.cu"})
    if (Location.EDGE, True) in decoded:
        parts["edge_pointers"] = "edge_pointer.cu" in sources
    if reasoner.attention_terms is not None:
        parts["whole_pointers"] = any(dict(kernel.macros).get("ADDED") for kernel in kernels)
    if (Location.EDGE, False) in decoded:
        parts["edge_hints"] = "edge_readout.cu" in sources
    if any(location is not Location.EDGE for location, _ in decoded):
        parts["hints_read_again"] = "readout.cu" in sources
    return {part: (Mode.FUSED if fused else Mode.PLAIN).value for part, fused in parts.items()}


def _kernels_of_step(reasoner: Reasoner, algorithm: str, num_nodes: int) -> list[Kernel]:
    spec = ALGORITHMS[algorithm].transformed_spec
    stored = {
        name: jax.ShapeDtypeStruct((1, *spec[name].shape(num_nodes)), spec[name].dtype)
        for name in reasoner.encoders[algorithm].linears
    }
    hidden = jax.ShapeDtypeStruct((1, num_nodes, reasoner.hidden_size), jnp.float32)

    def step(reasoner, stored, hidden):
        network = (fused.accelerate(reasoner).form or Reasoner.bind)(reasoner, algorithm)
        return network.step(network.read(as_values(spec, stored, num_nodes)), hidden)

    program = jax.make_jaxpr(step)(reasoner, stored, hidden)
    return [eqn.params["kernel"] for eqn in launches_in(program.jaxpr)]
