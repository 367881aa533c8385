"""Imports and exports the parameters of dm-clrs.

dm-clrs keeps its parameters in Haiku's form: `{"net/...": {"w": ..., "b": ...}}`, as its checkpoints hold it. Module
names are numbered in the order of creation; this file is the one place that knows that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from narkit.algorithms import ALGORITHMS
from narkit.models.decoders import Decoder
from narkit.models.layers import LayerNorm, Linear
from narkit.models.network import Hints, Reasoner
from narkit.models.processors.message_passing import MessagePassing, MessagePassingProcessor
from narkit.models.processors.triplet_gmpnn import TripletProcessor
from narkit.spec import Kind, Location, Probe, Stage

Parameters = Mapping[str, Mapping[str, np.ndarray]]

PROCESSOR = "net/mpnn_aggr_clrs_processor"
CODERS = "net/~_construct_encoders_decoders"


def from_haiku(algorithms: str | Sequence[str], params: Parameters, processor: str = "triplet_gmpnn") -> Reasoner:
    """Makes a reasoner with the parameters of a dm-clrs network.

    The hidden size and the use of hints are read off the parameters. `algorithms` must be in the order in which the
    dm-clrs network had them. Missing, superfluous or misshapen parameters are named.
    """
    names = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
    given = {f"{_short(module)}/{key}": value for module, layer in params.items() for key, value in layer.items()}
    skeleton = Reasoner(names, processor, _hidden_size(given), _hint_mode(names, given), key=jax.random.key(0))
    expected = {
        f"{_short(module)}/{key}": array
        for module, layer in _layers(skeleton).items()
        for key, array in _arrays(layer).items()
    }
    if set(given) != set(expected):
        raise ValueError(
            f"the parameters do not fit {processor} for {', '.join(names)}: "
            f"missing {sorted(set(expected) - set(given))}, superfluous {sorted(set(given) - set(expected))}"
        )
    replacements = {}
    for name, array in expected.items():
        value = jnp.asarray(given[name], array.dtype)
        if value.shape != array.shape:
            raise ValueError(f"parameter {name}: expected shape {array.shape}, got {value.shape}")
        replacements[id(array)] = value
    return jax.tree.map(lambda leaf: replacements[id(leaf)], skeleton)


def to_haiku(reasoner: Reasoner) -> dict[str, dict[str, np.ndarray]]:
    """Returns a reasoner's parameters in dm-clrs's form. Processor and interfaces must be such that dm-clrs has."""
    if changed := reasoner.interfaces.changed:
        raise ValueError(f"expected interfaces as dm-clrs has them, got a network with {changed}")
    return {
        name: {key: np.asarray(array) for key, array in _arrays(layer).items()}
        for name, layer in _layers(reasoner).items()
    }


def _short(name: str) -> str:
    """Returns a name without Haiku's marks for the method that made a module, which differ between its versions."""
    return "/".join(part for part in name.split("/") if not part.startswith("~"))


def _hidden_size(given: Mapping[str, np.ndarray]) -> int:
    try:
        return given[f"{PROCESSOR}/linear/b"].shape[0]
    except KeyError:
        raise ValueError(
            f"expected dm-clrs parameters with a module {PROCESSOR}/linear, got {sorted(given)[:5]} ..."
        ) from None


def _hint_mode(names: Sequence[str], given: Mapping[str, np.ndarray]) -> Hints:
    """Returns whether hints are encoded, only decoded, or neither, which the modules for the first hint show."""
    spec = ALGORITHMS[names[0]].transformed_spec
    hint = next(name for name, probe in spec.items() if probe.stage is Stage.HINT)
    if _short(f"{CODERS}/algo_0_{hint}_enc_linear/w") in given:
        return Hints.ENCODED
    return Hints.DECODED if _short(f"{CODERS}/algo_0_{hint}_dec_linear/w") in given else Hints.NONE


def _arrays(layer: Linear | LayerNorm) -> dict[str, jax.Array]:
    if isinstance(layer, Linear):
        return {"w": layer.weight, "b": layer.bias}
    return {"scale": layer.scale, "offset": layer.offset}


def _layers(reasoner: Reasoner) -> dict[str, Linear | LayerNorm]:
    """Returns every layer under its Haiku name."""
    layers = _processor_layers(reasoner)
    for index, algorithm in enumerate(reasoner.algorithms):
        spec = ALGORITHMS[algorithm].transformed_spec
        for name, linears in reasoner.encoders[algorithm].linears.items():
            layers |= _numbered(f"{CODERS}/algo_{index}_{name}_enc_linear", linears)
        for decoders in (reasoner.output_decoders[algorithm], reasoner.hint_decoders[algorithm]):
            for name, decoder in decoders.by_probe.items():
                layers |= _numbered(f"{CODERS}/algo_{index}_{name}_dec_linear", _in_order(spec[name], decoder))
    return layers


def _processor_layers(reasoner: Reasoner) -> dict[str, Linear | LayerNorm]:
    processor = reasoner.processor
    if not isinstance(processor, MessagePassingProcessor | TripletProcessor):
        raise ValueError(f"dm-clrs has no processor like {type(processor).__name__}; use an MPNN, PGN or a triplet one")
    passing: MessagePassing = processor.message_passing
    linears = [passing.receiver, passing.sender, passing.edge, passing.graph, passing.from_nodes, passing.from_messages]
    if isinstance(processor, TripletProcessor):
        triplets = processor.triplets
        linears += [*triplets.nodes, *triplets.edges, triplets.graph, triplets.out]
    if passing.gate is not None:
        linears += [passing.gate.from_nodes, passing.gate.from_messages, passing.gate.out]
    return _numbered(f"{PROCESSOR}/linear", linears) | {
        f"{PROCESSOR}/mlp/~/linear_0": passing.mlp[0],
        f"{PROCESSOR}/mlp/~/linear_1": passing.mlp[1],
        f"{PROCESSOR}/layer_norm": passing.norm,
    }


def _numbered(name: str, linears: Sequence[Linear]) -> dict[str, Linear | LayerNorm]:
    return {name if i == 0 else f"{name}_{i}": linear for i, linear in enumerate(linears)}


def _in_order(probe: Probe, decoder: Decoder) -> list[Linear]:
    """Returns the Linears of a decoder in the order in which dm-clrs makes them."""
    nodes = list(decoder.on_nodes)
    score = [] if decoder.score is None else [decoder.score]
    if probe.location is Location.GRAPH:
        return [*decoder.on_pooled, *decoder.on_graph, *nodes]
    if probe.location is Location.EDGE and probe.kind is Kind.POINTER:
        return [nodes[0], nodes[1], *decoder.on_edges, nodes[2], *score]
    return [*nodes, *decoder.on_edges, *score]
