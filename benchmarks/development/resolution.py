"""Where binary search goes wrong: how near the target is to the keys that the search compares it with.

    python benchmarks/development/resolution.py team_plus/binary_search team/binary_search

scores published networks at size 64 on the instances of development runs (seeds 1000 and up, not the official test)
and groups the instances by the smallest distance between the target and a key on the way to the answer.
"""

import sys

import numpy as np

import narkit
from narkit.data.splits import benchmark_set

SIZE, PART, PARTS = 64, 96, 5
EDGES = (0.003, 0.01, 0.03)


def nearest_key(target: float, keys: np.ndarray) -> float:
    """The smallest distance between the target and a key that binary search looks at."""
    low, high, nearest = 0, len(keys) - 1, np.inf
    while low < high:
        middle = (low + high) // 2
        nearest = min(nearest, abs(target - keys[middle]))
        low, high = (low, middle) if target <= keys[middle] else (middle + 1, high)
    return float(nearest)


def main() -> None:
    for name in sys.argv[1:]:
        network, missed, nearest = narkit.load(name), [], []
        for part in range(PARTS):
            batch = benchmark_set("binary_search", SIZE, PART, seed=1000 + part)
            found = narkit.predict(network, batch, keep_hints=False).outputs["return"].argmax(-1)
            missed.append(np.abs(found - batch.outputs["return"].argmax(-1)))
            targets = np.ravel(batch.inputs["target"])
            nearest += [nearest_key(target, keys) for target, keys in zip(targets, batch.inputs["key"], strict=True)]
        by, groups = np.concatenate(missed), np.digitize(nearest, EDGES)
        right = [f"{100 * np.mean(by[groups == g] == 0):.1f} % of {sum(groups == g)}" for g in range(len(EDGES) + 1)]
        errors = f"off by one {100 * np.mean(by == 1):.1f} %, by more {100 * np.mean(by > 1):.1f} %"
        distances = f"by distance ({', '.join(map(str, EDGES))}): {', '.join(right)}"
        print(f"{name}: right {100 * np.mean(by == 0):.1f} %, {errors}; {distances}", flush=True)


if __name__ == "__main__":
    main()
