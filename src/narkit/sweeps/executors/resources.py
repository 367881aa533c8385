"""The resources that a cell asks of a cluster, and the number of such cells that a cluster holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

GPU, CPU, MEMORY = "GPU", "CPU", "memory"
STEP_OF_SHARES = 0.05  # shares of a GPU are rounded up to multiples of this
STEP_OF_MEMORY = 2**29  # and bytes to multiples of this: equal requests are scheduled faster than different ones
MARGIN = 1.2  # memory beyond what was predicted
LARGEST_SHARE = 0.9  # of a machine's memory that a cell may ask for; one that needs more gets all there is


@dataclass(frozen=True)
class Request:
    """The request of a cell: GPUs or a share of one, threads, and bytes of the host's memory (0: any)."""

    gpus: float
    cpus: float
    memory: int = 0

    def options(self) -> dict[str, float]:
        """Returns the request as options of a Ray task."""
        return {"num_gpus": self.gpus, "num_cpus": self.cpus} | ({"memory": self.memory} if self.memory else {})


def cells_that_fit(machines: Iterable[Mapping[str, float]], request: Request) -> int:
    """Returns how many cells with such a request a cluster runs at a time, if it runs nothing else."""
    return sum(_on_one(machine, request) for machine in machines)


def _on_one(machine: Mapping[str, float], request: Request) -> int:
    by_cpu = machine.get(CPU, 0.0) / request.cpus if request.cpus else math.inf
    by_memory = machine.get(MEMORY, 0.0) / request.memory if request.memory else math.inf
    by_gpu = math.inf
    if request.gpus >= 1:
        by_gpu = machine.get(GPU, 0.0) // request.gpus
    elif request.gpus > 0:
        by_gpu = machine.get(GPU, 0.0) * math.floor(1 / request.gpus + 1e-9)  # a share lies on one GPU
    fits = min(by_cpu, by_memory, by_gpu)
    return math.floor(fits + 1e-9) if math.isfinite(fits) else 1


def share_of_gpu(asked: float, predicted_bytes: float, gpu_bytes: float) -> float:
    """Returns the share of a GPU for a cell: as asked, or more for a predicted need of more memory; at most one GPU."""
    if asked >= 1 or not gpu_bytes:
        return asked
    needed = STEP_OF_SHARES * math.ceil(round(MARGIN * predicted_bytes / gpu_bytes / STEP_OF_SHARES, 9))
    return min(1.0, max(asked, round(needed, 6)))


def host_memory(predicted_bytes: float, machines: Iterable[Mapping[str, float]]) -> int:
    """Returns the bytes to ask for: the predicted ones with a margin, but no more than the largest machine can give."""
    largest = max((machine.get(MEMORY, 0.0) for machine in machines), default=0.0)
    wanted = STEP_OF_MEMORY * math.ceil(MARGIN * predicted_bytes / STEP_OF_MEMORY)
    return min(wanted, int(LARGEST_SHARE * largest))


def default_threads(machines: Iterable[Mapping[str, float]], gpus: float) -> int:
    """Returns the default threads of a cell: with GPUs a fair share of the scarcest machine's, at most 8; else one."""
    if not gpus:
        return 1
    fair = [machine.get(CPU, 0.0) / machine[GPU] * gpus for machine in machines if machine.get(GPU)]
    return max(1, min(8, math.floor(min(fair, default=1.0))))


def alive(nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the entries of `ray.nodes()` that are alive."""
    return [node for node in nodes if node.get("Alive") or node.get("alive")]
