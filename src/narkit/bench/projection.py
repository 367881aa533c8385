"""From measured steps to how long the paper's whole column would take."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import jax

from narkit.algorithms import ALGORITHMS
from narkit.bench.train_record import NARKIT, Evaluation, Record
from narkit.bench.training_steps import NarkitSubject
from narkit.data.splits import load_split
from narkit.training.evaluation import EvaluationSet, validation_batch
from narkit.training.rules import rules
from narkit.training.trainer import TEST_PART, VALIDATION_PART

STEPS = 10_000
VALIDATE_EVERY = 200
NUM_RULES = 5  # of the preset `paper`; each may have chosen other parameters, which are then tested on their own
FORMULA = (
    f"sum over the algorithms of: {STEPS} x (mean over the sizes of the mean seconds per training step) "
    f"+ {STEPS // VALIDATE_EVERY} x (seconds of a validation on both sets) + {NUM_RULES} x (seconds of the official "
    "test split) + (wall seconds to compile all of its programs); all seeds are trained at once"
)


@dataclass
class Projection:
    """Seconds for all algorithms that were measured at every size, by what they go into."""

    formula: str
    algorithms: int
    missing: list[str]  # algorithms that the sum lacks
    without_evaluation: list[str]  # algorithms whose validation and test were not timed and count as nothing
    training: float
    validation: float
    test: float
    compilation: float
    total: float
    total_if_compilation_is_hidden: float
    milliseconds_per_processor_step: float  # all in: the total divided by all processor steps


def project(record: Record, processor: str) -> Projection | None:
    """The projected time of a processor on everything; None if not a single algorithm was measured at every size."""
    training = validation = test = compilation = processor_steps = 0.0
    missing, without_evaluation, done = [], [], 0
    evaluations = {e.algorithm: e for e in record.evaluations if e.processor == processor}
    for algorithm, entry in sorted(ALGORITHMS.items()):
        if not record.has(NARKIT, processor, algorithm, entry.training_sizes(record.sizes)):
            missing.append(algorithm)
            continue
        done += 1
        cells = [cell for cell in record.cells if cell.place[:3] == (NARKIT, processor, algorithm)]
        training += STEPS * statistics.mean(cell.step_ms for cell in cells) / 1e3
        processor_steps += STEPS * statistics.mean(cell.processor_steps for cell in cells)
        compilation += sum(
            c.seconds
            for c in record.compilations
            if (c.implementation, c.processor, c.algorithm) == (NARKIT, processor, algorithm)
        )
        if algorithm in evaluations:
            validation += STEPS // VALIDATE_EVERY * evaluations[algorithm].validation_seconds
            test += NUM_RULES * evaluations[algorithm].test_seconds
        else:
            without_evaluation.append(algorithm)
    if not done:
        return None
    hidden = training + validation + test
    total = hidden + compilation
    return Projection(
        formula=FORMULA,
        algorithms=done,
        missing=missing,
        without_evaluation=without_evaluation,
        training=training,
        validation=validation,
        test=test,
        compilation=compilation,
        total=total,
        total_if_compilation_is_hidden=hidden,
        milliseconds_per_processor_step=1e3 * total / processor_steps,
    )


class Evaluations:
    """The validation sets and the test split of one algorithm, as training uses them."""

    def __init__(self, subject: NarkitSubject):
        config = subject.config
        self._subject = subject
        self._name = config.algorithms[0]
        assert len(rules(config)) == NUM_RULES
        self._validations = [
            EvaluationSet.of(validation_batch(self._name, validation), VALIDATION_PART, keep=True)
            for validation in config.validations
        ]
        # With hints, as a run scores it: the program that counts them is another one.
        self._test = EvaluationSet.of(load_split(self._name, "test"), TEST_PART, with_hints=True)

    def compile_jobs(self) -> list[Callable[[], object]]:
        """One function per program to be compiled."""
        parameters = jax.eval_shape(lambda: self._subject.state.parameters)
        programs = self._subject.programs
        return [
            functools.partial(programs.compile_prediction, parameters, next(each.parts()), each.with_hints)
            for each in (*self._validations, self._test)
        ]

    def timed(self) -> Evaluation:
        """Seconds of one validation and one test; the first run of each program is not counted."""
        programs, parameters = self._subject.programs, self._subject.state.parameters

        def seconds(*sets: EvaluationSet) -> float:
            start = time.perf_counter()
            for evaluation in sets:
                evaluation.scores(programs, parameters)
            return time.perf_counter() - start

        for each in (*self._validations, self._test):
            programs.predict(parameters, next(each.parts()), each.with_hints)
        return Evaluation(self._subject.config.processor, self._name, seconds(*self._validations), seconds(self._test))
