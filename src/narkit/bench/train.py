"""`narkit bench train`: what a training step costs, counted and timed, for each algorithm, processor and size."""

from __future__ import annotations

import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from narkit import fused, machine
from narkit.algorithms import ALGORITHMS
from narkit.bench.compilation import CompilationJob, Prepared, compile_together, count_launches, prepare, program_bytes
from narkit.bench.train_record import DEFAULT_PRESET, BenchRecord, Measurement
from narkit.bench.training_steps import NarkitStep, PlainStep, TrainingStep, most_steps
from narkit.training.config import TrainConfig
from narkit.training.feed import Feed, TrainingBatch
from narkit.training.packing import with_num_steps
from narkit.training.presets import PRESETS
from narkit.training.run import default_threads
from narkit.training.trainer import IN_FLIGHT, LOOK_AHEAD, MAKING_DATA, is_idle, short_turns

PACKAGES = ("narkit", "jax", "jaxlib", "equinox", "optax", "numpy", "numba")
REPEATS = 5  # of the two runs that tell the loop from what is around it
MANY_STEPS = 64  # of the longer one of them
STEP_SETTINGS = (
    "teacher_forcing", "reprediction", "hint_gradient", "gradient_clip", "average", "average_horizon", "skipped_steps",
)  # fmt: skip
"""The settings of a preset that a training step depends on."""


@dataclass(frozen=True)
class BenchOptions:
    """The options of a measurement: what is to be measured, and how."""

    algorithms: tuple[str, ...]
    processors: tuple[str, ...] = ("team", "triplet_gmpnn")
    sizes: tuple[int, ...] = (4, 7, 11, 13, 16)
    num_seeds: int = 5
    steps: int = 50
    hidden_size: int = 128
    batch_size: int = 32
    preset: str = DEFAULT_PRESET  # of the settings of a step
    plain: bool = False
    evaluation: bool = False  # time validation and test, too
    threads: int = min(16, os.cpu_count() or 1)
    together: int = 1  # of how many algorithms programs are compiled at the same time
    budget: float | None = None  # seconds
    settings: Mapping[str, Any] = field(default_factory=dict)  # other options of `TrainConfig`

    def sizes_of(self, algorithm: str) -> tuple[int, ...]:
        """Returns the sizes that training on an algorithm uses."""
        return ALGORITHMS[algorithm].training_sizes(self.sizes)

    def config(self, processor: str, algorithm: str) -> TrainConfig:
        of_step = {name: value for name, value in PRESETS[self.preset].items() if name in STEP_SETTINGS}
        own = {
            "algorithms": (algorithm,), "processor": processor, "hidden_size": self.hidden_size,
            "seeds": range(self.num_seeds), "sizes": self.sizes, "batch_size": self.batch_size,
        }  # fmt: skip
        return TrainConfig.from_json({**of_step, **self.settings, **own})


def new_record(options: BenchOptions) -> BenchRecord:
    return BenchRecord(
        device=machine.device_name(),
        backend=jax.default_backend(),
        sizes=list(options.sizes),
        **{name: getattr(options, name) for name in ("hidden_size", "batch_size", "num_seeds", "preset")},
        settings=dict(options.settings),
        compilation_cache=jax.config.jax_compilation_cache_dir is not None,  # type: ignore[attr-defined]
        **machine.circumstances(*PACKAGES),
    )


def measure(
    options: BenchOptions, record: BenchRecord, tell: Callable[[str], None], save: Callable[[], None]
) -> Iterator[Prepared]:
    """Measures everything that the record does not have yet, and saves it after every algorithm.

    Yields each training step after it was measured, for closer looks at it. Ends early when the budget is spent.
    """
    start = time.perf_counter()

    def is_over() -> bool:
        return options.budget is not None and time.perf_counter() - start > options.budget

    last_group, wanted = 0.0, _wanted(options, record)
    for first in range(0, len(wanted), options.together):
        group = wanted[first : first + options.together]
        began = time.perf_counter()
        if options.budget is not None and began - start + last_group > options.budget:
            return  # compiling cannot be interrupted, so what will probably not fit is not begun
        tell("compiling " + ", ".join(f"{algorithm} ({processor})" for _, processor, algorithm in group))
        prepared = []
        for kind, processor, algorithm in group:
            network = (kind.implementation, processor, algorithm)
            record.forget(*network)
            with record.recording_failures(*network, None):  # such as an algorithm that plain JAX cannot do
                training_step = kind(options.config(processor, algorithm))
                prepared.append(prepare(training_step, options.sizes_of(algorithm), options.evaluation))
        steps = warm_up(options.steps) + options.steps + IN_FLIGHT
        compilations = compile_together(prepared, steps, options.threads, is_over)
        for one, compilation in zip(prepared, compilations, strict=True):
            _measure_every_size(options.steps, record, one, tell, is_over)
            record.compilations.append(compilation)
            save()
            yield one
        last_group = time.perf_counter() - began
    record.complete = not is_over()
    save()


