"""The reasoner: encoders, a processor and decoders, and one step of them."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from narkit.algorithms import ALGORITHMS
from narkit.data.batch import Batch
from narkit.errors import BatchError, UnknownNameError
from narkit.loops.backend import PLAIN, Backend
from narkit.models.bound_decoders import BoundDecoders, decoded_together
from narkit.models.decoders import Decoders
from narkit.models.encoders import Encoders, Reading, Values, as_values, scalars_of
from narkit.models.features import Scalars
from narkit.models.feedback import Feedback
from narkit.models.processors import ProcessorFactory, describe_processor, make_processor
from narkit.models.processors.base import BoundProcessor, Processor
from narkit.settings import whole_number
from narkit.spec import Spec, Stage


class Hints(enum.StrEnum):
    """What a network does with hints."""

    ENCODED = "encoded"  # predicts them, and reads its own predictions at the next step
    DECODED = "decoded"  # predicts them for the loss only
    NONE = "none"  # neither; the number of steps stays that of the hints


AnyArray = Array | np.ndarray


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
        hidden_size = whole_number("hidden_size", hidden_size, at_least=1, example=128)
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
        self.check_algorithm(algorithm)
        spec = ALGORITHMS[algorithm].transformed_spec
        encoders = self.encoders[algorithm]
        bases = encoders.bases(spec)
        return BoundReasoner(
            algorithm=algorithm,
            encoded=tuple(encoders.linears),
            num_node_scalars=len(bases.node.directions),
            processor=self.processor.bind(bases),
            output_decoders=self.output_decoders[algorithm].bind(spec, bases),
            hint_decoders=self.hint_decoders[algorithm].bind(spec, bases),
        )

    def check_algorithm(self, algorithm: str) -> None:
        """Raises if the network is not one for this algorithm."""
        if algorithm not in self.algorithms:
            raise BatchError(f"expected a batch of {' or '.join(self.algorithms)}, got one of {algorithm}")


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


class BoundNetwork(eqx.Module):
    """A network for one algorithm that maps scalars to predictions: what runs at every step.

    `Reasoner.bind` makes one of plain formulas. Whoever has a faster form of a network makes another, and hands the
    function that does so to `unroll`.
    """

    algorithm: eqx.AbstractVar[str]
    encoded: eqx.AbstractVar[tuple[str, ...]]  # the probes that a step reads, in the order of the encoders
    loop: ClassVar[Backend] = PLAIN  # how the loop over its steps runs

    @property
    def spec(self) -> Spec:
        return ALGORITHMS[self.algorithm].transformed_spec

    def read(self, values: Values) -> Reading:
        """What a step reads, of the values of all encoded probes."""
        return Reading.of(self.spec, {name: values[name] for name in self.encoded}, values["pos"].shape[-1])

    @property
    @abc.abstractmethod
    def decoded_together(self) -> tuple[str, ...]:
        """The hints whose logits, and so their feedback, are parts of one array."""

    @abc.abstractmethod
    def step(
        self, reading: Reading, hidden: Float[Array, "batch node hidden"], *, soften: bool = False
    ) -> tuple[LastStep, dict[str, Array], Feedback]:
        """One step for a batch: the next hidden states, the logits of the next hints, and what is fed back of these.

        Of the feedback a network may make any part, or none: the rest is made of the logits. `soften` says that
        probabilities are fed back; without it the network makes none.
        """

    @abc.abstractmethod
    def outputs(self, last: LastStep) -> dict[str, Array]:
        """The output logits of a batch."""


Bind = Callable[[Reasoner, str], BoundNetwork]
"""`bound = bind(reasoner, algorithm)`"""


class BoundReasoner(BoundNetwork):
    """A reasoner with the encoders folded into processor and decoders. Made by `Reasoner.bind`."""

    algorithm: str = eqx.field(static=True)
    encoded: tuple[str, ...] = eqx.field(static=True)
    num_node_scalars: int = eqx.field(static=True)
    processor: BoundProcessor
    output_decoders: BoundDecoders
    hint_decoders: BoundDecoders

    @property
    def decoded_together(self) -> tuple[str, ...]:
        return decoded_together(self.hint_decoders.probes)

    def step(
        self, reading: Reading, hidden: Float[Array, "batch node hidden"], *, soften: bool = False
    ) -> tuple[LastStep, dict[str, Array], Feedback]:
        scalars = reading.scalars(self.num_node_scalars)
        connected = reading.adjacency(self.spec)
        next_hidden, latents = jax.vmap(self.processor.with_latents)(scalars, connected, hidden)
        logits = self.hint_decoders(scalars, hidden, next_hidden, latents)
        return LastStep(scalars, hidden, next_hidden), logits, Feedback()

    def outputs(self, last: LastStep) -> dict[str, Array]:
        latents = jax.vmap(self.processor.edge_latents)(last.scalars, last.hidden)
        return self.output_decoders(last.scalars, last.hidden, last.next_hidden, latents)


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
