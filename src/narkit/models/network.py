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
from narkit.data.memory import check_memory
from narkit.errors import BatchError
from narkit.loops.backend import PLAIN, Backend
from narkit.models.bound_decoders import BoundDecoders, decoded_together
from narkit.models.comparisons import compare, with_comparisons
from narkit.models.decoders import Decoders, Surroundings
from narkit.models.edge_pointers import Pointer, attention_terms, is_edge_pointer
from narkit.models.encoders import Encoders, Reading, Values, as_values
from narkit.models.features import Scalars
from narkit.models.feedback import Feedback
from narkit.models.interfaces import EdgePointers, Interfaces, NodePointers
from narkit.models.processors import ProcessorFactory, describe_processor, make_processor
from narkit.models.processors.base import BoundProcessor, Processor
from narkit.settings import choice, whole_number
from narkit.spec import Spec, Stage, stage_of


class Hints(enum.StrEnum):
    """The uses that a network makes of hints."""

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
        """Returns the batch on the device; a raw one is transformed first, its positions kept."""
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
        """The number of processor steps: one fewer than hint steps, but at least one."""
        return max(1, next(iter(self.hints.values())).shape[0] - 1)


class Reasoner(eqx.Module):
    """An encode-process-decode network for one algorithm, or for several that share the processor.

    **Arguments**

    - `algorithms`: a name, or a list of names; each algorithm has its own encoders and decoders.
    - `processor`: a name in `narkit.PROCESSORS`, or a configured class, `functools.partial(TEAM, num_heads=4)`.
    - `hidden_size`: the width of all features and of the hidden state.
    - `hints`: "encoded", "decoded" or "none", see `Hints`.
    - `edge_pointers`, `node_pointers`, `keep_pointers`, `comparisons`, `growing_hints`: options of how probes get in
      and out, see `narkit.models.interfaces.Interfaces`. By default all is as in the reference.
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
    interfaces: Interfaces = eqx.field(static=True)
    # By algorithm and edge pointer, b of `narkit.models.edge_pointers`; None where the processor is told of none.
    attention_terms: dict[str, dict[str, Float[Array, " 3"]]] | None

    def __init__(
        self,
        algorithms: str | Sequence[str],
        processor: str | ProcessorFactory = "team",
        hidden_size: int = 128,
        hints: Hints | str = Hints.ENCODED,
        *,
        edge_pointers: EdgePointers | str = EdgePointers.MEANS,
        node_pointers: NodePointers | str = NodePointers.REVERSE,
        keep_pointers: bool = False,
        comparisons: bool = False,
        growing_hints: bool = False,
        key: PRNGKeyArray,
    ):
        names = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
        hidden_size = whole_number("hidden_size", hidden_size, at_least=1, example=128)
        # One square matrix is the least that a network has.
        check_memory(f"a network of width {hidden_size}", 4.0 * hidden_size**2, "choose a smaller hidden_size")
        if not names or len(set(names)) != len(names):
            raise ValueError(f"expected one or more different algorithms, got {names}")
        self.hints = choice("hint mode", hints, Hints)
        self.interfaces = Interfaces(edge_pointers, node_pointers, keep_pointers, comparisons, growing_hints)
        self.algorithms = tuple(ALGORITHMS[name].name for name in names)
        self.hidden_size = hidden_size
        processor_key, *keys = jax.random.split(key, 1 + len(names))
        self.processor = make_processor(processor, hidden_size, key=processor_key)
        self.processor_name, self.processor_options = describe_processor(processor)
        self.encoders, self.output_decoders, self.hint_decoders = {}, {}, {}
        for name, algorithm_key in zip(self.algorithms, keys, strict=True):
            encoder_key, output_key, hint_key = jax.random.split(algorithm_key, 3)
            spec = self.spec(name)
            encoded = _encoded(spec, self.hints)
            lossless = self.interfaces.edge_pointers is EdgePointers.LOSSLESS
            whole = [each for each, probe in encoded.items() if lossless and is_edge_pointer(probe)]
            sizes = (hidden_size, self.processor.latent_size)
            around = Surroundings(self.interfaces, encoded, self.processor.attends)
            self.encoders[name] = Encoders(encoded, hidden_size, whole, key=encoder_key)
            self.output_decoders[name] = Decoders(stage_of(spec, Stage.OUTPUT), *sizes, around, key=output_key)
            decoded = {} if self.hints is Hints.NONE else stage_of(spec, Stage.HINT)
            self.hint_decoders[name] = Decoders(decoded, *sizes, around, key=hint_key)
        told = {name: encoders.whole for name, encoders in self.encoders.items() if encoders.whole}
        starts = {name: {pointer: jnp.zeros(3) for pointer in whole} for name, whole in told.items()}
        self.attention_terms = starts if starts and self.processor.attends else None

    def spec(self, algorithm: str) -> Spec:
        """Returns the probes that the network knows of an algorithm: those of networks, and perhaps comparisons."""
        spec = ALGORITHMS[algorithm].transformed_spec
        return with_comparisons(spec) if self.interfaces.comparisons else spec

    def bind(self, algorithm: str) -> BoundReasoner:
        """Returns the network for one of its algorithms, with the encoders folded into processor and decoders."""
        self.check_algorithm(algorithm)
        spec = self.spec(algorithm)
        encoders = self.encoders[algorithm]
        bases, encoded = encoders.bases(spec), tuple(encoders.linears)
        return BoundReasoner(
            algorithm=algorithm,
            encoded=encoded,
            num_node_scalars=len(bases.node.directions),
            processor=self.processor.bind(bases),
            output_decoders=self.output_decoders[algorithm].bind(spec, bases, encoded),
            hint_decoders=self.hint_decoders[algorithm].bind(spec, bases, encoded),
            whole=encoders.whole,
            attention_terms=(self.attention_terms or {}).get(algorithm),
        )

    def check_algorithm(self, algorithm: str) -> None:
        """Raises if the network is not one for this algorithm."""
        if algorithm not in self.algorithms:
            raise BatchError(f"expected a batch of {' or '.join(self.algorithms)}, got one of {algorithm}")


def _encoded(spec: Spec, hints: Hints) -> dict:
    return {
        name: probe
        for name, probe in spec.items()
        if probe.stage is Stage.INPUT or (probe.stage is Stage.HINT and hints is Hints.ENCODED)
    }


class LastStep(eqx.Module):
    """The inputs of the output decoders: the features and hidden states of each sample's own last step."""

    scalars: Scalars
    hidden: Float[Array, "*batch node hidden"]
    next_hidden: Float[Array, "*batch node hidden"]
    pointers: dict[str, Pointer] = eqx.field(default_factory=dict)  # from edges, where they are read whole


