"""`narkit bench train --reference-python`: training steps on the CPU, ours and dm-clrs's, in turn in one run."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import jax
from rich.console import Console

from narkit import machine
from narkit.bench.reference_process import ReferenceProcess
from narkit.bench.tables import markdown_page, versions_in_words
from narkit.bench.train import PACKAGES
from narkit.bench.training_steps import NarkitStep
from narkit.printing import print_line, print_table
from narkit.training.config import TrainConfig
from narkit.training.feed import Feed

REFERENCE_SCRIPT = Path(__file__).with_name("reference_trainer.py")
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


def compare(
    python: Path,
    processors: Sequence[str],
    algorithm: str,
    size: int,
    hidden_size: int,
    batch_size: int,
    steps: int,
    tell: Callable[[str], None],
) -> CpuRecord:
    """Measures both in turn, a few steps at a time, so that a busy moment of the machine hits both alike."""
    load = os.getloadavg()[0]
    reference = ReferenceProcess(python, REFERENCE_SCRIPT)
    try:
        comparisons = []
        for processor in processors:
            tell(f"{processor}: compiling both")
            config = TrainConfig(
                (algorithm,), processor, hidden_size=hidden_size, sizes=(size,), batch_size=batch_size, seeds=(0,)
            )
            ours = _Ours(config)
            theirs = _Theirs(reference, processor, algorithm, size, batch_size, hidden_size)
            for turn in range(-(-steps // STEPS_PER_TURN)):
                tell(f"{processor}: turn {turn + 1}")
                ours.run(STEPS_PER_TURN)
                theirs.run(STEPS_PER_TURN)
            comparisons.append(ProcessorComparison(processor, ours.side, theirs.side))
        versions = reference.versions
    finally:
        reference.close()
    return CpuRecord(
        comparisons=comparisons,
        algorithm=algorithm,
        size=size,
        batch_size=batch_size,
        hidden_size=hidden_size,
        cpu=machine.cpu_model(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=load,
        commit=machine.commit(),
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        versions=machine.versions(*PACKAGES),
        reference_versions=versions,
    )


class _Ours:
    """Our training step, on batches made and moved beforehand."""

    def __init__(self, config: TrainConfig):
        self._step = NarkitStep(config)
        feed = Feed(config)
        feed.measure(NUM_BATCHES)
        self._batches = cycle([feed.batch(step).on_device() for step in range(NUM_BATCHES)])
        self.side = TimedSteps([], [], self._timed()[0])

    def _timed(self) -> tuple[float, int]:
        batch = next(self._batches)
        start = time.perf_counter()
        jax.block_until_ready(self._step.run(batch))
        return time.perf_counter() - start, batch.num_steps

    def run(self, steps: int) -> None:
        for _ in range(steps):
            seconds, processor_steps = self._timed()
            self.side.seconds.append(seconds)
            self.side.processor_steps.append(processor_steps)


class _Theirs:
    """The reference's training step."""

    def __init__(
        self, process: ReferenceProcess, processor: str, algorithm: str, size: int, batch_size: int, hidden_size: int
    ):
        self._process, self._processor = process, processor
        request = {"processor": processor, "algorithm": algorithm, "size": size}
        answer = process.ask({"build": request | {"batch_size": batch_size, "hidden_size": hidden_size}})
        self._processor_steps: int = answer["processor_steps"]
        self.side = TimedSteps([], [], answer["first_step"])

    def run(self, steps: int) -> None:
        answer = self._process.ask({"run": {"processor": self._processor, "steps": steps}})
        self.side.seconds += answer["seconds"]
        self.side.processor_steps += [self._processor_steps] * steps


def _rows(record: CpuRecord) -> list[list[str]]:
    rows = []
    for c in record.comparisons:
        target = TARGETS.get(c.processor)
        rows.append(
            [
                c.processor,
                f"{c.ours.step_ms:.0f}",
                f"{c.reference.step_ms:.0f}",
                f"{c.step_ratio:.2f}×",
                f"{c.ours.processor_step_ms:.1f}",
                f"{c.reference.processor_step_ms:.1f}",
                f"{c.processor_step_ratio:.2f}×",
                "" if target is None else f"{target:g}×",
            ]
        )
    return rows


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


def print_record(console: Console, record: CpuRecord) -> None:
    """Prints the comparison and its circumstances."""
    print_table(console, HEADER, _rows(record))
    for line in _circumstances(record):
        print_line(console, line, "dim")


def as_markdown(record: CpuRecord) -> str:
    """The comparison as a Markdown page."""
    return markdown_page("Speed of training on the CPU", _circumstances(record), HEADER, _rows(record))


def as_json(record: CpuRecord) -> str:
    """The record as JSON, with medians and ratios."""
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
