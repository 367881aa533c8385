"""The options of how probes get into a network and out of it. By default all is as in the reference.

What a network reads and predicts is the same with every option; they differ in what is lost on the way.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from narkit import settings
from narkit.errors import UnknownNameError


class EdgePointers(enum.StrEnum):
    """The ways to read and predict pointers from edges to nodes (Floyd-Warshall, matrix chain order, optimal BST)."""

    MEANS = "means"  # read as two means, predicted without the edges to the node; as in the reference
    LOSSLESS = "lossless"  # read, attended to, predicted and kept as a whole, see `narkit.models.edge_pointers`


class NodePointers(enum.StrEnum):
    """The edges from which a pointer from node i to node p is predicted."""

    REVERSE = "reverse"  # e_pi alone, though a pointer is read at e_ip; as in the reference
    BOTH = "both"  # e_pi and e_ip


@dataclass(frozen=True)
class Interfaces:
    """The options of a network's interfaces.

    - `edge_pointers`: "means" or "lossless", see `EdgePointers`.
    - `node_pointers`: "reverse" or "both", see `NodePointers`.
    - `keep_pointers`: whether the logits of node pointers get what pointers were read, times gates that the network
      learns (`narkit.models.pointer_decoders`).
    - `comparisons`: whether comparisons of scalar inputs are read, too (`narkit.models.comparisons`).
    - `growing_hints`: whether hints that name a node are fed back sharper, the more nodes there are
      (`narkit.models.growing_hints`).
    """

    edge_pointers: EdgePointers | str = EdgePointers.MEANS
    node_pointers: NodePointers | str = NodePointers.REVERSE
    keep_pointers: bool = False
    comparisons: bool = False
    growing_hints: bool = False

    def __post_init__(self) -> None:
        for name, kind in {"edge_pointers": EdgePointers, "node_pointers": NodePointers}.items():
            try:
                object.__setattr__(self, name, kind(getattr(self, name)))
            except ValueError:
                known = [each.value for each in kind]
                raise UnknownNameError(f"way of {name}", getattr(self, name), known) from None
        for name in ("keep_pointers", "comparisons", "growing_hints"):
            object.__setattr__(self, name, settings.flag(name, getattr(self, name)))

    @classmethod
    def of(cls, values: Any) -> Interfaces:
        """Reads the options off a configuration, a reasoner or any other object that has them under their names."""
        return cls(**{name: getattr(values, name) for name in NAMES})

    @property
    def options(self) -> dict[str, Any]:
        """The options as keywords of `narkit.Reasoner`, as JSON has them."""
        values = {name: getattr(self, name) for name in NAMES}
        return {name: value.value if isinstance(value, enum.Enum) else value for name, value in values.items()}

    @property
    def changed(self) -> dict[str, Any]:
        """The options that are not as in the reference."""
        plain = Interfaces().options
        return {name: value for name, value in self.options.items() if value != plain[name]}


NAMES = tuple(field.name for field in dataclasses.fields(Interfaces))


def read_interfaces(values: Mapping[str, Any]) -> Interfaces:
    """Reads the options that a file names; those that it lacks are as in the reference."""
    for name in values:
        if name not in NAMES:
            raise UnknownNameError("option of interfaces", name, NAMES)
    return Interfaces(**values)
