"""What averaging the weights and skipping steps add to a training step.

    JAX_PLATFORMS=cpu python benchmarks/averaged_weights.py --algorithm bfs --processor mpnn --seeds 5

Trains on one batch with the preset `paper` and with `plus`, in turns, and prints the shortest time of each, by the
clock and of the processor, which other work on the machine disturbs less than means. The smaller the instances and the
faster the network, the larger is the share of what is done once per parameter.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import jax
import numpy as np

from narkit.training.feed import Feed
from narkit.training.presets import preset
from narkit.training.programs import Programs


class Stepper:
    """Trains step after step on the same batch."""

    def __init__(self, name: str, algorithm: str, processor: str, seeds: int, size: int):
        self.config = preset(name, algorithms=algorithm, processor=processor, seeds=tuple(range(seeds)), sizes=(size,))
        self.programs = Programs(self.config)
        self.state = self.programs.initial_state()
        self.batch = Feed(self.config).batch(0).on_device().packed

    def seconds(self) -> tuple[float, float]:
        """What a step takes: by the clock, and of the processor, all threads together."""
        began, used = time.perf_counter(), time.process_time()
        self.state, loss = self.programs.train_step(self.state, self.batch)
        jax.block_until_ready((self.state, loss))
        return time.perf_counter() - began, time.process_time() - used


def measure(algorithm: str, processor: str, seeds: int, size: int, steps: int) -> np.ndarray:
    """The shortest of so many steps, taken in turns: (without or with averages, clock or processor) in seconds."""
    steppers = [Stepper(name, algorithm, processor, seeds, size) for name in ("paper", "plus")]
    for stepper in steppers:
        stepper.seconds()  # compiles
    return np.array([[stepper.seconds() for stepper in steppers] for _ in range(steps)]).min(axis=0)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", default="bfs")
    parser.add_argument("--processor", default="mpnn")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args(arguments)
    shortest = measure(options.algorithm, options.processor, options.seeds, options.size, options.steps)
    print(
        f"{options.processor} on {options.algorithm}, size {options.size}, {options.seeds} seeds, {options.steps} steps"
    )
    for name, (plain, plus) in zip(("by the clock", "of the processor"), shortest.T, strict=True):
        print(f"{name}: paper {1e3 * plain:.2f} ms, plus {1e3 * plus:.2f} ms a step, {100 * (plus / plain - 1):+.1f} %")


if __name__ == "__main__":
    main()
