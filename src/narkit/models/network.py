"""The reasoner: encoders, a processor and decoders, unrolled over the steps of an algorithm."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from narkit.algorithms import ALGORITHMS
from narkit.compiler import compiler_options
from narkit.data.batch import Batch
from narkit.errors import BatchError, UnknownNameError
from narkit.kernels.deferred_gradients import SAVED
from narkit.kernels.fused import launch
from narkit.kernels.shared_product import merge, shared_product
from narkit.kernels.time_loop import choose, time_loop
from narkit.models import predictions
from narkit.models.decoders import BoundDecoders, Decoders, Softened, decoded_together
from narkit.models.encoders import (
    Encoders,
    Reading,
    Values,
    as_value,
    as_values,
    edge_scalars,
    feature_location,
    num_scalars,
    row_columns,
    scalars_of,
)
from narkit.models.features import Bases, Scalars, bind_together
from narkit.models.layers import split_outputs
from narkit.models.processors import ProcessorFactory, describe_processor, make_processor
from narkit.models.processors.base import BoundProcessor, Processor
from narkit.spec import Location, Spec, Stage


class Hints(enum.StrEnum):
    """What a network does with hints."""

    ENCODED = "encoded"  # predicts them, and reads its own predictions at the next step
    DECODED = "decoded"  # predicts them for the loss only
    NONE = "none"  # neither; the number of steps stays that of the hints


class Reprediction(enum.StrEnum):
    """In which form predicted hints are fed back."""

    SOFT = "soft"  # probabilities, which gradients flow through
    HARD = "hard"  # the likeliest values
    HARD_ON_EVAL = "hard_on_eval"  # soft in training, hard in evaluation


@dataclass(frozen=True)
class Unrolling:
    """How a network runs over the steps: options of a call, not of the network.

    `teacher_forcing` is the probability with which a sample reads the true hints in place of predicted ones at a
    step of training.
    """

    teacher_forcing: float = 0.0
    reprediction: Reprediction | str = Reprediction.SOFT

    def __post_init__(self) -> None:
        if not 0.0 <= self.teacher_forcing <= 1.0:
            raise ValueError(f"expected a teacher-forcing probability in [0, 1], got {self.teacher_forcing}")
        try:
            object.__setattr__(self, "reprediction", Reprediction(self.reprediction))
        except ValueError:
            raise UnknownNameError("reprediction", self.reprediction, [r.value for r in Reprediction]) from None


DEFAULT_UNROLLING = Unrolling()
_NOTHING = Softened()


AnyArray = Array | np.ndarray

SummariseHints = Callable[[dict[str, Array], dict[str, Array], Bool[Array, " batch"]], dict[str, Array]]
"""`summary = summarise(logits, truth, in_time)` of the hints of one step"""


class DeviceBatch(eqx.Module):
    """A transformed batch as arrays that programs are compiled for, on the device or about to be moved there.

    Several seeds are a leading axis of every array.
    """

    algorithm: str = eqx.field(static=True)
    inputs: dict[str, Any]
    hints: dict[str, Any]
    outputs: dict[str, Any]
    lengths: Int[AnyArray, "*seed batch"]

    @classmethod
    def of(cls, batch: Batch) -> DeviceBatch:
        """The batch on the device; a raw one is transformed first, its positions kept."""
        from narkit.data.transforms import transform

        batch = transform(batch, random_positions=False)
        inputs, hints, outputs = (
            {name: jnp.asarray(values) for name, values in probes.items()}
            for probes in (batch.inputs, batch.hints, batch.outputs)
        )
        return cls(batch.algorithm, inputs, hints, outputs, jnp.asarray(batch.lengths))

    @property
    def num_nodes(self) -> int:
        return self.inputs["pos"].shape[-1]

    @property
    def num_steps(self) -> int:
        """Processor steps: one fewer than hint steps, but at least one."""
        return max(1, next(iter(self.hints.values())).shape[0] - 1)


class Reasoner(eqx.Module):
    """An encode-process-decode network for one algorithm, or for several that share the processor.

    **Arguments**

    - `algorithms`: a name, or a list of names; each algorithm has its own encoders and decoders.
    - `processor`: a name in `narkit.PROCESSORS`, or a configured class, `functools.partial(TEAM, num_heads=4)`.
    - `hidden_size`: the width of all features and of the hidden state.
    - `hints`: "encoded", "decoded" or "none", see `Hints`.
    """

    encoders: dict[str, Encoders]
    output_decoders: dict[str, Decoders]
    hint_decoders: dict[str, Decoders]
    processor: Processor
    algorithms: tuple[str, ...] = eqx.field(static=True)
    hidden_size: int = eqx.field(static=True)
    hints: Hints = eqx.field(static=True)
    processor_name: str = eqx.field(static=True)  # with the options, what a file says to build the processor again
    processor_options: str = eqx.field(static=True)

    def __init__(
        self,
        algorithms: str | Sequence[str],
        processor: str | ProcessorFactory = "team",
        hidden_size: int = 128,
        hints: Hints | str = Hints.ENCODED,
        *,
        key: PRNGKeyArray,
    ):
        names = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
        if not names or len(set(names)) != len(names):
            raise ValueError(f"expected one or more different algorithms, got {names}")
        try:
            self.hints = Hints(hints)
        except ValueError:
            raise UnknownNameError("hint mode", hints, [mode.value for mode in Hints]) from None
        self.algorithms = tuple(ALGORITHMS[name].name for name in names)
        self.hidden_size = hidden_size
        processor_key, *keys = jax.random.split(key, 1 + len(names))
        self.processor = make_processor(processor, hidden_size, key=processor_key)
        self.processor_name, self.processor_options = describe_processor(processor)
        self.encoders, self.output_decoders, self.hint_decoders = {}, {}, {}
        for name, algorithm_key in zip(self.algorithms, keys, strict=True):
            encoder_key, output_key, hint_key = jax.random.split(algorithm_key, 3)
            spec = ALGORITHMS[name].transformed_spec
            latent_size = self.processor.latent_size
            self.encoders[name] = Encoders(_encoded(spec, self.hints), hidden_size, key=encoder_key)
            self.output_decoders[name] = Decoders(_at(spec, Stage.OUTPUT), hidden_size, latent_size, key=output_key)
            decoded = {} if self.hints is Hints.NONE else _at(spec, Stage.HINT)
            self.hint_decoders[name] = Decoders(decoded, hidden_size, latent_size, key=hint_key)

    def bind(self, algorithm: str) -> BoundReasoner:
        """The network for one of its algorithms, with the encoders folded into processor and decoders."""
        if algorithm not in self.algorithms:
            raise BatchError(f"expected a batch of {' or '.join(self.algorithms)}, got one of {algorithm}")
        spec = ALGORITHMS[algorithm].transformed_spec
        encoders = self.encoders[algorithm]
        # Where hints are read again, they go from their decoders straight into the rows of the next step.
        columns = row_columns(spec, tuple(encoders.linears)) if self.hints is Hints.ENCODED else None

        def bind(bases: Bases) -> BoundReasoner:
            processor = self.processor.bind(bases)
            hint_decoders = self.hint_decoders[algorithm].bind(spec, bases, columns)
            return BoundReasoner(
                algorithm=algorithm,
                encoded=tuple(encoders.linears),
                processor=processor,
                output_decoders=self.output_decoders[algorithm].bind(spec, bases),
                hint_decoders=hint_decoders,
                on_hidden=merge(processor.hidden_weights, hint_decoders.hidden_weights),
            )

        bases = encoders.bases(spec)
        return bind_together(bind, bases) if launch.mode() is launch.Mode.FUSED else bind(bases)


def _at(spec: Spec, stage: Stage) -> dict:
    return {name: probe for name, probe in spec.items() if probe.stage is stage}


def _encoded(spec: Spec, hints: Hints) -> dict:
    return {
        name: probe
        for name, probe in spec.items()
        if probe.stage is Stage.INPUT or (probe.stage is Stage.HINT and hints is Hints.ENCODED)
    }


class LastStep(eqx.Module):
    """What the output decoders read: the features and hidden states of each sample's own last step."""

    scalars: Scalars
    hidden: Float[Array, "*batch node hidden"]
    next_hidden: Float[Array, "*batch node hidden"]