class BoundNetwork(eqx.Module):
    """A network for one algorithm that maps scalars to predictions. It runs at every step.

    `Reasoner.bind` makes one of plain formulas. A package with a faster form of a network makes another, and hands
    the function that does so to `unroll`.
    """

    algorithm: eqx.AbstractVar[str]
    encoded: eqx.AbstractVar[tuple[str, ...]]  # the probes that a step reads, in the order of the encoders
    whole: eqx.AbstractVar[tuple[str, ...]]  # the edge pointers among them that it reads whole
    loop: ClassVar[Backend] = PLAIN  # how the loop over its steps runs

    @property
    def spec(self) -> Spec:
        return with_comparisons(ALGORITHMS[self.algorithm].transformed_spec, self.encoded)

    def inputs(self, batch: DeviceBatch) -> dict[str, Array]:
        """Returns the inputs of a batch as steps read them."""
        spec = ALGORITHMS[self.algorithm].transformed_spec
        return compare(spec, as_values(spec, batch.inputs, batch.num_nodes), self.encoded)

    def read(self, values: Values) -> Reading:
        """Returns what a step reads of the values of all encoded probes."""
        chosen = {name: values[name] for name in self.encoded}
        return Reading.of(self.spec, chosen, values["pos"].shape[-1], self.whole)

    @property
    @abc.abstractmethod
    def decoded_together(self) -> tuple[str, ...]:
        """The hints whose logits, and so their feedback, are parts of one array."""

    @abc.abstractmethod
    def step(
        self, reading: Reading, hidden: Float[Array, "batch node hidden"], *, soften: bool = False
    ) -> tuple[LastStep, dict[str, Array], Feedback]:
        """Runs one step for a batch; returns the next hidden states, the logits of the next hints, and their feedback.

        Of the feedback a network may make any part, or none: the rest is made of the logits. `soften` says that
        probabilities are fed back; without it the network makes none.
        """

    @abc.abstractmethod
    def outputs(self, last: LastStep) -> dict[str, Array]:
        """Returns the output logits of a batch."""


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
    whole: tuple[str, ...] = eqx.field(static=True)
    attention_terms: dict[str, Float[Array, " 3"]] | None

    @property
    def decoded_together(self) -> tuple[str, ...]:
        return decoded_together(self.hint_decoders.probes)

    def step(
        self, reading: Reading, hidden: Float[Array, "batch node hidden"], *, soften: bool = False
    ) -> tuple[LastStep, dict[str, Array], Feedback]:
        scalars = reading.scalars(self.num_node_scalars, self.whole)
        connected = reading.adjacency(self.spec)
        pointers = reading.pointers(self.whole)
        terms, attention = self._terms(pointers), None
        if not self.whole:
            next_hidden, latents = jax.vmap(self.processor.with_latents)(scalars, connected, hidden)
        else:
            process = jax.vmap(self.processor.step_attending)
            next_hidden, latents, attention = process(scalars, connected, hidden, terms)
        logits = self.hint_decoders(scalars, hidden, next_hidden, latents, pointers, attention)
        return LastStep(scalars, hidden, next_hidden, pointers), logits, Feedback()

    def outputs(self, last: LastStep) -> dict[str, Array]:
        attention = None
        if not self.whole:
            latents = jax.vmap(self.processor.edge_latents)(last.scalars, last.hidden)
        else:
            attend = jax.vmap(self.processor.attend)
            latents, attention = attend(last.scalars, last.hidden, self._terms(last.pointers))
        return self.output_decoders(last.scalars, last.hidden, last.next_hidden, latents, last.pointers, attention)

    def attention(
        self, reading: Reading, hidden: Float[Array, "batch node hidden"]
    ) -> tuple[Float[Array, "batch node hidden"], Float[Array, "batch node node node"] | None]:
        """Returns the next hidden states, and how much each third node k counts for the edge from i to j: (batch, i, j,
        k), the mean over heads, for looking at; None if the processor has no attention over third nodes."""
        scalars, terms = reading.scalars(self.num_node_scalars, self.whole), self._terms(reading.pointers(self.whole))
        process = jax.vmap(self.processor.step_attending)
        next_hidden, _, weights = process(scalars, reading.adjacency(self.spec), hidden, terms)
        return next_hidden, weights

    def _terms(self, pointers: dict[str, Pointer]) -> Pointer | None:
        """Returns the terms that edge pointers add to the logits of the processor's attention."""
        return None if self.attention_terms is None else attention_terms(self.attention_terms, pointers)


def first_values(network: BoundNetwork, batch: DeviceBatch) -> dict[str, Array]:
    """Returns what a network reads at the first step of a batch, probe by probe."""
    hints = {name: values[0] for name, values in batch.hints.items()}
    return {**network.inputs(batch), **as_values(network.spec, hints, batch.num_nodes)}
