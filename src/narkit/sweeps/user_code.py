"""Processors and algorithms from a user's own modules, for other processes: what they must import and register."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narkit.sweeps.cells import Cell

_imported: list[str] = []


def import_modules(names: Iterable[str]) -> None:
    """Imports modules of the user, here and wherever cells of this process will run."""
    for name in names:
        importlib.import_module(name)
        if name not in _imported:
            _imported.append(name)


@dataclass(frozen=True)
class UserCode:
    """The imports that another process needs before it can run some cells: where modules are found, and their names.

    A processor that is registered by another module than its own is registered by its class.
    """

    path: tuple[str, ...]
    modules: tuple[str, ...]
    processors: Mapping[str, tuple[str, str]]  # name -> module and class

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> UserCode:
        """Collects the code that cells need beyond narkit's own."""
        from narkit.algorithms import ALGORITHMS
        from narkit.models.processors import PROCESSORS

        modules, processors = list(_imported), {}
        for name in dict.fromkeys(cell.config.processor for cell in cells):
            factory = _unwrapped(PROCESSORS[name])
            module = _module_of(factory, f"the processor {name}")
            if module is not None and factory is PROCESSORS[name]:
                processors[name] = (module, factory.__qualname__)
            elif module is not None:
                modules.append(module)
        for name in dict.fromkeys(cell.algorithm for cell in cells):
            module = _module_of(ALGORITHMS[name].function, f"the algorithm {name}")
            if module is not None:
                modules.append(module)
        path = (*sys.path, os.getcwd()) if modules or processors else ()
        return cls(path, tuple(dict.fromkeys(modules)), processors)

    def install(self) -> None:
        """Imports and registers everything in this process."""
        from narkit.models.processors import PROCESSORS

        sys.path.extend(entry for entry in self.path if entry not in sys.path)
        import_modules(self.modules)
        for name, (module, qualified) in self.processors.items():
            if name not in PROCESSORS:
                found = functools.reduce(getattr, qualified.split("."), importlib.import_module(module))
                PROCESSORS[name] = found  # type: ignore[assignment]


def _unwrapped(factory: Any) -> Callable[..., Any]:
    while isinstance(factory, functools.partial):
        factory = factory.func
    return factory


def _module_of(thing: Any, what: str) -> str | None:
    """Returns the module of a user's class or function; None for narkit's own."""
    module = getattr(thing, "__module__", None) or "__main__"
    if module == "narkit" or module.startswith("narkit."):
        return None
    if module == "__main__" or "<locals>" in getattr(thing, "__qualname__", ""):
        from narkit.sweeps.cells import SweepError

        raise SweepError(
            f"{what}: expected it in a module that other processes can import, got one that is defined in the script "
            "itself or within a function; move it to the top of a file of its own"
        )
    return module
