"""What every processor must keep to, on algorithms that together have every kind of probe, in float64.

Each pair compiles one program, which its checks share; seeds under `vmap` need two for each of a few pairs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import narkit
from narkit.models.network import DeviceBatch
from narkit.models.objective import hint_losses, output_losses
from narkit.models.unrolling import unroll
from narkit.spec import Kind, Location

ALGORITHMS = (
    "floyd_warshall",
    "insertion_sort",
    "strongly_connected_components",
    "lcs_length",
    "bridges",
    "graham_scan",
    "segments_intersect",
    "binary_search",
    "bellman_ford",
)
# These run by default; the others are slow only because they are many.
CHOSEN = {
    ("team", "floyd_warshall"),
    ("team", "insertion_sort"),
    ("team_plus", "floyd_warshall"),
    ("team_plus*", "floyd_warshall"),
    ("pgn*", "binary_search"),
    ("triplet_gmpnn", "strongly_connected_components"),
    ("triplet_mpnn", "lcs_length"),
    ("triplet_pgn", "insertion_sort"),
    ("triplet_gpgn", "floyd_warshall"),
    ("mpnn", "lcs_length"),
    ("gmpnn", "binary_search"),
    ("pgn", "bridges"),
    ("gpgn", "bellman_ford"),
    ("memnet", "graham_scan"),
    ("deepsets", "segments_intersect"),
}
VMAPPED = [
    ("team", "insertion_sort"),
    pytest.param(("triplet_gmpnn", "bellman_ford"), marks=pytest.mark.slow),
    pytest.param(("pgn", "floyd_warshall"), marks=pytest.mark.slow),
    pytest.param(("team_plus*", "floyd_warshall"), marks=pytest.mark.slow),
]
SIZE, HIDDEN, PADDING = 5, 4, 2
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


@dataclass
class Subject:
    """A network, a batch, and the program that runs one on the other."""

    pair: tuple[str, str]
    reasoner: narkit.Reasoner
    batch: DeviceBatch
    run: Callable
    traces: list[int]
    result: tuple  # loss, (output logits, hint logits), gradient

    @property
    def spec(self):
        return narkit.ALGORITHMS[self.batch.algorithm].transformed_spec


# Every option of the interfaces but `growing_hints`, whose gradient is not that of its values and is not meant to be
# (`test_growing_hints.py` has it); behind the name of a processor the mark stands for them.
INTERFACES = {"edge_pointers": "lossless", "node_pointers": "both", "keep_pointers": True, "comparisons": True}
MARK = "*"


def pairs():
    for processor in (*narkit.PROCESSORS, *(f"{name}{MARK}" for name in ("team_plus", "triplet_gmpnn", "pgn"))):
        for algorithm in ALGORITHMS:
            marks = [] if (processor, algorithm) in CHOSEN else [pytest.mark.slow]
            yield pytest.param((processor, algorithm), id=f"{processor}-{algorithm}", marks=marks)


@pytest.fixture(scope="module", params=pairs())
def subject(request, release_programs) -> Iterator[Subject]:
    yield make_subject(request.param)
    release_programs()


def make_subject(pair: tuple[str, str]) -> Subject:
    processor, algorithm = pair
    with jax.enable_x64(True):
        reasoner = make_reasoner(algorithm, processor, seed=0)
        batch = pad_in_time(make_batch(algorithm), PADDING)
        traces = []

        @eqx.filter_jit
        def run(reasoner, batch):
            traces.append(1)
            return evaluate(reasoner, batch)

        result = run(reasoner, batch)
    return Subject(pair, reasoner, batch, run, traces, result)


def evaluate(reasoner, batch, num_steps=None):
    """The loss, the logits, and the loss's gradient."""

    def objective(reasoner):
        outputs, hints = unroll(reasoner, batch, training=True, num_steps=num_steps)
        losses = output_losses(batch, outputs) | hint_losses(batch, hints)
        return sum(losses.values(), jnp.zeros(())), (outputs, hints)

    (loss, logits), gradient = eqx.filter_value_and_grad(objective, has_aux=True)(reasoner)
    return loss, logits, gradient


