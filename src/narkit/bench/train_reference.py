"""`narkit bench train --reference-python`: training steps on the CPU, ours and dm-clrs's, in turn in one run."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import jax

from narkit import machine
from narkit.bench.reference_process import ReferenceProcess
from narkit.bench.tables import Page, versions_in_words
from narkit.bench.train import PACKAGES, BenchOptions
from narkit.bench.training_steps import NarkitStep
from narkit.training.config import TrainConfig
from narkit.training.feed import Feed, TrainingBatch

REFERENCE_SCRIPT = Path(__file__).with_name("reference_trainer.py")
ALGORITHM, SIZE = "bfs", 16
NUM_BATCHES = 8
STEPS_PER_TURN = 3
TARGETS = {"team": 3.0, "triplet_gmpnn": 2.0}
HEADER = (
    "processor", "narkit ms/step", "dm-clrs ms/step", "ratio", "narkit ms/proc. step", "dm-clrs ms/proc. step",
    "ratio", "target",
)  # fmt: skip


@dataclass
class TimedSteps:
    """The training steps of one implementation, each waited for."""

    seconds: list[float]
    processor_steps: list[int]
    first_step: float  # seconds, with compilation

    @property
    def step_ms(self) -> float:
        return 1e3 * statistics.median(self.seconds)

    @property
    def processor_step_ms(self) -> float:
        return 1e3 * statistics.median(s / n for s, n in zip(self.seconds, self.processor_steps, strict=True))


@dataclass
class ProcessorComparison:
    """One processor, ours and theirs."""

    processor: str
    ours: TimedSteps
    reference: TimedSteps

    @property
    def step_ratio(self) -> float:
        return self.reference.step_ms / self.ours.step_ms

    @property
    def processor_step_ratio(self) -> float:
        return self.reference.processor_step_ms / self.ours.processor_step_ms


@dataclass
class CpuRecord:
    """The whole comparison with what is needed to judge it."""

    comparisons: list[ProcessorComparison]
    algorithm: str
    size: int
    batch_size: int
    hidden_size: int
    cpu: str
    cores: int
    load: float  # of the machine before the run, without it
    commit: str
    date: str
    versions: dict[str, str]
    reference_versions: dict[str, str]


def compare(python: Path, options: BenchOptions, tell: Callable[[str], None]) -> CpuRecord:
    """Measures both in turn, a few steps at a time, so that a busy moment of the machine hits both alike."""
    load = os.getloadavg()[0]
    shape: dict[str, Any] = {"hidden_size": options.hidden_size, "batch_size": options.batch_size}
    with ReferenceProcess(python, REFERENCE_SCRIPT) as reference:
        configs = [TrainConfig((ALGORITHM,), each, sizes=(SIZE,), seeds=(0,), **shape) for each in options.processors]
        comparisons = [_compare(config, reference, options.steps, tell) for config in configs]
    return CpuRecord(
        comparisons=comparisons,
        algorithm=ALGORITHM,
        size=SIZE,
        **shape,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=load,
        reference_versions=reference.versions,
        **machine.circumstances(*PACKAGES),
    )


def _compare(
    config: TrainConfig, reference: ReferenceProcess, steps: int, tell: Callable[[str], None]
) -> ProcessorComparison:
    """Times our training step on batches made and moved beforehand, in turn with the reference's."""
    processor = config.processor
    tell(f"{processor}: compiling both")
    training_step, feed = NarkitStep(config), Feed(config)
    feed.measure(NUM_BATCHES)
    batches = cycle([feed.batch(step).on_device() for step in range(NUM_BATCHES)])

    def seconds(batch: TrainingBatch) -> float:
        start = time.perf_counter()
        jax.block_until_ready(training_step.run(batch))
        return time.perf_counter() - start

    ours = TimedSteps([], [], seconds(next(batches)))
    network = {"algorithm": ALGORITHM, "size": SIZE, "batch_size": config.batch_size, "hidden_size": config.hidden_size}
    built = reference.ask({"build": {"processor": processor, **network}})
    theirs = TimedSteps([], [], built["first_step"])
    for turn in range(-(-steps // STEPS_PER_TURN)):
        tell(f"{processor}: turn {turn + 1}")
        for batch in islice(batches, STEPS_PER_TURN):
            ours.seconds.append(seconds(batch))
            ours.processor_steps.append(batch.num_steps)
        theirs.seconds += reference.ask({"run": {"processor": processor, "steps": STEPS_PER_TURN}})["seconds"]
        theirs.processor_steps += [built["processor_steps"]] * STEPS_PER_TURN
    return ProcessorComparison(processor, ours, theirs)


def _row(compared: ProcessorComparison) -> list[str]:
    ours, theirs, target = compared.ours, compared.reference, TARGETS.get(compared.processor)
    return [
        compared.processor,
        *(f"{side.step_ms:.0f}" for side in (ours, theirs)),
        f"{compared.step_ratio:.2f}×",
        *(f"{side.processor_step_ms:.1f}" for side in (ours, theirs)),
        f"{compared.processor_step_ratio:.2f}×",
        "" if target is None else f"{target:g}×",
    ]


def _circumstances(record: CpuRecord) -> list[str]:
    steps = min((len(c.ours.seconds) for c in record.comparisons), default=0)
    return [
        f"Training steps (forward + backward + Adam, one seed, {record.algorithm}, n = {record.size}, batch "
        f"{record.batch_size}, h = {record.hidden_size}) on {record.cores} cores of {record.cpu}: medians over {steps} "
        f"steps each, {STEPS_PER_TURN} of ours and {STEPS_PER_TURN} of theirs in turn, data not included; load of the "
        f"machine before the run {record.load:.1f}. {record.date}, commit {record.commit}, "
        f"{versions_in_words(record.versions)}.",
        f"Reference: {versions_in_words(record.reference_versions)}. Its Triplet-GMPNN is its own; its TEAM is the "
        "same layer written the obvious way in Haiku as one of its processors. It pads every batch to the longest "
        "trajectory seen so far, ours runs as many steps as the batch needs; the second ratio is per processor step "
        "and leaves that advantage out.",
    ]


def page(record: CpuRecord) -> Page:
    """Returns the page of the comparison and its circumstances."""
    rows = [_row(compared) for compared in record.comparisons]
    return Page("Speed of training on the CPU", _circumstances(record), HEADER, rows)


def as_json(record: CpuRecord) -> str:
    """Returns the record as JSON, with medians and ratios."""
    content = asdict(record)
    content["summary"] = {
        c.processor: {
            "ours_step_ms": c.ours.step_ms,
            "reference_step_ms": c.reference.step_ms,
            "step_ratio": c.step_ratio,
            "processor_step_ratio": c.processor_step_ratio,
            "target": TARGETS.get(c.processor),
        }
        for c in record.comparisons
    }
    return json.dumps(content, indent=1) + "\n"
