"""Your own graph, list or text in, a network's answer out: `narkit.solve("dijkstra", graph, source="Ulm")`.

The package itself can be called, so that `narkit.solve(...)` and `import narkit.solve.weights` both work in any order.
"""

from __future__ import annotations

import sys
import types

from narkit.solve.answer import Answer, Difference, FirstError
from narkit.solve.problem import TrainingRangeWarning
from narkit.solve.running import prepare, solve

__all__ = ["Answer", "Difference", "FirstError", "TrainingRangeWarning", "prepare", "solve"]


class _CallablePackage(types.ModuleType):
    __call__ = staticmethod(solve)


sys.modules[__name__].__class__ = _CallablePackage