def make_reasoner(algorithm, processor, seed):
    """A network whose parameters, biases too, are random."""
    options = INTERFACES if processor.endswith(MARK) else {}
    reasoner = narkit.Reasoner(algorithm, processor.removesuffix(MARK), HIDDEN, **options, key=jax.random.key(seed))
    rng = np.random.default_rng(seed)
    return on_device(jax.tree.map(lambda leaf: np.asarray(leaf) + 0.2 * rng.normal(size=leaf.shape), reasoner))


def on_device(tree):
    """What NumPy made, as arrays of JAX. JAX would compile a program for each operation and shape."""
    return jax.tree.map(jnp.asarray, tree)


def as_numpy(tree):
    return jax.tree.map(np.asarray, tree)


def make_batch(algorithm) -> DeviceBatch:
    """Three samples, of different lengths where the algorithm has them; the longest is the last."""
    batch = narkit.sample(algorithm, size=SIZE, batch_size=9, seed=1)
    order = np.argsort(batch.lengths, kind="stable")
    chosen = batch[order[[0, 4, 8]]]
    return DeviceBatch.of(chosen)


def pad_in_time(batch: DeviceBatch, rows: int) -> DeviceBatch:
    hints = {
        name: np.concatenate([values, np.zeros((rows, *values.shape[1:]), values.dtype)])
        for name, values in batch.hints.items()
    }
    return eqx.tree_at(lambda b: b.hints, batch, on_device(hints))


def relabel(batch: DeviceBatch, order: np.ndarray) -> DeviceBatch:
    """The same instances with node `order[i]` called i."""
    spec = narkit.ALGORITHMS[batch.algorithm].transformed_spec
    new_name = np.argsort(order)

    def probe(name, values):
        moved = move(spec[name], values, order, leading=values.ndim - len(spec[name].shape(len(order))))
        if spec[name].kind in (Kind.POINTER, Kind.PERMUTATION_POINTER):
            moved = new_name[moved].astype(values.dtype)
        return moved

    parts = [
        {name: probe(name, values) for name, values in part.items()}
        for part in (batch.inputs, batch.hints, batch.outputs)
    ]
    # Padding is all zeros, which as a pointer would mean another node now.
    in_time = np.arange(batch.num_steps + 1)[:, None] < np.asarray(batch.lengths)
    parts[1] = {
        name: values * in_time.reshape(*in_time.shape, *(1,) * (values.ndim - 2)).astype(values.dtype)
        for name, values in parts[1].items()
    }
    inputs, hints, outputs = on_device(parts)
    return DeviceBatch(batch.algorithm, inputs, hints, outputs, batch.lengths)


def move(probe, values, order, leading):
    """Reorders the axes of a probe's values, or of its logits, that go over nodes."""
    axes = {Location.NODE: 1, Location.EDGE: 2, Location.GRAPH: 0}[probe.location]
    for axis in range(leading, leading + axes):
        values = np.take(np.asarray(values), order, axis=axis)
    return values


def move_logits(spec, logits, order, leading):
    moved = {}
    for name, values in logits.items():
        moved[name] = move(spec[name], values, order, leading)
        if spec[name].kind in (Kind.POINTER, Kind.PERMUTATION_POINTER):
            moved[name] = np.take(moved[name], order, axis=-1)
    return moved


def assert_close(ours, expected, tolerance=TOLERANCE):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **tolerance), ours, expected)


def predictions_of(sample, logits, lengths):
    """The outputs of one sample, and its hints at the steps that it has."""
    outputs, hints = as_numpy(logits)
    steps = max(1, int(lengths[sample]) - 1)
    hints = {name: values[:steps, sample] for name, values in hints.items()}
    return {name: values[sample] for name, values in outputs.items()}, hints


