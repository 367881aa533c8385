"""The processors by name. A new one is one file and one line here.

From elsewhere: `narkit.PROCESSORS["mine"] = Mine`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from jaxtyping import PRNGKeyArray

from narkit.errors import UnknownNameError
from narkit.models.processors.base import DenseProcessor as DenseProcessor
from narkit.models.processors.base import Processor
from narkit.models.processors.deepsets import DeepSets
from narkit.models.processors.memnet import Memnet
from narkit.models.processors.mpnn import MPNN, GatedMPNN
from narkit.models.processors.pgn import PGN, GatedPGN
from narkit.models.processors.team import TEAM
from narkit.models.processors.triplet_gmpnn import TripletGMPNN, TripletGPGN, TripletMPNN, TripletPGN

ProcessorFactory = Callable[..., Processor]
"""A function `(hidden_size, key=...)` that makes a processor: a class, or a `functools.partial` of one with options."""


class ProcessorRegistry(dict[str, ProcessorFactory]):
    """Processors by name. An unknown name raises and proposes the nearest."""

    def __missing__(self, name: str) -> ProcessorFactory:
        raise UnknownNameError("processor", name, self)


TEAM_PLUS = {
    "scale": "log",
    "both_directions": True,
    "values_of_kj": True,
    "residual": True,
    "maxima": 8,
    "latents": True,
}
"""The options of TEAM that extrapolate: what development runs have kept, see docs/beyond.md."""

PROCESSORS = ProcessorRegistry(
    team=TEAM,
    team_plus=functools.partial(TEAM, **TEAM_PLUS),
    triplet_gmpnn=TripletGMPNN,
    triplet_mpnn=TripletMPNN,
    triplet_pgn=TripletPGN,
    triplet_gpgn=TripletGPGN,
    mpnn=MPNN,
    gmpnn=GatedMPNN,
    pgn=PGN,
    gpgn=GatedPGN,
    deepsets=DeepSets,
    memnet=Memnet,
)


def make_processor(processor: str | ProcessorFactory, hidden_size: int, *, key: PRNGKeyArray) -> Processor:
    """Makes a processor by name or from a configured class."""
    factory = PROCESSORS[processor] if isinstance(processor, str) else processor
    made = factory(hidden_size, key=key)
    if not isinstance(made, Processor):
        raise TypeError(
            f"expected a name or a class of narkit.Processor (or a functools.partial of one), got {processor!r}, "
            f"which makes a {type(made).__name__}"
        )
    return made


def describe_processor(processor: str | ProcessorFactory) -> tuple[str, str]:
    """Returns the name and, as JSON, the options that make this processor again.

    Plain strings, so that networks made alike have equal structures. A class without a name in `PROCESSORS` gives its
    own name in angle brackets, options that JSON cannot express an empty string; only saving needs either.
    """
    if isinstance(processor, str):
        return processor, "{}"
    options = {}
    if isinstance(processor, functools.partial):
        processor, options = processor.func, processor.keywords
    name = next((name for name, factory in PROCESSORS.items() if factory is processor), None)
    try:
        written = json.dumps(options, sort_keys=True)
    except (TypeError, ValueError):
        written = ""
    return name or f"<{getattr(processor, '__qualname__', processor)}>", written


def written_out(name: str, options: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the class and, as JSON, all options of a named processor, so that `team_plus` and `team` with its options
    are the same. A file of weights has the one, a configuration the other."""
    factory = PROCESSORS[name]
    if not isinstance(factory, functools.partial):
        return name, json.dumps(dict(options), sort_keys=True)
    return describe_processor(functools.partial(factory, **options))
