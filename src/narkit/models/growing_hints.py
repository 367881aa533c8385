"""Hints whose logits grow with the number of nodes.

A hint that names one of n nodes, a pointer or a mask of one node, is fed back as a softmax over them. One that is sharp
over 16 nodes is not over 64: with the same margin a larger part of it lies elsewhere, and over many steps what is fed
back fades. With the option `growing_hints` all such logits are multiplied by

    c_n = log n / log 16

as those of Triplet Edge Attention are by `scale="log"`. Logits are linear in the last Linears of their decoders, so
these are multiplied, once per batch, and nothing in the loop over time knows of it.
"""

from __future__ import annotations

import math
from typing import TypeVar

import equinox as eqx
import jax

from narkit.models.decoders import Decoder
from narkit.models.network import Reasoner
from narkit.models.triplet_edge_attention import REFERENCE_SIZE
from narkit.spec import Kind, Probe

Module = TypeVar("Module", bound=eqx.Module)


def names_a_node(probe: Probe) -> bool:
    """Whether the logits of a probe are over nodes."""
    return probe.kind in (Kind.POINTER, Kind.MASK_ONE)


def growth(num_nodes: int) -> float:
    """c_n, which is 1 for the largest graphs of training."""
    return math.log(num_nodes) / math.log(REFERENCE_SIZE)


def grown(reasoner: Reasoner, algorithm: str, num_nodes: int) -> Reasoner:
    """The network for graphs of so many nodes: itself, unless it has the option."""
    if not reasoner.interfaces.growing_hints:
        return reasoner
    spec, factor = reasoner.spec(algorithm), growth(num_nodes)
    names = [name for name in reasoner.hint_decoders[algorithm].by_probe if names_a_node(spec[name])]

    def decoders(reasoner):
        return [reasoner.hint_decoders[algorithm].by_probe[name] for name in names]

    return eqx.tree_at(decoders, reasoner, [_times(factor, decoder) for decoder in decoders(reasoner)])


def _times(factor: float, decoder: Decoder) -> Decoder:
    """A decoder whose logits are multiplied: the Linears that come last are."""
    decoder = _multiplied(
        factor, decoder, ["on_nodes", "on_pooled", "on_graph"] if decoder.score is None else ["score"]
    )
    if decoder.keep is not None:
        decoder = _multiplied(factor, decoder, ["keep"])
    if decoder.edge_pointer is not None:  # all that it adds is a product with its queries
        pointer = _multiplied(factor, decoder.edge_pointer, ["query_nodes", "query_edge"])
        decoder = eqx.tree_at(lambda d: d.edge_pointer, decoder, pointer)
    return decoder


def _multiplied(factor: float, module: Module, fields: list[str]) -> Module:
    there = [name for name in fields if getattr(module, name)]
    changed = [jax.tree.map(lambda weights: factor * weights, getattr(module, name)) for name in there]
    return eqx.tree_at(lambda module: [getattr(module, name) for name in there], module, changed)
