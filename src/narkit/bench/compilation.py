"""Compiles the training steps that are to be measured, several at a time, and looks at what came out."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax

from narkit.bench import launches
from narkit.bench.evaluations import Evaluations
from narkit.bench.train_record import Compilation
from narkit.bench.training_steps import NarkitStep, TrainingStep
from narkit.training.feed import Feed, TrainingBatch


@dataclass
class CompilationJob:
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
    jobs: list[CompilationJob]
    evaluations: Evaluations | None = None

    @property
    def network(self) -> tuple[str, str, str]:
        """The implementation, the processor and the algorithm."""
        config = self.training_step.config
        return self.training_step.implementation, config.processor, config.algorithms[0]

    @property
    def seconds(self) -> list[float]:
        """The seconds that each program took to compile."""
        evaluations = self.evaluations.seconds if self.evaluations is not None else []
        return [job.seconds for job in self.jobs if job.program is not None] + evaluations


def prepare(training_step: TrainingStep, sizes: Sequence[int], evaluation: bool) -> Prepared:
    """Lays out what has to be compiled for a training step."""
    jobs = [CompilationJob(size, Feed(training_step.config.replace(sizes=(size,)))) for size in sizes]
    if evaluation and isinstance(training_step, NarkitStep):
        return Prepared(training_step, jobs, Evaluations(training_step))
    return Prepared(training_step, jobs)


def compile_together(
    group: Sequence[Prepared], steps: int, threads: int, is_over: Callable[[], bool]
) -> list[Compilation]:
    """Compiles programs, as many at a time as there are threads. Errors stay with their job."""
    tasks: list[Callable[[], object]] = []
    for prepared in group:
        tasks += [functools.partial(_compile_job, prepared.training_step, job, steps) for job in prepared.jobs]
        tasks += prepared.evaluations.compile_jobs() if prepared.evaluations is not None else []
    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda task: None if is_over() else task(), tasks))
    elapsed = time.perf_counter() - start
    everything = sum(sum(prepared.seconds) for prepared in group) or 1.0
    found = []
    for prepared in group:
        seconds = prepared.seconds
        share = elapsed * sum(seconds) / everything
        found.append(Compilation(*prepared.network, len(seconds), share, threads, seconds))
    return found


def _compile_job(training_step: TrainingStep, job: CompilationJob, steps: int) -> None:
    """Compiles the program of the steps to be measured. It has room for the longest of their trajectories."""
    try:
        job.feed.measure(steps)
        job.batch = job.feed.batch(0)
        start = time.perf_counter()
        job.program = training_step.compile(job.batch)
        job.seconds = time.perf_counter() - start
    except Exception as error:  # reported with its size; the others go on
        job.error = error


def count_launches(program: jax.stages.Compiled) -> dict[str, dict[str, int]] | None:
    """Counts the operations that a program launches; None where they are not counted: on CPUs they are no kernels."""
    if jax.default_backend() != "gpu":
        return None
    try:
        return launches.count(program.as_text() or "")
    except launches.UnreadableProgram:
        return None


def program_bytes(program: jax.stages.Compiled) -> int | None:
    """Returns how many bytes the arguments, results and temporary arrays of a program take."""
    stats = program.memory_analysis()
    if stats is None:
        return None
    return (
        stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes - stats.alias_size_in_bytes
    )
