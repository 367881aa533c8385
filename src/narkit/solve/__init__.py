"""Your own graph, list or text in, a network's answer out: `narkit.solve("dijkstra", graph, source="Ulm")`.

The package itself can be called, so that `narkit.solve(...)` and `import narkit.solve.weights` both work, in any order.
Its names load when first used: the command line reads `examples` and must not wait for JAX or Numba.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narkit.solve.answer import Answer as Answer
    from narkit.solve.answer import Difference as Difference
    from narkit.solve.answer import FirstError as FirstError
    from narkit.solve.problem import TrainingRangeWarning as TrainingRangeWarning
    from narkit.solve.running import prepare as prepare
    from narkit.solve.running import solve as solve

_MODULES = {
    "Answer": "narkit.solve.answer",
    "Difference": "narkit.solve.answer",
    "FirstError": "narkit.solve.answer",
    "TrainingRangeWarning": "narkit.solve.problem",
    "prepare": "narkit.solve.running",
    "solve": "narkit.solve.running",
}


class _CallablePackage(types.ModuleType):
    def __call__(self, algorithm: str, /, *data: Any, **options: Any) -> Any:
        """Calls `narkit.solve.solve`, which explains itself."""
        return self.solve(algorithm, *data, **options)

    def __getattr__(self, name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'narkit.solve' has no attribute {name!r}; it has {', '.join(_MODULES)}")
        value = getattr(importlib.import_module(_MODULES[name]), name)
        setattr(self, name, value)  # so that the next use does not come here
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_MODULES})


sys.modules[__name__].__class__ = _CallablePackage
