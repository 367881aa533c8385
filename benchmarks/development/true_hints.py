"""Whether a network that loses its way could go on if it were put right: hints with and without true ones to read.

    python benchmarks/development/true_hints.py team_plus/dijkstra team_plus/task_scheduling

runs published networks at size 64 on the instances of development runs (seed 1000, not the official test), once on
their own predictions and once reading the true hints at every step, and adds lines to
results/development/true_hints.jsonl: the share of right values of each hint that is not a scalar (of masks F1), and
after which share of the steps a sample has its first wrong one. `tables.py` makes a table of them.
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np

import narkit
from narkit.data.splits import benchmark_set
from narkit.data.transforms import transform
from narkit.models import predictions
from narkit.models.network import DeviceBatch
from narkit.models.scoring import score
from narkit.models.unrolling import DEFAULT_UNROLLING, Unrolling, unroll
from narkit.spec import Kind

STORED = Path(__file__).parents[2] / "results" / "development" / "true_hints.jsonl"
SIZE, SAMPLES, SEED = 64, 8, 1000
WAYS = {"own": DEFAULT_UNROLLING, "true": Unrolling(teacher_forcing=1.0)}


def right_hints(name: str, options: Unrolling) -> tuple[dict[str, float], float]:
    """The share of right values of each hint, and the mean share of a run's steps before the first wrong value."""
    network = narkit.load(name)
    (algorithm,) = network.algorithms
    spec = narkit.ALGORITHMS[algorithm].transformed_spec
    batch = transform(benchmark_set(algorithm, SIZE, SAMPLES, seed=SEED))
    run = jax.jit(lambda network, batch: unroll(network, batch, options=options, training=True)[1])
    found = predictions.decode_outputs(spec, run(network, DeviceBatch.of(batch)))
    in_time = np.arange(1, len(next(iter(found.values()))) + 1)[:, None] < batch.lengths
    all_right, shares = in_time.copy(), {}
    for hint, values in found.items():
        if spec[hint].kind is Kind.SCALAR:
            continue
        true, values = np.asarray(batch.hints[hint])[1:], np.asarray(values)
        shares[hint] = score(spec[hint], values[in_time], true[in_time])
        same = (values == true) | (true == -1)
        all_right &= same.reshape(*in_time.shape, -1).all(-1)
    first_wrong = np.where(in_time & ~all_right, np.arange(len(in_time))[:, None], len(in_time)).min(0)
    return shares, float(np.mean(np.minimum(first_wrong / in_time.sum(0), 1)))


def main() -> None:
    for name in sys.argv[1:]:
        for way, options in WAYS.items():
            shares, before = right_hints(name, options)
            line = {"network": name, "reads": way, "size": SIZE, "samples": SAMPLES, "hints": shares, "before": before}
            with STORED.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)


if __name__ == "__main__":
    main()
