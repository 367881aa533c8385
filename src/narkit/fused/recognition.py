"""Which networks the kernels are made for: exact classes, with fields and options that the kernels know.

A subclass may compute anything, and so may a class that has got a further field since its kernels were written. Both
run by their own formulas. A field that the kernels do not know is no obstacle while it is off (None, False, or its
default): with it off the formulas are those that the kernels were compared with, which `formulas` watches over.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax

from narkit.fused import formulas
from narkit.fused.latent_processor import FusedLatentStep, reads_both_directions
from narkit.fused.messages import features_fit
from narkit.fused.processors import (
    FusedProcessor,
    PlainProcessor,
    bind_message_passing,
    bind_team,
    bind_triplets,
)
from narkit.fused.triplet_messages import FEATURES as NUM_MAXIMA
from narkit.fused.weights import HIDDEN_SIZE
from narkit.models.decoders import Decoder, Decoders
from narkit.models.edge_pointers import EdgePointerDecoder
from narkit.models.encoders import Encoders
from narkit.models.features import Bases
from narkit.models.layers import LayerNorm, Linear
from narkit.models.narrow_maxima import NarrowMaxima
from narkit.models.network import Reasoner
from narkit.models.processors.base import Processor
from narkit.models.processors.deepsets import DeepSets
from narkit.models.processors.message_passing import Gate, MessagePassing, MessagePassingProcessor
from narkit.models.processors.mpnn import MPNN, GatedMPNN
from narkit.models.processors.pgn import PGN, GatedPGN
from narkit.models.processors.team import TEAM
from narkit.models.processors.triplet_gmpnn import (
    TripletGMPNN,
    TripletGPGN,
    TripletMPNN,
    TripletPGN,
    TripletReasoning,
)
from narkit.models.triplet_edge_attention import TripletEdgeAttention
from narkit.models.unrolling import Unrolling

ATTENTION_OPTIONS = (
    "reversed_edges", "further_values", "residual", "maxima", "reads", "scale", "both_directions", "values_of_kj",
    "norm", "third_edges", "values_of",
)  # fmt: skip
"""The options of Triplet Edge Attention that have kernels inside TEAM; the layer on its own has none with them."""

KNOWN_FIELDS: dict[type, set[str]] = {
    Reasoner: {
        "encoders", "output_decoders", "hint_decoders", "processor", "algorithms", "hidden_size", "hints",
        "processor_name", "processor_options", "interfaces", "attention_terms",
    },
    Encoders: {"linears", "hidden_size", "pointed_at"},
    Decoders: {"by_probe", "hidden_size", "latent_size"},
    Decoder: {"on_nodes", "on_edges", "on_pooled", "on_graph", "score", "edge_pointer"},
    EdgePointerDecoder: {"query_nodes", "query_edge", "keys", "read", "attends"},
    Linear: {"weight", "bias"},
    LayerNorm: {"scale", "offset"},
    MessagePassing: {
        "receiver", "sender", "edge", "graph", "mlp", "from_nodes", "from_messages", "norm", "gate",
    },
    Gate: {"from_nodes", "from_messages", "out"},
    TripletEdgeAttention: {
        "node_i", "node_j", "node_k", "edge_ij", "edge_ik", "edge_jk", "graph", "attention", "attention_bias",
        "value", "activation", "slope", *ATTENTION_OPTIONS,
    },
    NarrowMaxima: {"nodes", "edges", "graph", "out"},
    TEAM: {"attention", "message_passing", "latent_size"},
    TripletReasoning: {"nodes", "edges", "graph", "out"},
    **{
        with_triplets: {"message_passing", "triplets", "latent_size"}
        for with_triplets in (TripletGMPNN, TripletMPNN, TripletPGN, TripletGPGN)
    },
    **{others: {"message_passing", "latent_size"} for others in (MPNN, GatedMPNN, PGN, GatedPGN, DeepSets)},
    Unrolling: {"teacher_forcing", "reprediction", "hint_gradient"},
}  # fmt: skip
"""The classes that the kernels stand for, and the fields that these know."""


class Refusal(Exception):
    """A part of a network that the kernels are not made for; the message says why."""


def check_network(reasoner: Reasoner, unrolling: Unrolling | None) -> None:
    """Refuses networks of which no part runs in kernels. Processors are looked at apart: see `recognise_processor`."""
    _check_known(reasoner, apart=("processor",))
    if unrolling is not None:
        _check_known(unrolling)
    if reasoner.hidden_size != HIDDEN_SIZE:
        raise Refusal(f"the kernels are written for a hidden size of {HIDDEN_SIZE}, not {reasoner.hidden_size}")
    _check_formulas("network")


def check_attention(layer: TripletEdgeAttention, *, rectified: bool, inside: bool = False) -> None:
    """Refuses layers that are no Triplet Edge Attention of one head and the kernels' width.

    `inside` a processor there are kernels for some of its options, too.
    """
    _check_known(layer)
    chosen = [] if inside else [name for name in ATTENTION_OPTIONS if _is_on(getattr(layer, name))]
    if chosen:
        raise Refusal(f"the layer on its own has no kernels with the option {chosen[0]}")
    num_heads, width = layer.attention.shape
    if num_heads != 1:
        raise Refusal(f"the kernels are written for one head, not {num_heads}")
    if width != HIDDEN_SIZE:
        raise Refusal(f"the kernels are written for a hidden size of {HIDDEN_SIZE}, not {width}")
    if rectified and layer.activation is not jax.nn.relu:
        raise Refusal("the kernels are written for the activation jax.nn.relu")
    _check_formulas("attention")


class Place(NamedTuple):
    """The properties of the network around a processor that decide how it is bound."""

    num_edge_scalars: int = 1
    told: bool = False  # whether its attention is told of edge pointers, and gives its weights to decoders

    @classmethod
    def of(cls, reasoner: Reasoner, algorithm: str) -> Place:
        bases = eqx.filter_eval_shape(
            lambda encoders: encoders.bases(reasoner.spec(algorithm)), reasoner.encoders[algorithm]
        )
        return cls(len(bases.edge.directions), algorithm in (reasoner.attention_terms or {}))


NO_PLACE = Place()

BindProcessor = Callable[[Any, Bases], FusedProcessor]


def recognise_processor(processor: Processor, place: Place = NO_PLACE) -> tuple[BindProcessor, str]:
    """Returns what binds a processor, and which of its parts run by plain formulas and why; "" if none do."""
    try:
        _check_known(processor)
        if isinstance(processor, TEAM):
            return _recognise_team(processor, place)
        return _recognise_message_passing(processor)
    except Refusal as refusal:
        return _bind_plain, str(refusal)


def processor_binder(processor: Processor, place: Place = NO_PLACE) -> BindProcessor:
    return recognise_processor(processor, place)[0]


def _recognise_team(processor: TEAM, place: Place) -> tuple[BindProcessor, str]:
    layer = processor.attention
    check_attention(layer, rectified=True, inside=True)
    _check_formulas("team")
    if layer.maxima is not None and layer.maxima.out.weight.shape[0] != NUM_MAXIMA:
        width = layer.maxima.out.weight.shape[0]
        raise Refusal(f"the kernels are written for {NUM_MAXIMA} maxima per edge, not {width}")
    has_options = any(_is_on(getattr(layer, name)) for name in ATTENTION_OPTIONS)
    if place.told or has_options or processor.latent_size:
        if layer.norm is not None and processor.latent_size:
            raise Refusal("latents behind a LayerNorm that decoders read have no kernels")
        num_scalars = place.num_edge_scalars * (2 if reads_both_directions(layer) else 1)
        if not features_fit(num_scalars):
            raise Refusal(f"this GPU has no room for the attention over edges with {num_scalars} scalars")
        return FusedLatentStep.of, ""
    return bind_team, ""


def _recognise_message_passing(processor: Any) -> tuple[BindProcessor, str]:
    """Recognises processors that pass messages along encoded edges, on their own or beside triplets."""
    if isinstance(processor, MessagePassingProcessor):
        _check_formulas("message_passing")
        return bind_message_passing, ""
    _check_formulas("triplet_gmpnn")
    return bind_triplets, ""


def _bind_plain(processor: Processor, bases: Bases) -> FusedProcessor:
    return PlainProcessor(processor.bind(bases))


def _check_class(value: Any) -> None:
    if type(value) in KNOWN_FIELDS:
        return
    name = type(value).__name__
    for base in type(value).__mro__[1:]:
        if base in KNOWN_FIELDS:
            raise Refusal(f"{name} is a subclass of {base.__name__}, and only {base.__name__} itself has kernels")
    raise Refusal(f"{name} has no kernels")


def _check_known(value: Any, apart: tuple[str, ...] = ()) -> None:
    """Refuses unknown classes, and fields that are on though no kernel knows them, in a module and all its parts."""
    _check_class(value)
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        if field.name not in KNOWN_FIELDS[type(value)] and not _is_off(part, type(value), field):
            shown = part if isinstance(part, _SIMPLE) else type(part).__name__
            raise Refusal(f"{type(value).__name__} has the option {field.name}={shown}, which no kernel knows")
        if field.name not in apart:
            for module in _modules(part):
                _check_known(module)


_SIMPLE = (bool, int, float, str)


def _is_off(value: Any, cls: type, field: dataclasses.Field) -> bool:
    """Returns whether an option is off: None, False, or its default."""
    if value is None or value is False:
        return True
    given = inspect.signature(cls).parameters.get(field.name)
    defaults = (field.default, inspect.Parameter.empty if given is None else given.default)
    return isinstance(value, _SIMPLE) and any(type(value) is type(d) and value == d for d in defaults)


def _is_on(value: Any) -> bool:
    return value is not None and value is not False


def _modules(value: Any) -> list[Any]:
    """Finds the modules in a field: itself, or those in a tuple or a dictionary."""
    if isinstance(value, eqx.Module):
        return [value]
    if isinstance(value, Mapping):
        return [module for part in value.values() for module in _modules(part)]
    if isinstance(value, tuple | list):
        return [module for part in value for module in _modules(part)]
    return []


def _check_formulas(part: str) -> None:
    changed = formulas.changed(part)
    if changed:
        raise Refusal(
            f"the formula {', '.join(changed)} is no longer the one that the kernels were compared with; "
            f"{formulas.HOW_TO_RENEW}"
        )