def test_gradients_are_finite_and_right(subject):
    """The derivative along a random direction equals a difference quotient."""
    loss, _, gradient = subject.result
    assert np.isfinite(loss)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    rng = np.random.default_rng(5)
    direction = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), subject.reasoner)
    slope = sum(np.vdot(g, d) for g, d in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True))

    def loss_along(by):
        moved = jax.tree.map(lambda p, d: np.asarray(p) + by * d, subject.reasoner, direction)
        return float(subject.run(on_device(moved), subject.batch)[0])

    quotient = np.nan
    for step in (1e-6, 1e-7, 1e-8):  # where a maximum or a ReLU bends within a step, a shorter one tells
        quotient = (loss_along(step) - loss_along(-step)) / (2 * step)
        if np.isclose(quotient, slope, rtol=1e-5, atol=1e-6):
            break
    np.testing.assert_allclose(quotient, slope, rtol=1e-5, atol=1e-6)


def test_relabelling_permutes_the_predictions(subject):
    order = np.random.default_rng(7).permutation(subject.batch.num_nodes)
    loss, (outputs, hints), gradient = subject.run(subject.reasoner, relabel(subject.batch, order))
    expected_loss, (expected_outputs, expected_hints), expected_gradient = subject.result
    assert_close(loss, expected_loss)
    assert_close(outputs, move_logits(subject.spec, expected_outputs, order, leading=1))
    assert_close(hints, move_logits(subject.spec, expected_hints, order, leading=2))
    assert_close(gradient, expected_gradient, {"rtol": 1e-7, "atol": 1e-9})


def test_padding_in_time_is_not_read(subject):
    """Hints beyond a sample's length may hold anything."""
    beyond = np.arange(subject.batch.num_steps + 1)[:, None] >= np.asarray(subject.batch.lengths)
    hints = {
        name: np.where(beyond.reshape(*beyond.shape, *(1,) * (values.ndim - 2)), values[:1, ::-1], values)
        for name, values in as_numpy(subject.batch.hints).items()
    }
    filled = eqx.tree_at(lambda batch: batch.hints, subject.batch, on_device(hints))
    assert_close(subject.run(subject.reasoner, filled), subject.result)


def test_samples_do_not_read_each_other(subject):
    """Another sample in place of the longest one changes nothing for the others, though the loop ends earlier."""

    def replace(values, axis):
        return jnp.asarray(np.take(np.asarray(values), [0, 1, 0], axis=axis))

    batch = subject.batch
    other = DeviceBatch(
        batch.algorithm,
        {name: replace(values, 0) for name, values in batch.inputs.items()},
        {name: replace(values, 1) for name, values in batch.hints.items()},
        {name: replace(values, 0) for name, values in batch.outputs.items()},
        replace(batch.lengths, 0),
    )
    _, logits, _ = subject.run(subject.reasoner, other)
    for sample in (0, 1):
        expected = predictions_of(sample, subject.result[1], batch.lengths)
        assert_close(predictions_of(sample, logits, batch.lengths), expected)


def test_no_second_compilation(subject):
    subject.run(make_reasoner(subject.pair[1], subject.pair[0], seed=3), subject.batch)
    assert len(subject.traces) == 1


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *trees)


@pytest.mark.parametrize("pair", VMAPPED, ids="-".join)
def test_a_padded_seed_in_a_vmap_equals_the_seed_alone(pair):
    """Two seeds with their own data, padded in time, against each of them alone and without padding."""
    processor, algorithm = pair
    reasoners = [make_reasoner(algorithm, processor, seed) for seed in (0, 1)]
    first = make_batch(algorithm)
    batches = [first, relabel(first, np.random.default_rng(8).permutation(first.num_nodes))]
    alone = eqx.filter_jit(evaluate)
    num_steps = jnp.asarray(np.max(np.asarray(first.lengths)) - 1)
    stacked = stack(reasoners)
    padded = stack([pad_in_time(batch, PADDING) for batch in batches])
    together = eqx.filter_jit(eqx.filter_vmap(evaluate, in_axes=(0, 0, None)))(stacked, padded, num_steps)
    for seed in (0, 1):
        loss, (outputs, hints), gradient = jax.tree.map(lambda leaf, seed=seed: leaf[seed], as_numpy(together))
        hints = {name: values[: first.num_steps] for name, values in hints.items()}
        assert_close((loss, (outputs, hints), gradient), alone(reasoners[seed], batches[seed]))
