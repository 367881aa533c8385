"""The unrolling: a network run over the steps of an algorithm, reading its own predictions.

Step i reads the inputs, hints i and the hidden states, and predicts hints i + 1. What one step hands to the next, the
carry of the loop over time, is the hidden states and the feedback: the predicted hints as they are read.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from narkit.loops.time_loop import choose, time_loop
from narkit.models import predictions
from narkit.models.encoders import Values, as_values
from narkit.models.feedback import Feedback, FeedbackForm
from narkit.models.growing_hints import soften_growing, with_gradient_of
from narkit.models.network import AnyArray, Bind, BoundNetwork, DeviceBatch, Hints, LastStep, Reasoner
from narkit.settings import choice


class Reprediction(enum.StrEnum):
    """The form in which predicted hints are fed back."""

    SOFT = "soft"  # probabilities, which gradients flow through
    HARD = "hard"  # the likeliest values
    HARD_ON_EVAL = "hard_on_eval"  # soft in training, hard in evaluation


@dataclass(frozen=True)
class Unrolling:
    """The way in which a network runs over the steps: options of a call, not of the network.

    `teacher_forcing` is the probability with which a sample reads the true hints in place of predicted ones at a
    step of training. `hint_gradient` multiplies the gradient that flows back from what a step reads of predicted hints
    to the step that predicted them. Below 1 it bounds a product over all steps, in which gradients explode.
    """

    teacher_forcing: float = 0.0
    reprediction: Reprediction | str = Reprediction.SOFT
    hint_gradient: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.hint_gradient <= 1.0:
            raise ValueError(f"expected a factor of the gradient through hints in [0, 1], got {self.hint_gradient}")
        if not 0.0 <= self.teacher_forcing <= 1.0:
            raise ValueError(f"expected a teacher-forcing probability in [0, 1], got {self.teacher_forcing}")
        object.__setattr__(self, "reprediction", choice("reprediction", self.reprediction, Reprediction))

    def is_hard(self, training: bool) -> bool:
        """Returns whether the likeliest values are fed back."""
        on_eval = self.reprediction is Reprediction.HARD_ON_EVAL
        return self.reprediction is Reprediction.HARD or (on_eval and not training)


DEFAULT_UNROLLING = Unrolling()

SummariseHints = Callable[[dict[str, Array], dict[str, Array], Bool[Array, " batch"]], dict[str, Array]]
"""`summary = summarise(logits, truth, in_time)` of the hints of one step"""


def unroll(
    reasoner: Reasoner,
    batch: DeviceBatch,
    *,
    options: Unrolling = DEFAULT_UNROLLING,
    training: bool = False,
    key: PRNGKeyArray | None = None,
    keep_hints: bool | SummariseHints = True,
    num_steps: Int[Array, ""] | None = None,
    bind: Bind | None = None,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Runs a network over the steps of a batch. Returns the logits of outputs and, stacked over steps, of hints.

    Step i reads hints i (true ones at the first step, predicted ones after) and predicts hints i + 1. Outputs are
    decoded at the last step of each sample, which is `length - 2`. In training, `key` draws the noise of permutations
    and the samples to be teacher-forced; without it there is neither.

    `keep_hints` may also be a function that says what to keep of a step's hints in place of their logits, given the
    logits, the true hints and the samples that have this step.

    `num_steps` is how many steps to run, by default as many as the longest sample needs. Under `jax.vmap` over seeds
    give one number for all, so that the loop stays a single one.

    `bind` makes the network that runs at every step; the default is `Reasoner.bind`, the plain formulas.
    """
    network = reasoner.bind(batch.algorithm) if bind is None else bind(reasoner, batch.algorithm)
    spec, num_nodes, batch_size = network.spec, batch.num_nodes, len(batch.lengths)
    feeds_back = reasoner.hints is Hints.ENCODED
    forcing = options.teacher_forcing if training and feeds_back else 0.0
    if 0.0 < forcing < 1.0 and key is None:
        raise ValueError("expected a key to draw the teacher-forced samples with, got None")
    forcing_key, noise_key = (None, None) if key is None else jax.random.split(key)
    together = network.decoded_together if feeds_back else ()
    form = FeedbackForm(spec, num_nodes, network.encoded, together, network.whole)
    growing = reasoner.interfaces.growing_hints
    step = Step(form, feeds_back, options.is_hard(training), forcing, keep_hints, options.hint_gradient, growing)
    data = StepData(
        inputs=network.inputs(batch),
        hints=batch.hints if forcing > 0.0 or callable(keep_hints) else None,
        lengths=jnp.asarray(batch.lengths),
        key=forcing_key if forcing > 0.0 else None,
    )
    hidden = jnp.zeros((batch_size, num_nodes, reasoner.hidden_size))
    hints = as_values(spec, _at(batch.hints, 0) if feeds_back else {}, num_nodes)
    if num_steps is None:
        num_steps = jnp.maximum(1, batch.lengths.max() - 1)
    # Every sample takes part in the first step, even one without a second hint.
    last_steps = jnp.maximum(0, batch.lengths - 2)
    carry = (hidden, form.of(data.inputs, hints))
    _, hint_logits, last = time_loop(step, network, data, carry, num_steps, batch.num_steps, last_steps, network.loop)
    return predictions.finish_logits(spec, network.outputs(last), noise_key), hint_logits


