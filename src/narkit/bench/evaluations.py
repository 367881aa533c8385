"""Measures how long a validation and a pass over the official test split take."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import jax

from narkit.bench.train_record import EvaluationTime
from narkit.bench.training_steps import NarkitStep
from narkit.training.evaluation import EvaluationSet


class Evaluations:
    """The validation sets and the test split of one algorithm, as training uses them."""

    def __init__(self, training_step: NarkitStep):
        config = training_step.config
        self.seconds: list[float] = []  # that each of its programs took to compile
        self._error: Exception | None = None  # of one that could not be compiled
        self._step = training_step
        self._name = config.algorithms[0]
        self._validations = [EvaluationSet.of_validation(self._name, each) for each in config.validations]
        self._test = EvaluationSet.of_test(self._name)

    def compile_jobs(self) -> list[Callable[[], None]]:
        """Returns one function per program to be compiled."""
        return [functools.partial(self._compile, each) for each in (*self._validations, self._test)]

    def _compile(self, each: EvaluationSet) -> None:
        start = time.perf_counter()
        try:
            parameters = jax.eval_shape(lambda: self._step.state.parameters)
            self._step.programs.compile_prediction(parameters, next(each.parts()), each.with_hints)
            self.seconds.append(time.perf_counter() - start)
        except Exception as error:
            self._error = error

    def timed(self) -> EvaluationTime:
        """Measures the seconds of one validation and one test; the first run of each program is not counted."""
        if self._error is not None:
            raise self._error
        programs, parameters = self._step.programs, self._step.state.parameters

        def seconds(*sets: EvaluationSet) -> float:
            start = time.perf_counter()
            for evaluation in sets:
                evaluation.scores(programs, parameters)
            return time.perf_counter() - start

        for each in (*self._validations, self._test):
            programs.predict(parameters, next(each.parts()), each.with_hints)
        return EvaluationTime(self._step.config.processor, self._name, seconds(*self._validations), seconds(self._test))
