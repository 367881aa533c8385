"""What averaging the weights and skipping steps add to a training step.

    JAX_PLATFORMS=cpu python benchmarks/averaged_weights.py --algorithm bfs --processor mpnn --seeds 5

Trains on one batch with the preset `paper` and with `plus`, in turns, and prints the median of each and of the ratio of
neighbours, which another process on the machine disturbs less. The smaller the instances and the faster the network, the
larger is the share of what is done once per parameter.
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
        self.batch = Feed(self.config).meal(0).on_device().packed

    def seconds(self) -> float:
        began = time.perf_counter()
        self.state, loss = self.programs.train_step(self.state, self.batch)
        jax.block_until_ready((self.state, loss))
        return time.perf_counter() - began


def measure(algorithm: str, processor: str, seeds: int, size: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The seconds of so many steps without and with averages, taken in turns; the first ones are left out."""
    plain, plus = (Stepper(name, algorithm, processor, seeds, size) for name in ("paper", "plus"))
    for stepper in (plain, plus):
        stepper.seconds()
    taken = np.array([[plain.seconds(), plus.seconds()] for _ in range(steps)])
    return taken[:, 0], taken[:, 1]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", default="bfs")
    parser.add_argument("--processor", default="mpnn")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args(arguments)
    plain, plus = measure(options.algorithm, options.processor, options.seeds, options.size, options.steps)
    print(
        f"{options.processor} on {options.algorithm}, size {options.size}, {options.seeds} seeds, {options.steps} steps: "
        f"paper {1e3 * np.median(plain):.2f} ms, plus {1e3 * np.median(plus):.2f} ms a step; "
        f"ratio of neighbours {np.median(plus / plain):.3f}"
    )


if __name__ == "__main__":
    main()
