"""Registers an algorithm of one's own, runs it on an instance, and draws a batch that a network could train on.

The algorithm finds the largest of some numbers and keeps track of the best one so far: four probes and a loop.

    python examples/own_algorithm.py
"""

import narkit
from narkit.algorithms import arguments
from narkit.algorithms.randomness import uniform
from narkit.algorithms.recording import fill_positions, next_step


def random_numbers(rng, size, distribution):
    return (uniform(rng, 0.0, 1.0, size),)


@narkit.algorithm(
    category="search",
    inputs={
        "pos": narkit.node("scalar", "position of the node, which tells nodes apart"),
        "key": narkit.node("scalar", "the number on this node"),
    },
    hints={"best_h": narkit.node("mask_one", "the largest number seen so far")},
    outputs={"best": narkit.node("mask_one", "the largest number")},
    arguments={"A": arguments.keys()},
    sampler=random_numbers,
)
def largest(A, probes):
    """The largest of some numbers, by looking at one after the other."""
    fill_positions(probes.pos)
    probes.key[:] = A
    best = 0
    for i in range(len(A)):
        if A[i] > A[best]:
            best = i
        step = next_step(probes)
        probes.best_h[step, best] = 1
    probes.best[best] = 1


def main() -> None:
    batch = narkit.run("largest", A=[0.3, 0.9, 0.2, 0.5])
    print("largest:", batch.outputs["best"][0].argmax(), "after", batch.lengths[0], "steps")
    print(narkit.sample("largest", size=8, batch_size=32, seed=0))


if __name__ == "__main__":
    main()