class BoundReasoner(eqx.Module):
    """A reasoner for one algorithm that maps scalars to predictions. Made by `Reasoner.bind`."""

    algorithm: str = eqx.field(static=True)
    encoded: tuple[str, ...] = eqx.field(static=True)
    processor: BoundProcessor
    output_decoders: BoundDecoders
    hint_decoders: BoundDecoders
    on_hidden: Float[Array, "hidden _"] | None  # what processor and hint decoders multiply hidden states with, merged

    @property
    def spec(self) -> Spec:
        return ALGORITHMS[self.algorithm].transformed_spec

    def read(self, values: Values) -> Reading:
        """What a step reads, of the values of all encoded probes."""
        return Reading.of(self.spec, {name: values[name] for name in self.encoded}, values["pos"].shape[-1])

    def step(
        self,
        reading: Reading,
        hidden: Float[Array, "batch node hidden"],
        softened: Softened | None = None,
    ) -> tuple[LastStep, dict[str, Array]]:
        """One step for a batch: the next hidden states, and the logits of the next hints.

        `softened` as for decoders.
        """
        scalars = reading.scalars(self.output_decoders.node_features.directions.shape[0])
        if launch.mode() is launch.Mode.FUSED:  # the kernels backward read them again
            scalars = eqx.tree_at(lambda s: s.edge, scalars, checkpoint_name(scalars.edge, SAVED))
        connected = reading.adjacency(self.spec)
        to_processor, to_decoders = None, None
        if self.on_hidden is not None:
            weights = (self.processor.hidden_weights, self.hint_decoders.hidden_weights)
            hidden, (to_processor, to_decoders) = shared_product(hidden, weights, self.on_hidden)
        next_hidden, latents = self.processor.batched_with_latents(scalars, connected, hidden, to_processor)
        logits = self.hint_decoders(scalars, hidden, next_hidden, latents, to_decoders, softened)
        return LastStep(scalars, hidden, next_hidden), logits

    def outputs(self, last: LastStep) -> dict[str, Array]:
        """The output logits of a batch."""
        latents = self.processor.batched_edge_latents(last.scalars, last.hidden)
        return self.output_decoders(last.scalars, last.hidden, last.next_hidden, latents)


