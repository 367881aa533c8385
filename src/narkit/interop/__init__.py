"""Exchange with other packages. Submodules load when first used."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and importlib.util.find_spec(f"narkit.interop.{name}") is not None:
        return importlib.import_module(f"narkit.interop.{name}")
    raise AttributeError(f"module 'narkit.interop' has no attribute {name!r}")


if TYPE_CHECKING:
    from narkit.interop import clrs as clrs
    from narkit.interop import networkx as networkx
    from narkit.interop import pyg as pyg
    from narkit.interop import tables as tables
    from narkit.interop import torch as torch
