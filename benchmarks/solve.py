"""How long `narkit solve` takes: from the shell with a warm cache, and per further instance in one process.

    python benchmarks/solve.py --size 16 --out benchmarks/solve.json

A new process solves a graph in a file by Dijkstra's algorithm, several times. Then for every algorithm a random
instance is solved once, which may compile, and after it others of the same size. Times are by the clock, and in seconds
of processor time, which a busy machine stretches less. The bounds are 3 s for the shell, and for a further instance
50 ms up to 50 steps and 1 ms for every step beyond.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

FEW_STEPS = 50
INSTANCE_BOUND, STEP_BOUND = 0.050, 0.001  # seconds


def bound(num_steps: int) -> float:
    """The seconds that a further instance may take."""
    return INSTANCE_BOUND + STEP_BOUND * max(0, num_steps - FEW_STEPS)


def instances(algorithm: str, size: int, count: int) -> list[dict[str, Any]]:
    """Arguments of the algorithm from the distribution of the official splits, as `narkit.solve` takes them."""
    from narkit.algorithms.instances import Distribution
    from narkit.spec import ALGORITHMS

    entry = ALGORITHMS[algorithm]
    rng = np.random.RandomState(0)
    made = []
    for _ in range(count):
        values = entry.sampler(rng, size, Distribution(np.array([entry.densities.official]), 0))
        made.append(as_given(algorithm, dict(zip(entry.arguments, values, strict=True))))
    return made


def as_given(algorithm: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The textbook's arguments under the names of `narkit.solve`."""
    from narkit.solve.problems import PROBLEMS

    parameters, values = PROBLEMS[algorithm].parameters, list(arguments.values())
    match parameters:
        case ("points",):
            return {"points": np.stack(values, axis=1)}
        case ("activities",) | ("tasks",):
            return {parameters[0]: [(a.item(), b.item()) for a, b in zip(*values, strict=True)]}
        case ("keys", "target"):
            return {"keys": values[1], "target": float(values[0])}
        case ("text", "pattern") | ("first", "second"):
            return {
                name: "".join("abcd"[letter] for letter in value)
                for name, value in zip(parameters, values, strict=True)
            }
        case ("graph", "source"):
            return {"graph": values[0], "source": int(values[1])}
        case _:
            return dict(zip(parameters, values, strict=True))


def measure(algorithm: str, size: int, count: int) -> dict[str, Any]:
    """Solves the first instance, then the others, and says how long each took."""
    import warnings

    import narkit

    warnings.simplefilter("ignore", narkit.solve.TrainingRangeWarning)  # type: ignore[attr-defined]
    first, *others = instances(algorithm, size, count + 1)
    programs: set[int] = set()  # that are compiled, by how many steps they have room for
    compiling = float("nan")
    rows = []
    for place, given in enumerate([first, *others]):
        start, processor_start = time.perf_counter(), time.process_time()
        answer = narkit.solve(algorithm, **given)
        str(answer)
        elapsed, processor = time.perf_counter() - start, time.process_time() - processor_start
        program = len(bin(max(63, answer.instance.num_steps - 1)))  # instances of another length may compile again
        if program in programs:
            rows.append((elapsed, processor, int(answer.instance.lengths[0])))
        elif place == 0:
            compiling = elapsed
        programs.add(program)
    seconds, processors, steps = (np.array(column) for column in zip(*rows, strict=True))
    allowed = np.array([bound(int(number)) for number in steps])
    worst = int(np.argmax(seconds / allowed))
    return {
        "algorithm": algorithm,
        "first_s": compiling,
        "fastest_ms": 1e3 * float(seconds.min()),
        "median_ms": 1e3 * float(np.median(seconds)),
        "median_processor_ms": 1e3 * float(np.median(processors)),
        "worst_ms": 1e3 * float(seconds[worst]),
        "worst_steps": int(steps[worst]),
        "within_bound": bool(np.median(seconds / allowed) <= 1.0),
    }


def from_shell(size: int, repeats: int) -> dict[str, Any]:
    """A graph of this size, solved by Dijkstra's algorithm in processes of their own; the first fills the cache."""
    (given,) = instances("dijkstra", size, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrix.csv"
        np.savetxt(path, given["graph"], delimiter=",")
        words = ["solve", "dijkstra", "--matrix", str(path), "--source", str(given["source"])]
        times = []
        for _ in range(repeats + 1):
            start, before = time.perf_counter(), os.times()
            subprocess.run([sys.executable, "-m", "narkit", *words], check=True, stdout=subprocess.DEVNULL)
            after = os.times()
            processor = after.children_user - before.children_user + after.children_system - before.children_system
            times.append((time.perf_counter() - start, processor))
    seconds, processors = zip(*times[1:], strict=True)
    return {"fastest_s": min(seconds), "median_s": float(np.median(seconds)), "processor_s": min(processors)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=16, help="nominal size of the instances")
    parser.add_argument("--algorithms", default=None, help="names with commas between; all by default")
    parser.add_argument("--count", type=int, default=10, help="further instances per algorithm")
    parser.add_argument("--repeats", type=int, default=5, help="processes")
    parser.add_argument("--out", type=Path, default=None, help="where to write the figures as JSON")
    options = parser.parse_args()

    from narkit import machine
    from narkit.solve.examples import EXAMPLES

    shell = from_shell(options.size, options.repeats)
    print("shell: " + ", ".join(f"{name.removesuffix('_s')} {seconds:.2f} s" for name, seconds in shell.items()))
    rows = []
    for algorithm in options.algorithms.split(",") if options.algorithms else sorted(EXAMPLES):
        row = measure(algorithm, options.size, options.count)
        rows.append(row)
        print(
            f"{algorithm:30} first {row['first_s']:6.2f} s, then {row['median_ms']:7.1f} ms (processor "
            f"{row['median_processor_ms']:7.1f} ms), worst {row['worst_ms']:7.1f} ms at {row['worst_steps']} steps, "
            f"{'within' if row['within_bound'] else 'BEYOND'} the bound",
            flush=True,
        )
    if options.out is not None:
        versions = machine.versions("narkit", "jax", "jaxlib", "numba")
        said = {"size": options.size, "cpu": machine.cpu_model(), "cores": os.cpu_count(), "versions": versions}
        said["load"] = os.getloadavg()[1]  # of the last five minutes: how many processes wanted those cores
        options.out.write_text(json.dumps(said | {"shell": shell, "algorithms": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