def _at(hints: dict[str, Array], step: AnyArray | np.integer | int) -> dict[str, Array]:
    """Returns the true hints of a step, as they are stored."""
    return {name: values[step] for name, values in hints.items()}


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def damp(factor: float, values: PyTree) -> PyTree:
    """Returns the values as they are; the gradient that flows back through them is multiplied with the factor."""
    return values


def _damp_forward(factor: float, values: PyTree) -> tuple[PyTree, None]:
    return values, None


def _damp_backward(factor: float, saved: None, cotangents: PyTree) -> tuple[PyTree]:
    return (jax.tree.map(lambda cotangent: factor * cotangent, cotangents),)


damp.defvjp(_damp_forward, _damp_backward)


class StepData(eqx.Module):
    """The data that all steps read alike. No gradient flows to it."""

    inputs: Values
    hints: dict[str, Array] | None  # the true ones of all steps, if they are read
    lengths: Int[Array, " batch"]
    key: PRNGKeyArray | None  # draws the teacher-forced samples


Carry = tuple[Float[Array, "batch node hidden"], Feedback]


@dataclass(frozen=True, eq=False)
class Step:
    """One step of an unrolled network, as `time_loop` runs it."""

    form: FeedbackForm
    feeds_back: bool  # whether the network reads hints at all
    hard: bool  # whether it reads the likeliest values of predicted ones
    teacher_forcing: float
    keep_hints: bool | SummariseHints
    hint_gradient: float = 1.0
    growing: bool = False  # whether soft hints that name a node are fed back sharper, the more nodes there are

    def __call__(
        self, network: BoundNetwork, data: StepData, i: Int[AnyArray, ""], carry: Carry
    ) -> tuple[Carry, dict[str, Array], LastStep]:
        """Returns the next carry, what is kept of the predicted hints, and what output decoders read of a last step."""
        hidden, feedback = carry
        if self.hint_gradient != 1.0:
            feedback = damp(self.hint_gradient, feedback)  # type: ignore[assignment]
        soften = self.feeds_back and not self.hard
        here, logits, made = network.step(self.form.read(data.inputs, feedback), hidden, soften=soften)  # type: ignore
        return (here.next_hidden, self._next_feedback(data, i, logits, made)), self._kept(data, i, logits), here

    def _kept(self, data: StepData, i: AnyArray, logits: dict[str, Array]) -> dict[str, Array]:
        if not callable(self.keep_hints):
            return logits if self.keep_hints else {}
        assert data.hints is not None
        return self.keep_hints(logits, _at(data.hints, i + 1), data.lengths > i + 1)

    def _next_feedback(self, data: StepData, i: AnyArray, logits: dict[str, Array], made: Feedback) -> Feedback:
        """Returns predicted hints, or true ones for teacher-forced samples. `made` is what the network has made."""
        if not self.feeds_back:
            return Feedback()
        revise = predictions.harden if self.hard else predictions.soften
        revised = {name: revise(self.form.spec[name], logits[name]) for name in self.form.missing(made, logits)}
        predicted = self.form.complete(made, data.inputs, revised)
        if self.growing and not self.hard:
            grown = {name: soften_growing(self.form.spec[name], logits[name], self.form.num_nodes) for name in logits}
            predicted = with_gradient_of(predicted, self.form.of(data.inputs, grown))
        if self.teacher_forcing == 0.0:
            return predicted
        assert data.hints is not None
        true = self.form.of(data.inputs, as_values(self.form.spec, _at(data.hints, i + 1), self.form.num_nodes))
        return jax.tree.map(functools.partial(choose, self._forced(data, i)), true, predicted)

    def _forced(self, data: StepData, i: AnyArray) -> Bool[Array, " batch"]:
        """Returns the samples that read true hints at the next step."""
        batch_size = len(data.lengths)
        if self.teacher_forcing == 1.0:
            return jnp.ones(batch_size, bool)
        assert data.key is not None
        return jax.random.bernoulli(jax.random.fold_in(data.key, i), self.teacher_forcing, (batch_size,))
