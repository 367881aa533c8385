"""narkit: neural algorithmic reasoning on CLRS-30, with Triplet Edge Attention as its flagship.

Names load when first used, so that importing narkit is quick and pulls in neither JAX nor Numba.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# The public names by the module that they come from. The imports at the end say the same to type checkers.
_NAMES = {
    "narkit.algorithms": ["ALGORITHMS"],
    "narkit.data.batch": ["Batch"],
    "narkit.data.execution": ["run", "sample"],
    "narkit.data.splits": ["load_split"],
    "narkit.data.stream": ["TrainingStream"],
    "narkit.data.transforms": ["transform"],
    "narkit.inference": ["Predictions", "predict"],
    "narkit.models.network": ["Reasoner"],
    "narkit.models.processors": ["DenseProcessor", "PROCESSORS", "Processor"],
    "narkit.models.scoring": ["evaluate"],
    "narkit.models.serialization": ["save"],
    "narkit.models.triplet_edge_attention": ["TripletEdgeAttention"],
    "narkit.solve.weights": ["load"],
    "narkit.spec": ["Kind", "Location", "Probe", "Stage", "algorithm", "constant", "edge", "graph", "node"],
    "narkit.sweeps.systems": ["SYSTEMS", "System"],
    "narkit.training.callbacks": ["Callback"],
    "narkit.training.config": ["TrainConfig", "Validation"],
    "narkit.training.record": ["RunRecord"],
    "narkit.training.rules": ["Rule"],
    "narkit.training.run": ["train"],
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = value  # so that the next use does not come here
        return value
    if not name.startswith("_") and importlib.util.find_spec(f"narkit.{name}") is not None:
        return importlib.import_module(f"narkit.{name}")
    raise AttributeError(f"module 'narkit' has no attribute {name!r}; it has {', '.join(__dir__())}")


def __dir__() -> list[str]:
    submodules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted({"__version__", *_MODULES, *submodules})


if TYPE_CHECKING:
    from narkit import algorithms as algorithms
    from narkit import data as data
    from narkit import errors as errors
    from narkit import fused as fused
    from narkit import interop as interop
    from narkit import loops as loops
    from narkit import models as models
    from narkit import report as report
    from narkit import spec as spec
    from narkit import sweeps as sweeps
    from narkit import training as training
    from narkit.algorithms import ALGORITHMS as ALGORITHMS
    from narkit.data.batch import Batch as Batch
    from narkit.data.execution import run as run
    from narkit.data.execution import sample as sample
    from narkit.data.splits import load_split as load_split
    from narkit.data.stream import TrainingStream as TrainingStream
    from narkit.data.transforms import transform as transform
    from narkit.inference import Predictions as Predictions
    from narkit.inference import predict as predict
    from narkit.models.network import Reasoner as Reasoner
    from narkit.models.processors import PROCESSORS as PROCESSORS
    from narkit.models.processors import DenseProcessor as DenseProcessor
    from narkit.models.processors import Processor as Processor
    from narkit.models.scoring import evaluate as evaluate
    from narkit.models.serialization import save as save
    from narkit.models.triplet_edge_attention import TripletEdgeAttention as TripletEdgeAttention
    from narkit.solve import solve as solve
    from narkit.solve.weights import load as load
    from narkit.spec import Kind as Kind
    from narkit.spec import Location as Location
    from narkit.spec import Probe as Probe
    from narkit.spec import Stage as Stage
    from narkit.spec import algorithm as algorithm
    from narkit.spec import constant as constant
    from narkit.spec import edge as edge
    from narkit.spec import graph as graph
    from narkit.spec import node as node
    from narkit.sweeps.systems import SYSTEMS as SYSTEMS
    from narkit.sweeps.systems import System as System
    from narkit.training.callbacks import Callback as Callback
    from narkit.training.config import TrainConfig as TrainConfig
    from narkit.training.config import Validation as Validation
    from narkit.training.record import RunRecord as RunRecord
    from narkit.training.rules import Rule as Rule
    from narkit.training.run import train as train
