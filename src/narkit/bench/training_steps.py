"""The training step of a network on one algorithm, which `narkit bench train` measures, behind one small interface."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from narkit.bench.train_record import NARKIT, PLAIN
from narkit.errors import UnknownNameError
from narkit.training.config import TrainConfig
from narkit.training.feed import TrainingBatch
from narkit.training.programs import Programs

PLAIN_SCRIPT = Path(__file__).parents[3] / "benchmarks" / "plain_team.py"


class NarkitStep:
    """The training step that `narkit.train` takes: of all seeds, with the state that it changes."""

    implementation = NARKIT

    def __init__(self, config: TrainConfig):
        self.config = config
        self.programs = Programs(config)
        self.state = self.programs.initial_state()
        self._shapes = jax.eval_shape(lambda: self.state)  # compiling must not hold on to a state that is used up

    def compile(self, batch: TrainingBatch) -> jax.stages.Compiled:
        """Compiles the program for batches of this shape, once."""
        return self.programs.compile_step(self._shapes, batch.packed)

    def run(self, batch: TrainingBatch) -> jax.Array:
        """Hands one step to the device; returns the losses."""
        self.state, losses = self.programs.train_step(self.state, batch.packed)
        return losses

    def processor_steps(self, batch: TrainingBatch) -> int:
        """Returns how many steps the processor takes on a batch."""
        return batch.num_steps


class PlainStep:
    """The same network written out in plain JAX, from `benchmarks/plain_team.py`, with the same methods.

    Its loop is a scan, so it takes as many steps as the hints have rows.
    """

    implementation = PLAIN

    def __init__(self, config: TrainConfig):
        if config.processor != "team":
            raise UnknownNameError("processor of the plain transcription", config.processor, ["team"])
        self.config = config
        self._plain: Any = load_plain_team()
        self._state = self._plain.initial_state(config)
        self._shapes = jax.eval_shape(lambda: self._state)
        step = self._plain.training_step(config)
        self._jit = jax.jit(lambda state, packed: step(state, packed.unpack()), donate_argnums=0)
        self._compiled: dict[tuple, jax.stages.Compiled] = {}

    def compile(self, batch: TrainingBatch) -> jax.stages.Compiled:
        key = batch.packed.layout
        if key not in self._compiled:
            self._compiled[key] = self._jit.lower(self._shapes, batch.packed).compile()
        return self._compiled[key]

    def run(self, batch: TrainingBatch) -> jax.Array:
        self._state, losses = self.compile(batch)(self._state, batch.packed)
        return losses

    def processor_steps(self, batch: TrainingBatch) -> int:
        return most_steps(batch)


TrainingStep = NarkitStep | PlainStep


def most_steps(batch: TrainingBatch) -> int:
    """Returns how many processor steps a batch has room for."""
    return max(1, batch.packed.layout.num_rows - 1)


def load_plain_team() -> ModuleType:
    """Loads the plain transcription, which is no part of the installed package."""
    if not PLAIN_SCRIPT.is_file():
        raise FileNotFoundError(
            f"{PLAIN_SCRIPT} was not found; the plain transcription comes with the source tree, not with the package"
        )
    module_spec = importlib.util.spec_from_file_location("plain_team", PLAIN_SCRIPT)
    assert module_spec is not None and module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module
