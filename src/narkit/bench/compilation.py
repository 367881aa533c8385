"""Compiles the training steps that are to be measured, several at a time, and looks at what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import jax

from narkit.bench import launches
from narkit.bench.evaluations import Evaluations
from narkit.bench.train_record import Compilation
from narkit.bench.training_steps import NarkitStep, TrainingStep
from narkit.training.feed import Feed, TrainingBatch


@dataclass
class Job:
    """The training steps of one size: where their data comes from, and their program."""

    size: int
    feed: Feed
    batch: TrainingBatch | None = None
    program: jax.stages.Compiled | None = None
    seconds: float = 0.0  # that it took to compile it
    error: Exception | None = None


@dataclass
class Prepared:
    """A training step that is ready to be measured."""

    training_step: TrainingStep
    jobs: list[Job]
    evaluations: Evaluations | None = None
    evaluation_seconds: list[float] = field(default_factory=list)
    evaluation_error: Exception | None = None

    @property
    def seconds(self) -> list[float]:
        """How long each program took to compile."""
        return [job.seconds for job in self.jobs if job.program is not None] + self.evaluation_seconds


def prepare(training_step: TrainingStep, sizes: Sequence[int], evaluation: bool) -> Prepared:
    """Lays out what has to be compiled for a training step."""
    jobs = [Job(size, Feed(training_step.config.replace(sizes=(size,)))) for size in sizes]
    if not (evaluation and isinstance(training_step, NarkitStep)):
        return Prepared(training_step, jobs)
    return Prepared(training_step, jobs, Evaluations(training_step))


def compile_together(
    group: Sequence[Prepared], steps: int, threads: int, is_over: Callable[[], bool]
) -> list[Compilation]:
    """Compiles programs, as many at a time as there are threads. Errors stay with their job."""
    tasks: list[Callable[[], None]] = []
    for prepared in group:
        tasks += [lambda p=prepared, job=job: _compile_job(p.training_step, job, steps) for job in prepared.jobs]
        if prepared.evaluations is not None:
            tasks += [
                lambda p=prepared, run=run: _compile_evaluation(p, run) for run in prepared.evaluations.compile_jobs()
            ]
    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda task: None if is_over() else task(), tasks))
    elapsed = time.perf_counter() - start
    everything = sum(sum(prepared.seconds) for prepared in group) or 1.0
    found = []
    for prepared in group:
        config, seconds = prepared.training_step.config, prepared.seconds
        share = elapsed * sum(seconds) / everything
        implementation = prepared.training_step.implementation
        found.append(
            Compilation(implementation, config.processor, config.algorithms[0], len(seconds), share, threads, seconds)
        )
    return found


def _compile_job(training_step: TrainingStep, job: Job, steps: int) -> None:
    """Compiles the program of the steps to be measured. It has room for the longest of their trajectories."""
    try:
        job.feed.measure(steps)
        job.batch = job.feed.batch(0)
        start = time.perf_counter()
        job.program = training_step.compile(job.batch)
        job.seconds = time.perf_counter() - start
    except Exception as error:  # reported with its size; the others go on
        job.error = error


def _compile_evaluation(prepared: Prepared, run: Callable[[], object]) -> None:
    start = time.perf_counter()
    try:
        run()
        prepared.evaluation_seconds.append(time.perf_counter() - start)
    except Exception as error:
        prepared.evaluation_error = error


def count_launches(program: jax.stages.Compiled) -> dict[str, dict[str, int]] | None:
    """Operations that a program launches; None where they are not counted: on CPUs they are no kernels."""
    if jax.default_backend() != "gpu":
        return None
    try:
        return launches.count(program.as_text() or "")
    except launches.UnreadableProgram:
        return None


def program_bytes(program: jax.stages.Compiled) -> int | None:
    """How many bytes the arguments, results and temporary arrays of a program take."""
    stats = program.memory_analysis()
    if stats is None:
        return None
    return (
        stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes - stats.alias_size_in_bytes
    )
