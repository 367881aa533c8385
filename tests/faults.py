"""Faults that the tests must find: each is put into a copy of the tree, alone, and the tests that should fail are run.

A fault replaces one text of one file of `src/narkit`, which occurs there once, and names the tests of the default suite
that must fail; no others are run. It survives if they pass.

    python tests/faults.py              # all of them: about ten minutes on one core
    python tests/faults.py gate digest  # those whose names contain one of these words

Where the source changes, the text of a fault has to follow: a default test says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".test_cache"  # with what the unchanged tree has compiled
COPY = (
    CACHE / "faults" / "tree"
)  # always at the same place, since Numba keeps what it compiles by the place of its source
COPIED = ("src", "tests", "examples", "benchmarks", "pyproject.toml")
LINKED = ("docs", "results", "README.md", "CONTRIBUTING.md")
TESTS_FAILED = 1  # what pytest returns then; other numbers are mistakes of this list


@dataclass(frozen=True)
class Fault:
    """One mistake: what is wrong in words, the file below `src/narkit`, the text before and after, and the tests."""

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


def _faults(file: str, tests: str | tuple[str, ...], *mistakes: tuple[str, str, str]) -> list[Fault]:
    tests = (tests,) if isinstance(tests, str) else tests
    return [Fault(name, file, right, wrong, tests) for name, right, wrong in mistakes]


ATTENTION = "tests/models/test_triplet_edge_attention.py::test_values"
ONE_FILE = "tests/models/test_one_file.py::test_values_and_gradients_are_equal"
STEP = "tests/fused/test_fused.py::test_step_equals_plain_formulas"
AVERAGES = "tests/training/test_averages.py"
SCORING = "tests/models/test_scoring.py"

FAULTS: list[Fault] = [
    # Formulas.
    *_faults(
        "models/triplet_edge_attention.py",
        ATTENTION,
        (
            "attention: a sign",
            "self.node_k(read)[None] + self.edge_ik(self.towards_third(edges)),",
            "self.node_k(read)[None] - self.edge_ik(self.towards_third(edges)),",
        ),
        (
            "attention: the softmax over another axis",
            "return jax.nn.softmax(logits, axis=-1)\n        return _masked",
            "return jax.nn.softmax(logits, axis=-2)\n        return _masked",
        ),
    ),
    *_faults(
        "models/triplets.py",
        "tests/models/test_triplets.py",
        ("attention: the slope has no gradient", "jnp.where(t > 0, 1.0, slope)", "jnp.where(t > 0, 1.0, 0.0)"),
    ),
    *_faults(
        "models/processors/message_passing.py",
        ONE_FILE,
        ("gate: the old state is added whole", "(1.0 - openness) * hidden", "hidden"),
        ("messages: the graph is not read", " + edge_messages + self.graph(scalars.graph)", " + edge_messages"),
    ),
    *_faults(
        "models/processors/message_passing.py",
        "tests/interop/test_clrs.py::test_network_equals_dm_clrs[pgn graham_scan]",
        ("messages: who may not send is heard", "messages, NO_MESSAGE)", "messages, 0.0)"),
    ),
    *_faults(
        "models/predictions.py",
        SCORING,
        (
            "permutations: the first node is not the one that is marked",
            "jnp.where(nodes == first, nodes,",
            "jnp.where(nodes != first, nodes,",
        ),
        (
            "permutations: columns are not normalised",
            "jax.nn.log_softmax(jax.nn.log_softmax(x, axis=-1), axis=-2)",
            "jax.nn.log_softmax(jax.nn.log_softmax(x, axis=-1), axis=-1)",
        ),
    ),
    *_faults(
        "models/objective.py",
        ONE_FILE,
        (
            "loss: one hint too many of samples that have ended",
            "batch.lengths > jnp.arange(1, len(truth) + 1)",
            "batch.lengths >= jnp.arange(1, len(truth) + 1)",
        ),
    ),
    *_faults(
        "models/scoring.py",
        SCORING,
        (
            "score: what is missed counts for nothing",
            "np.sum(~predicted & (truth == 1))",
            "np.sum(~predicted & (truth > 1))",
        ),
        ("score: values that are masked out count", "counts = (truth != -1).all(-1)", "counts = (truth != 2).all(-1)"),
    ),
    *_faults(
        "loops/time_loop.py",
        "tests/loops/test_time_loop.py::test_equals_scan",
        (
            "loop: the last step of a sample gets no gradient",
            "lambda d: choose(last == t, d, 0.0), d_zs)",
            "lambda d: choose(last > t, d, 0.0), d_zs)",
        ),
    ),
    # Kernels, whose sources the tests compile for the CPU.
    *_faults(
        "fused/update.cu",
        f"{STEP}[nodes: 13, scalars: 3, no attention]",
        ("kernel of the update: the gate is open the other way", "c[0] * (after.x - h[0])", "c[0] * (h[0] - after.x)"),
        (
            "kernel of the update: no gradient through the spread",
            "- mean[half] - n[0] * along[half])",
            "- mean[half])",
        ),
        (
            "kernel of the update: the old state's gradient",
            "make_float2(g[0] * (1.0f - c[0]),",
            "make_float2(g[0] * c[0],",
        ),
    ),
    *_faults(
        "fused/messages.cu",
        f"{STEP}[nodes: 13, scalars: 3, no attention]",
        ("kernel of messages: the sender is left out", "    v[0] += s.x;\n", ""),
    ),
    *_faults(
        "fused/attention_backward.cu",
        f"{STEP}[nodes: 7, scalars: 3, attention]",
        (
            "kernel of the attention: where the slope changes",
            "greater_half(add_half(ac[tile][a][w], bc[w]), negative_half(w % 2 ? high : low))",
            "greater_half(add_half(ac[tile][a][w], bc[w]), w % 2 ? high : low)",
        ),
    ),
    *_faults(
        "fused/triplet_messages.cu",
        "tests/fused/test_fused_triplets.py::test_maxima_equal_plain_formula[7-0]",
        ("kernel of triplets: a term of a node", "nodes[j * TERMS + FEATURES + f] + own)", "own)"),
        ("kernel of triplets: the lowest sum", "if (sum > best[b]) best[b]", "if (sum < -best[b]) best[b]"),
    ),
    *_faults(
        "fused/readout.cu",
        "tests/fused/test_fused_readout.py::test_equals_plain_formula[7]",
        (
            "kernel of hints: no mean in the gradient of a softmax",
            "softmax(logit) * (result - expected)",
            "softmax(logit) * result",
        ),
    ),
    *_faults(
        "fused/pointer.cu",
        "tests/fused/test_fused_pointers.py",
        (
            "kernel of pointers: a sum for a maximum",
            "fmaf(weights.score[q], fmaxf(a[q], other[q]), sums[g])",
            "fmaf(weights.score[q], a[q] + other[q], sums[g])",
        ),
    ),
    *_faults(
        "fused/over_time.cu",
        "tests/fused/test_over_time.py::test_parts_are_added_up",
        (
            "kernel over time: the last part is left out",
            "for (int part = 0; part < parts; ++part) sum",
            "for (int part = 0; part < parts - 1; ++part) sum",
        ),
    ),
    # Selection, training and records.
    *_faults(
        "training/selection.py",
        "tests/training/test_selection.py",
        ("rule: of equal losses the first", "loss <= best_loss", "loss < best_loss"),
        ("rule: the last of equal scores", "return (score > best_score) |", "return (score >= best_score) |"),
    ),
    *_faults(
        "training/programs.py",
        (f"{AVERAGES}::test_the_average_is_what_its_formula_says", f"{AVERAGES}::test_too_many_in_a_row_end_a_seed"),
        ("average: the decay is the share", "jnp.maximum(1 - self.config.average,", "jnp.maximum(self.config.average,"),
        (
            "skipped steps: the count is not set back",
            "in_a_row = jnp.where(finite, 0, in_a_row + 1)",
            "in_a_row = jnp.where(finite, in_a_row, in_a_row + 1)",
        ),
    ),
    *_faults(
        "training/programs.py",
        "tests/training/test_training.py::test_gradients_are_clipped_by_their_norm",
        (
            "training: gradients are not clipped",
            "optax.clip_by_global_norm(config.gradient_clip) if config.gradient_clip else",
            "optax.identity() if config.gradient_clip else",
        ),
    ),
    *_faults(
        "training/record.py",
        "tests/training/test_formats.py::test_a_record_that_was_edited_is_refused",
        (
            "record: the digest is not compared",
            "if found > 2 and values.get(DIGEST)",
            "if found > 3 and values.get(DIGEST)",
        ),
    ),
    *_faults(
        "sweeps/checks.py",
        "tests/sweeps/test_checks.py::test_damages_are_found[hash]",
        ("record: the weights' digest is not compared", ".hexdigest() != weights.sha256:", '.hexdigest() == "":'),
    ),
    *_faults(
        "report/statistics.py",
        "tests/report/test_statistics.py::test_welch_is_scipys",
        ("statistics: the spread of a population", "np.std(a, ddof=1), len(a)", "np.std(a, ddof=0), len(a)"),
    ),
    # Data.
    *_faults(
        "algorithms/graph_paths.py",
        "tests/data/test_golden.py::test_trajectories_equal_golden[dijkstra]",
        (
            "dijkstra: the length of an edge for that of the path",
            "d[v] = to_u + weights[v]\n                in_queue[v] = 1",
            "d[v] = weights[v]\n                in_queue[v] = 1",
        ),
    ),
    *_faults(
        "algorithms/randomness.py",
        "tests/algorithms/test_randomness.py::test_known_answers_of_philox",
        ("random numbers: a round too few", "_ROUNDS = 10", "_ROUNDS = 9"),
    ),
    *_faults(
        "algorithms/positions.py",
        "tests/data/test_transforms.py::test_positions_are_sorted_within_each_string",
        ("positions: those of the second string are not sorted", "    sort_uniform(values[split:])\n", ""),
    ),
    *_faults(
        "data/splits.py",
        "tests/data/test_splits.py::test_split_equals_published[bfs-val]",
        ("splits: the seed of another", "size=16, seed=2, multiplied=True", "size=16, seed=1, multiplied=True"),
    ),
]


def place_of(fault: Fault, root: Path = ROOT) -> Path:
    return root / "src" / "narkit" / fault.file


def make_copy() -> None:
    """The tree without what the faults do not concern, in the cache of the tests."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, COPY / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, COPY / name)
    for name in LINKED:
        (COPY / name).symlink_to(ROOT / name)
    (COPY / CACHE.name).symlink_to(CACHE)


def run_tests(tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Runs tests in the copy, one process for all, until the first fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # a source that is put back has the time of its bytecode
    return subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True, timeout=1800)


def is_caught(fault: Fault) -> bool:
    """Puts the fault into the copy, runs its tests and takes it out again. Raises if its tests cannot be run."""
    place, original = place_of(fault, COPY), place_of(fault)
    place.write_text(original.read_text().replace(fault.right, fault.wrong))
    try:
        done = run_tests(fault.tests)
    finally:
        shutil.copy2(original, place)
    if done.returncode not in (0, TESTS_FAILED):
        raise RuntimeError(f"{fault.name}: its tests could not be run:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return done.returncode == TESTS_FAILED


def main(words: list[str]) -> int:
    chosen = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    make_copy()
    survivors = []
    for fault in chosen:
        caught = is_caught(fault)
        print(f"{'caught  ' if caught else 'SURVIVED'}  {fault.name} ({fault.file})", flush=True)
        survivors += [] if caught else [fault.name]
    print(f"{len(chosen)} faults, {len(chosen) - len(survivors)} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
