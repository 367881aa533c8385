"""Traces of a few training steps, and the kernels in them that took most time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from narkit.bench.compilation import CompilationJob, Prepared

TRACED_STEPS = 3


@dataclass(frozen=True)
class KernelTime:
    """The time that all runs of one kernel took in the traced steps."""

    name: str
    milliseconds: float
    runs: int


def trace(prepared: Prepared, job: CompilationJob, folder: Path) -> int:
    """Leaves a trace of a few steps, for TensorBoard or Perfetto, and returns how many processor steps it has."""
    batches = [job.feed.batch(step).on_device() for step in range(TRACED_STEPS)]
    training_step = prepared.training_step
    training_step.run(batches[0]).block_until_ready()
    folder.mkdir(parents=True, exist_ok=True)
    with jax.profiler.trace(str(folder)):
        jax.block_until_ready([training_step.run(batch) for batch in batches])
    return sum(training_step.processor_steps(batch) for batch in batches)


def longest_kernels(folder: Path) -> list[KernelTime]:
    """Returns all kernels of a trace, those with the most time first.

    On a GPU these are what its streams ran; without one, the operations that the program's threads ran.
    """
    files = sorted(folder.rglob("*.xplane.pb"), key=lambda path: path.stat().st_mtime)
    if not files:
        raise RuntimeError(f"{folder} holds no trace")
    planes = list(jax.profiler.ProfileData.from_file(str(files[-1])).planes)
    on_gpu = [plane for plane in planes if plane.name.startswith("/device:GPU")]
    milliseconds: dict[str, list[float]] = defaultdict(list)
    for plane in on_gpu or planes:
        for line in plane.lines:
            if on_gpu and not line.name.startswith("Stream"):
                continue  # the other lines group the same kernels by module and by operation
            for event in line.events:
                if on_gpu or _is_operation(event):
                    milliseconds[event.name].append(event.duration_ns / 1e6)
    found = [KernelTime(name, sum(runs), len(runs)) for name, runs in milliseconds.items()]
    return sorted(found, key=lambda kernel: -kernel.milliseconds)


def _is_operation(event: Any) -> bool:
    """Returns whether a host's event is an operation of a program. Loops and calls are not, as they hold others."""
    is_container = event.name.startswith(("while", "call", "conditional"))
    return not is_container and any(name == "hlo_op" for name, _ in event.stats)
