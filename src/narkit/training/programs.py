"""The compiled programs of a run: a training step and an evaluation, for all seeds at once.

The parameters of a network are one vector and those of all seeds a matrix, so an update of Adam is a handful of
operations, whatever the number of layers.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from narkit import fused
from narkit.algorithms import ALGORITHMS
from narkit.compiler import compiler_options
from narkit.fused import launch
from narkit.loops.time_loop import choose
from narkit.models import objective, predictions
from narkit.models.network import DeviceBatch, Reasoner
from narkit.models.processors import PROCESSORS
from narkit.models.unrolling import unroll
from narkit.training import hint_scores
from narkit.training.config import TrainConfig
from narkit.training.packing import PackedBatch
from narkit.training.sharding import Shards

Parameters = Float[Array, "seed parameter"]

_TRACING = threading.Lock()
"""Tracing is Python: several threads at it take the interpreter from one that trains. Compilers run in parallel."""


class TrainState(eqx.Module):
    """The arrays that a step of training changes. Those that an option leaves out are None, and no program has them."""

    parameters: Parameters
    optimizer: optax.OptState
    diverged_at: Int[Array, " seed"]  # the step at which a seed's loss was no longer finite, -1 while it is
    average: Parameters | None = None  # of the parameters over time
    skipped_in_a_row: Int[Array, " seed"] | None = None  # steps up to now whose gradient was not finite


@dataclass(frozen=True)
class Predicted:
    """The predictions of all seeds for one batch."""

    outputs: dict[str, np.ndarray]  # decoded: (seed, batch, ...)
    losses: np.ndarray  # of the outputs: (seed,)
    hint_counts: dict[str, np.ndarray]  # for `hint_scores.scores`: (seed, step, 3)


class Programs:
    """Compiles and runs training steps and evaluations for one configuration."""

    def __init__(self, config: TrainConfig, devices: int = 1):
        self.config = config
        self.shards = Shards.over(config, devices)
        skeleton = eqx.filter_eval_shape(self._reasoner_of_seed, 0)
        self._restore = _restorer(skeleton)
        self.acceleration = fused.accelerate(skeleton, config.unrolling)
        clip = optax.clip_by_global_norm(config.gradient_clip) if config.gradient_clip else optax.identity()
        self._optimizer = optax.chain(clip, optax.adam(config.learning_rate))
        options = compiler_options()
        step: dict[str, Any] = {}
        predict: dict[str, Any] = {}
        if self.shards is not None:
            by_seed = self.shards.by_seed
            step = {"in_shardings": (by_seed, by_seed, by_seed), "out_shardings": (by_seed, by_seed)}
            predict = {"in_shardings": (by_seed, self.shards.everywhere)}
        self._jit_step = jax.jit(self._train_step, donate_argnums=0, compiler_options=options, **step)
        self._jit_predict = jax.jit(self._predict_all_seeds, static_argnums=2, compiler_options=options, **predict)
        self._seeds = jnp.asarray(config.seeds, jnp.uint32)
        self._steps: dict[tuple, jax.stages.Compiled] = {}
        self._predictions: dict[tuple, Callable] = {}

    def initial_state(self) -> TrainState:
        parameters = jnp.stack([ravel_pytree(self._reasoner_of_seed(seed))[0] for seed in self.config.seeds])
        optimizer = jax.vmap(self._optimizer.init)(parameters)
        num_seeds = len(parameters)
        state = TrainState(
            parameters,
            optimizer,
            jnp.full(num_seeds, -1, jnp.int32),
            jnp.array(parameters) if self.config.averages else None,  # a copy: a step uses up both
            jnp.zeros(num_seeds, jnp.int32) if self.config.skipped_steps else None,
        )
        return self.placed(state)

    def placed(self, arrays: Any) -> Any:
        """Returns arrays with a leading seed axis, where the programs expect them."""
        return arrays if self.shards is None else jax.device_put(arrays, self.shards.by_seed)

    def compile_step(self, state: TrainState, batch: PackedBatch) -> jax.stages.Compiled:
        """Compiles the training step for batches of this layout; later calls find it."""
        layout = batch.layout
        key = (layout.algorithm, layout.num_nodes, layout.num_rows, batch.words.shape)
        if key not in self._steps:
            self._steps[key] = _compiled(self._jit_step, state, batch, self._seeds)
        return self._steps[key]

    def compile_prediction(self, parameters: Parameters, batch: DeviceBatch, with_hints: bool = False) -> Callable:
        """Compiles the prediction for batches of this shape and this many seeds; later calls find it."""
        key = (parameters.shape[0], with_hints, *_shape_key(batch))
        if key not in self._predictions:
            self._predictions[key] = _compiled(self._jit_predict, parameters, batch, with_hints)
        return self._predictions[key]

    def train_step(self, state: TrainState, batch: PackedBatch) -> tuple[TrainState, Float[Array, " seed"]]:
        """Updates every seed once on its own batch. The given state is used up."""
        return self.compile_step(state, batch)(state, batch, self._seeds)

    def reasoner(self, parameters: Float[Array, " parameter"]) -> Reasoner:
        """Returns the network that a row of the parameters stands for."""
        return self._restore(parameters)

    def _reasoner_of_seed(self, seed: int) -> Reasoner:
        config = self.config
        processor = PROCESSORS[config.processor]
        if config.processor_options:
            processor = functools.partial(processor, **config.processor_options)
        interfaces = config.interfaces.options
        key = jax.random.key(seed)
        return Reasoner(config.algorithms, processor, config.hidden_size, config.hints, **interfaces, key=key)

    def _train_step(
        self, state: TrainState, batch: PackedBatch, seeds: Int[Array, " seed"]
    ) -> tuple[TrainState, Float[Array, " seed"]]:
        """Updates every seed once on its own batch.

        A seed whose loss or gradient is not finite stays as it was, average and optimiser with it: for good, or where
        steps may be skipped, until too many come in a row. The loss of a skipped step is returned as NaN.
        """
        step, num_steps = batch.step, batch.num_steps
        samples = batch.unpack()
        if self.shards is not None:
            samples = self.shards.share_out(samples, with_seeds=True)

        def loss(reasoner, batch, seed):
            key = jax.random.fold_in(jax.random.key(seed), step)
            options, bind = self.config.unrolling, self.acceleration.form
            return objective.loss(reasoner, batch, key=key, options=options, num_steps=num_steps, bind=bind)

        def update(parameters, optimizer, batch, seed):
            # Differentiated as a network, not as a vector: the reverse of cutting a vector up is one padding per leaf.
            value, gradient = jax.value_and_grad(loss)(self._restore(parameters), batch, seed)
            # Written out: else the clipping and Adam would each gather it from all those leaves.
            gradient = jax.lax.optimization_barrier(ravel_pytree(gradient)[0])
            updates, optimizer = self._optimizer.update(gradient, optimizer, parameters)
            return parameters + updates, optimizer, value, jnp.isfinite(value) & jnp.isfinite(gradient).all()

        parameters, optimizer, losses, finite = jax.vmap(update)(state.parameters, state.optimizer, samples, seeds)
        alive = finite & (state.diverged_at < 0)
        keep = functools.partial(choose, alive)
        parameters = jax.tree.map(keep, parameters, state.parameters)
        ends, in_a_row = ~finite, state.skipped_in_a_row
        if in_a_row is not None:
            in_a_row = jnp.where(finite, 0, in_a_row + 1)
            ends = in_a_row >= self.config.skipped_steps
            losses = jnp.where(finite, losses, jnp.nan)
        average = state.average
        if average is not None:
            average = keep(average + self._new_share(step) * (parameters - average), average)
        return TrainState(
            parameters,
            jax.tree.map(keep, optimizer, state.optimizer),
            jnp.where((state.diverged_at < 0) & ends, step, state.diverged_at),
            average,
            in_a_row,
        ), losses

    def _new_share(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """Returns the share of a step's new parameters in the average: one minus the decay, see `TrainConfig`."""
        horizon = self.config.average_horizon
        return jnp.maximum(1 - self.config.average, horizon / (1 + horizon + step.astype(jnp.float32)))

    def predict(self, parameters: Parameters, batch: DeviceBatch, with_hints: bool = False) -> Predicted:
        """Returns the predictions of every seed for one batch. Without hints, the batch needs only their first row."""
        outputs, losses, hint_counts = self.compile_prediction(parameters, batch, with_hints)(parameters, batch)
        return Predicted(*jax.tree.map(np.asarray, (outputs, losses, hint_counts)))

    def _predict_all_seeds(self, parameters: Parameters, batch: DeviceBatch, with_hints: bool):
        spec = ALGORITHMS[batch.algorithm].transformed_spec
        num_steps = jnp.maximum(1, batch.lengths.max() - 1)
        if self.shards is not None:
            batch = self.shards.share_out(batch, with_seeds=False)
        keep_hints = functools.partial(hint_scores.count, spec) if with_hints else False

        def predict(parameters):
            logits, counts = unroll(
                self._restore(parameters),
                batch,
                options=self.config.unrolling,
                keep_hints=keep_hints,
                num_steps=num_steps,
                bind=self.acceleration.form,
            )
            loss = sum(objective.output_losses(batch, logits).values(), jnp.zeros(()))
            return predictions.decode_outputs(spec, logits), loss, counts

        return jax.vmap(predict)(parameters)


def _compiled(function: Any, *arguments: Any) -> jax.stages.Compiled:
    with _TRACING:
        traced = function.trace(*arguments)
    launch.compile_kernels(traced.jaxpr.jaxpr)
    with _TRACING:
        lowered = traced.lower()
    return lowered.compile()


def _shape_key(batch: DeviceBatch) -> tuple:
    """Returns what programs differ by: the algorithm, the number of nodes, of rows and of samples."""
    return batch.algorithm, batch.inputs["pos"].shape, next(iter(batch.hints.values())).shape[:2]


def _restorer(skeleton: Reasoner):
    """Returns the inverse: a function from a parameter vector to a network of the skeleton's structure."""
    leaves, structure = jax.tree.flatten(skeleton)
    ends = np.cumsum([leaf.size for leaf in leaves])

    def restore(vector: Float[Array, " parameter"]) -> Reasoner:
        parts = [vector[end - leaf.size : end].reshape(leaf.shape) for leaf, end in zip(leaves, ends, strict=True)]
        return jax.tree.unflatten(structure, parts)

    return restore