def _wanted(options: BenchOptions, record: BenchRecord) -> list[tuple[type[TrainingStep], str, str]]:
    """Lists what is to be measured, each as (implementation, processor, algorithm)."""
    return [
        (kind, processor, algorithm)
        for processor in options.processors
        for algorithm in options.algorithms
        for kind in ([NarkitStep, PlainStep] if options.plain and processor == "team" else [NarkitStep])
        if not record.has(kind.implementation, processor, algorithm, options.sizes_of(algorithm))
    ]


def _measure_every_size(
    steps: int, record: BenchRecord, prepared: Prepared, tell: Callable[[str], None], is_over: Callable[[], bool]
) -> None:
    """Measures every size. A failure is recorded and does not cost the measurements of the others."""
    implementation, processor, algorithm = prepared.network
    for job in prepared.jobs:
        if is_over():
            return
        tell(f"{algorithm}, {processor} ({implementation}), n = {job.size}")
        with record.recording_failures(*prepared.network, job.size):
            record.cells.append(measure_size(prepared, job, steps))
    if prepared.evaluations is not None and not is_over():
        tell(f"{algorithm}, {processor}: validation and test")
        with record.recording_failures(*prepared.network, 0):
            record.evaluations.append(prepared.evaluations.timed())


def warm_up(steps: int) -> int:
    """Returns how many steps precede the measured ones, until data made ahead is used up and the pipeline is full."""
    return min(LOOK_AHEAD + IN_FLIGHT, max(steps, 2))


def measure_size(prepared: Prepared, job: CompilationJob, steps: int) -> Measurement:
    """Times the steps of one size and looks at their program."""
    if job.error is not None:
        raise job.error
    assert job.batch is not None and job.program is not None
    training_step, num_nodes = prepared.training_step, job.batch.packed.layout.num_nodes
    loop, outside = _around_the_loop(training_step, job.batch)
    run = pipelined(training_step, job.feed, steps)
    paths = {"all": "plain"}
    if isinstance(training_step, NarkitStep):
        config = training_step.config
        paths = fused.report_parts(
            config.algorithms[0], config.processor, num_nodes, config.hidden_size, config.edge_pointers
        )
    return Measurement(
        *prepared.network,
        size=job.size,
        num_nodes=num_nodes,
        steps=steps,
        processor_steps=statistics.mean(run.processor_steps),
        step_ms=1e3 * run.seconds / steps,
        processor_step_ms=1e3 * run.seconds / sum(run.processor_steps),
        loop_ms=loop,
        outside_ms=outside,
        waiting_share=run.waiting / run.seconds,
        launches=count_launches(job.program),
        compile_seconds=[job.seconds],
        program_bytes=program_bytes(job.program),
        peak_bytes=machine.peak_memory(),
        paths=paths,
        commit=machine.commit(),
        date=machine.today(),
    )


@dataclass
class TimedRun:
    """The measured steps: seconds from the end of the step before them to the end of the last, and where they went.

    Not of single steps: that they have ended is seen a few steps later, of several at once.
    """

    seconds: float
    processor_steps: list[int]
    waiting: float


def pipelined(training_step: TrainingStep, feed: Feed, steps: int) -> TimedRun:
    """Takes steps as the trainer does and times them.

    As many threads make data ahead and take turns as often; several steps are in flight, none is waited for at once.

    Some more are taken before and after, so that all that is measured happens with a full pipeline.
    """
    warm = warm_up(steps)
    in_flight: deque[jax.Array] = deque()
    ends, processor_steps, waits = [], [], []
    with short_turns(), feed.ahead(0, LOOK_AHEAD, min(default_threads(), MAKING_DATA)) as batches:
        for _ in range(warm + steps + IN_FLIGHT):
            asked = time.perf_counter()
            batch = next(batches)
            if is_idle(in_flight):
                waits.append((asked, time.perf_counter()))
            processor_steps.append(training_step.processor_steps(batch))
            in_flight.append(training_step.run(batch))
            if len(in_flight) > IN_FLIGHT:
                np.asarray(in_flight.popleft())
                ends.append(time.perf_counter())
        jax.block_until_ready(list(in_flight))
    start, end = ends[warm - 1], ends[-1]
    waiting = sum(until - asked for asked, until in waits if start <= asked and until <= end)
    return TimedRun(end - start, processor_steps[warm : warm + steps], waiting)


def _around_the_loop(training_step: TrainingStep, batch: TrainingBatch) -> tuple[float | None, float | None]:
    """Measures what one more processor step costs, and what is left: one program with few and with many steps.

    The batch is on the device before: that it is moved there is no part of the program.
    """
    few, many = 1, min(most_steps(batch), MANY_STEPS)
    if many < 3 or not isinstance(training_step, NarkitStep):
        return None, None

    def timed(num_steps: int) -> float:
        cut = TrainingBatch(with_num_steps(batch.packed, num_steps), num_steps).on_device()
        times = []
        for _ in range(REPEATS + 1):  # the first warms up
            start = time.perf_counter()
            training_step.run(cut).block_until_ready()
            times.append(time.perf_counter() - start)
        return 1e3 * statistics.median(times[1:])

    short, long = timed(few), timed(many)
    slope = (long - short) / (many - few)
    return slope, short - few * slope