def unroll(
    reasoner: Reasoner,
    batch: DeviceBatch,
    *,
    options: Unrolling = DEFAULT_UNROLLING,
    training: bool = False,
    key: PRNGKeyArray | None = None,
    keep_hints: bool | SummariseHints = True,
    num_steps: Int[Array, ""] | None = None,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Runs a network over the steps of a batch. Returns the logits of outputs and, stacked over steps, of hints.

    Step i reads hints i (true ones at the first step, predicted ones after) and predicts hints i + 1. Outputs are
    decoded at the last step of each sample, which is `length - 2`. In training, `key` draws the noise of permutations
    and the samples to be teacher-forced; without it there is neither.

    `keep_hints` may also be a function that says what to keep of a step's hints in place of their logits, given the
    logits, the true hints and the samples that have this step.

    `num_steps` is how many steps to run, by default as many as the longest sample needs. Under `jax.vmap` over seeds
    give one number for all, so that the loop stays a single one.
    """
    network = reasoner.bind(batch.algorithm)
    spec, num_nodes, batch_size = network.spec, batch.num_nodes, len(batch.lengths)
    feeds_back = reasoner.hints is Hints.ENCODED
    hard = options.reprediction is Reprediction.HARD or (
        options.reprediction is Reprediction.HARD_ON_EVAL and not training
    )
    forcing = options.teacher_forcing if training and feeds_back else 0.0
    if 0.0 < forcing < 1.0 and key is None:
        raise ValueError("expected a key to draw the teacher-forced samples with, got None")
    forcing_key, noise_key = (None, None) if key is None else jax.random.split(key)

    def step(network, data, i, carry):
        hidden, hints = carry
        softened = Softened() if feeds_back and not hard else None
        here, logits = network.step(reading(data, *hints), hidden, softened)
        return (here.next_hidden, next_hints(data, i, logits, softened or _NOTHING)), kept(data, i, logits), here

    def reading(data, rows, edges, together):
        if rows is None:  # the same at every step
            rows = checkpoint_name(rows_of(data["inputs"]), SAVED)
        joined = dict(zip(in_carry_together, split_outputs(together, widths), strict=True)) if widths else {}
        edges = {**edge_scalars(spec, data["inputs"]), **edges, **joined}
        return Reading(rows, {name: edges[name] for name in network.encoded if name in of_edges})

    def kept(data, i, logits):
        if callable(keep_hints):
            truth = {name: values[i + 1] for name, values in data["hints"].items()}
            return keep_hints(logits, truth, data["lengths"] > i + 1)
        return logits if keep_hints else {}

    def next_hints(data, i, logits, softened):
        if not feeds_back:
            return to_carry(data, {})
        revise = predictions.harden if hard else predictions.soften
        wanted = [name for name in logits if name not in softened.edges]
        if softened.rows is not None:
            wanted = [name for name in wanted if name in of_edges]
        if softened.together is not None:
            wanted = [name for name in wanted if name not in in_carry_together]
        revised = {name: revise(spec[name], logits[name]) for name in wanted}
        rows, edges, together = to_carry(data, revised, softened)
        hints = (rows, edges | softened.edges, together)
        if forcing == 0.0:
            return hints
        truth = {name: as_value(spec[name], values[i + 1], num_nodes) for name, values in data["hints"].items()}
        forced = jnp.ones(batch_size, bool)
        if forcing < 1.0:
            forced = jax.random.bernoulli(jax.random.fold_in(data["key"], i), forcing, (batch_size,))
        return jax.tree.map(functools.partial(choose, forced), to_carry(data, truth), hints)

    def to_carry(data, hints, softened=_NOTHING):
        """Hints as a part of what nodes read, those that are features of edges one by one or, decoded so, together."""
        rows, together = softened.rows, softened.together
        if rows is None and not of_edges.issuperset(hints):
            rows = rows_of({**data["inputs"], **hints})
        edges = edge_scalars(spec, hints)
        if together is None and feeds_back and in_carry_together:
            together = jnp.concatenate([edges.pop(name) for name in in_carry_together], axis=-1)
        return rows, edges, together

    def rows_of(values):
        in_rows = {name: values[name] for name in network.encoded if name not in of_edges}
        return Reading.of(spec, in_rows, num_nodes).rows

    of_edges = {name for name in network.encoded if feature_location(spec[name]) is Location.EDGE}
    in_carry_together = [name for name, probe in network.hint_decoders.probes if decoded_together(probe) and feeds_back]
    widths = [num_scalars(spec[name]) for name in in_carry_together]
    data = {"inputs": as_values(spec, batch.inputs, num_nodes), "lengths": batch.lengths}
    if forcing > 0.0 or callable(keep_hints):
        data |= {"hints": batch.hints}
    if forcing > 0.0:
        data |= {"key": forcing_key}
    hidden = jnp.zeros((batch_size, num_nodes, reasoner.hidden_size))
    hints = {name: as_value(spec[name], values[0], num_nodes) for name, values in batch.hints.items() if feeds_back}
    if num_steps is None:
        num_steps = jnp.maximum(1, batch.lengths.max() - 1)
    # Every sample takes part in the first step, even one without a second hint.
    last_steps = jnp.maximum(0, batch.lengths - 2)
    carry = (hidden, to_carry(data, hints))
    _, hint_logits, last = time_loop(step, network, data, carry, num_steps, batch.num_steps, last_steps)
    return predictions.finish_logits(spec, network.outputs(last), noise_key), hint_logits


def first_features(
    reasoner: Reasoner, batch: Batch
) -> tuple[Float[Array, "node hidden"], Float[Array, "node node hidden"], Float[Array, " hidden"]]:
    """The features of nodes, edges and the graph that the processor reads at the first step of the first sample."""
    one = DeviceBatch.of(batch[:1])
    spec = ALGORITHMS[one.algorithm].transformed_spec
    encoders = reasoner.encoders[one.algorithm]
    first = {**one.inputs, **{name: values[0] for name, values in one.hints.items()}}
    values = as_values(spec, {name: first[name][0] for name in encoders.linears}, one.num_nodes)
    scalars, bases = scalars_of(spec, values, one.num_nodes), encoders.bases(spec)
    return bases.node(scalars.node), bases.edge(scalars.edge), bases.graph(scalars.graph)


@dataclass(frozen=True)
class Predictions:
    """What a network predicts for a batch.

    `output_logits` {name: (batch, ...)} and `hint_logits` {name: (steps, batch, ...)} go by the transformed spec;
    `outputs` are decoded to the stored form, under the raw names: a sort's `pred`, without `pred_mask`.
    """

    output_logits: Mapping[str, Array]
    hint_logits: Mapping[str, Array]
    outputs: Mapping[str, Array]


def predict(
    reasoner: Reasoner, batch: Batch, *, reprediction: Reprediction | str = Reprediction.SOFT, keep_hints: bool = True
) -> Predictions:
    """Runs a trained network on a batch, raw or transformed. `keep_hints=False` saves memory on long runs."""
    options = Unrolling(reprediction=reprediction)
    if batch.algorithm not in reasoner.algorithms:
        raise BatchError(f"expected a batch of {' or '.join(reasoner.algorithms)}, got one of {batch.algorithm}")
    arrays = DeviceBatch.of(batch)
    # Inside someone's own `jax.jit` the options for XLA are theirs to give.
    is_traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((reasoner, arrays)))
    run = _predict if is_traced else _compiled_predict()
    output_logits, hint_logits, outputs = run(reasoner, arrays, options, keep_hints)
    return Predictions(output_logits, hint_logits, outputs)


@functools.cache
def _compiled_predict() -> Callable:
    return jax.jit(_predict, static_argnums=(2, 3), compiler_options=compiler_options())


def _predict(reasoner: Reasoner, batch: DeviceBatch, options: Unrolling, keep_hints: bool):
    output_logits, hint_logits = unroll(reasoner, batch, options=options, keep_hints=keep_hints)
    spec = ALGORITHMS[batch.algorithm].transformed_spec
    return output_logits, hint_logits, predictions.decode_outputs(spec, output_logits)
