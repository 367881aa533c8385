"""The reasoner's options, networks for several algorithms, processors from elsewhere, and bad input."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import narkit
from narkit.errors import BatchError
from narkit.models.layers import Linear
from narkit.models.network import DeviceBatch
from narkit.models.objective import loss
from narkit.models.processors.base import Adjacency, Hidden
from narkit.models.processors.team import TEAM
from narkit.models.unrolling import Unrolling, unroll

KEY = jax.random.key(0)
HIDDEN = 4


@pytest.fixture(scope="module")
def batch() -> narkit.Batch:
    return narkit.sample("bfs", size=5, batch_size=8, seed=0)


@pytest.fixture(scope="module")
def reasoner() -> narkit.Reasoner:
    """Its hint decoders are scaled up, so that predicted hints differ from true ones and from each other."""
    made = narkit.Reasoner("bfs", "mpnn", HIDDEN, key=KEY)
    louder = jax.tree.map(lambda values: 5 * values, made.hint_decoders)
    return eqx.tree_at(lambda r: r.hint_decoders, made, louder)


@eqx.filter_jit
def run(reasoner, batch, options, key=None):
    return unroll(reasoner, batch, options=options, training=True, key=key)


def test_a_network_computes_the_same_inside_a_program_and_outside():
    """JAX gives dictionaries back sorted: the order of probes must not depend on whether it had them."""
    reasoner = narkit.Reasoner("minimum", "deepsets", HIDDEN, key=KEY)
    batch = DeviceBatch.of(narkit.sample("minimum", size=4, batch_size=2, seed=0))
    np.testing.assert_allclose(loss(reasoner, batch), jax.jit(lambda r: loss(r, batch))(reasoner), rtol=1e-5)


def test_hint_modes(batch):
    """With one key the modes share encoders of inputs, processor and output decoders."""
    predicted = {
        mode: narkit.predict(narkit.Reasoner("bfs", "mpnn", HIDDEN, mode, key=KEY), batch)
        for mode in ("encoded", "decoded", "none")
    }
    steps = batch.num_steps - 1
    for mode in ("encoded", "decoded"):
        shapes = {name: logits.shape for name, logits in predicted[mode].hint_logits.items()}
        assert shapes == {"reach_h": (steps, 8, 5), "pi_h": (steps, 8, 5, 5)}
    assert predicted["none"].hint_logits == {}
    # Equal outputs show that the number of steps does not depend on hints being decoded.
    np.testing.assert_array_equal(predicted["none"].output_logits["pi"], predicted["decoded"].output_logits["pi"])
    assert not np.allclose(predicted["encoded"].output_logits["pi"], predicted["decoded"].output_logits["pi"])


def test_hints_need_not_be_kept(reasoner, batch):
    kept, not_kept = narkit.predict(reasoner, batch), narkit.predict(reasoner, batch, keep_hints=False)
    assert not_kept.hint_logits == {}
    np.testing.assert_array_equal(kept.output_logits["pi"], not_kept.output_logits["pi"])


def test_prediction_inside_jit(reasoner, batch):
    alone = narkit.predict(reasoner, batch).output_logits["pi"]
    inside = jax.jit(lambda network: narkit.predict(network, batch).output_logits["pi"])(reasoner)
    np.testing.assert_allclose(inside, alone, rtol=1e-4, atol=1e-5)


def test_teacher_forcing(reasoner, batch):
    """At the second step a forced sample has read the true hints, another its own predictions."""
    on_device = DeviceBatch.of(batch)
    free, forced = (run(reasoner, on_device, Unrolling(teacher_forcing=p))[1]["pi_h"][1] for p in (0.0, 1.0))
    assert not np.isclose(free, forced).all(axis=(1, 2)).any()
    seen = set()
    for seed in range(3):
        mixed = run(reasoner, on_device, Unrolling(teacher_forcing=0.5), key=jax.random.key(seed))[1]["pi_h"][1]
        is_free, is_forced = (np.isclose(mixed, other, atol=1e-6).all(axis=(1, 2)) for other in (free, forced))
        assert (is_free ^ is_forced).all()
        seen.add(tuple(np.asarray(is_forced).tolist()))
    assert len(seen) > 1 and {value for row in seen for value in row} == {False, True}


def test_forced_networks_do_not_read_their_predictions(reasoner, batch):
    on_device, options = DeviceBatch.of(batch), Unrolling(teacher_forcing=1.0)
    other = eqx.tree_at(lambda r: r.hint_decoders, reasoner, jax.tree.map(jnp.negative, reasoner.hint_decoders))
    np.testing.assert_array_equal(run(reasoner, on_device, options)[0]["pi"], run(other, on_device, options)[0]["pi"])


def test_teacher_forcing_needs_a_key_and_a_probability(reasoner, batch):
    with pytest.raises(ValueError, match="expected a key to draw the teacher-forced samples with"):
        unroll(reasoner, DeviceBatch.of(batch), options=Unrolling(teacher_forcing=0.5), training=True)
    with pytest.raises(ValueError, match=r"teacher-forcing probability in \[0, 1\], got 1.5"):
        Unrolling(teacher_forcing=1.5)


def test_reprediction(reasoner, batch):
    on_device = DeviceBatch.of(batch)
    soft, hard, on_eval = (
        narkit.predict(reasoner, batch, reprediction=mode).hint_logits["pi_h"]
        for mode in ("soft", "hard", "hard_on_eval")
    )
    np.testing.assert_array_equal(hard, on_eval)
    np.testing.assert_allclose(soft[0], hard[0], rtol=1e-5, atol=1e-5)
    assert not np.allclose(soft[1], hard[1])
    in_training = run(reasoner, on_device, Unrolling(reprediction="hard_on_eval"))[1]["pi_h"]
    np.testing.assert_allclose(in_training, soft, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="no reprediction is named 'softer'; did you mean 'soft'"):
        narkit.predict(reasoner, batch, reprediction="softer")


def test_raw_batches_are_transformed(reasoner):
    raw = narkit.load_split("bfs", "val")[:8]
    predicted = narkit.predict(reasoner, raw)
    assert set(narkit.evaluate("bfs", predicted, raw)) == {"pi", "score"}
    kept = narkit.transform(raw, random_positions=False)
    np.testing.assert_array_equal(predicted.outputs["pi"], narkit.predict(reasoner, kept).outputs["pi"])


def test_several_algorithms_share_one_processor(batch):
    both = narkit.Reasoner(["bfs", "insertion_sort"], "mpnn", HIDDEN, key=KEY)
    single = narkit.Reasoner("bfs", "mpnn", HIDDEN, key=KEY)
    of_bfs = lambda r: (r.processor, r.encoders["bfs"], r.output_decoders["bfs"], r.hint_decoders["bfs"])  # noqa: E731
    single = eqx.tree_at(of_bfs, single, of_bfs(both))
    on_device = DeviceBatch.of(batch)
    expected, gradient = eqx.filter_jit(jax.value_and_grad(loss))(both, on_device)
    np.testing.assert_allclose(eqx.filter_jit(loss)(single, on_device), expected, rtol=1e-6)
    touched = lambda tree: any(np.any(leaf != 0) for leaf in jax.tree.leaves(tree))  # noqa: E731
    assert all(touched(part) for part in of_bfs(gradient))
    assert not touched((gradient.encoders["insertion_sort"], gradient.output_decoders["insertion_sort"]))
    sorts = narkit.sample("insertion_sort", size=5, batch_size=2, seed=0)
    assert set(narkit.predict(both, sorts).outputs) == {"pred"}


class Averaging(narkit.DenseProcessor):
    """A processor as a user would write it."""

    latent_size = 0
    linear: Linear

    def __init__(self, hidden_size: int, *, key):
        self.linear = Linear(2 * hidden_size, hidden_size, key=key)

    def process(self, nodes, edges, graph, adjacency: Adjacency, hidden: Hidden) -> Hidden:
        messages = jnp.where(adjacency[..., None], edges + nodes[:, None] + graph, 0.0).mean(0)
        return jnp.tanh(self.linear(jnp.concatenate([messages, hidden], axis=-1)))


def test_processors_from_elsewhere(batch, monkeypatch):
    given = narkit.Reasoner("bfs", Averaging, HIDDEN, key=KEY)
    monkeypatch.setitem(narkit.PROCESSORS, "averaging", Averaging)
    named = narkit.Reasoner("bfs", "averaging", HIDDEN, key=KEY)
    gradient = eqx.filter_jit(jax.grad(loss))(given, DeviceBatch.of(batch))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert np.any(gradient.processor.linear.weight != 0)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.leaves(given), jax.tree.leaves(named))


def test_configured_classes():
    configured = narkit.Reasoner("bfs", functools.partial(TEAM, num_heads=4), 8, key=KEY)
    assert isinstance(configured.processor, TEAM)
    assert configured.processor.attention.attention.shape == (4, 2)
    with pytest.raises(
        ValueError, match="expected a number of heads that divides the hidden size, got 3 heads for size 8"
    ):
        narkit.Reasoner("bfs", functools.partial(TEAM, num_heads=3), 8, key=KEY)
    with pytest.raises(TypeError, match="unexpected keyword argument 'heads'"):
        narkit.Reasoner("bfs", functools.partial(TEAM, heads=3), 8, key=KEY)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"a class of narkit\.Processor .* makes a dict"):
        narkit.Reasoner("bfs", lambda hidden_size, key: {}, 8, key=KEY)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("processor", narkit.PROCESSORS)
def test_parameters_have_definite_types(processor):
    """A weakly typed one would become strongly typed at the first update, and the program be compiled again."""
    made = eqx.filter_eval_shape(lambda key: narkit.Reasoner("bfs", processor, HIDDEN, key=key), KEY)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(made))


def test_unknown_names():
    with pytest.raises(ValueError, match="no processor is named 'tema'; did you mean 'team'"):
        narkit.Reasoner("bfs", "tema", HIDDEN, key=KEY)
    with pytest.raises(ValueError, match="no hint mode is named 'encode'; did you mean 'encoded'"):
        narkit.Reasoner("bfs", "mpnn", HIDDEN, "encode", key=KEY)
    with pytest.raises(ValueError, match="no algorithm is named 'bsf'; did you mean 'bfs'"):
        narkit.Reasoner("bsf", "mpnn", HIDDEN, key=KEY)
    for names in ([], ["bfs", "bfs"]):
        with pytest.raises(ValueError, match="expected one or more different algorithms"):
            narkit.Reasoner(names, "mpnn", HIDDEN, key=KEY)


def test_batches_of_other_algorithms(reasoner, batch):
    other = narkit.sample("insertion_sort", size=5, batch_size=2, seed=0)
    with pytest.raises(BatchError, match="expected a batch of bfs, got one of insertion_sort"):
        narkit.predict(reasoner, other)
    with pytest.raises(BatchError, match="expected a batch of bfs, got one of insertion_sort"):
        loss(reasoner, DeviceBatch.of(other))
    with pytest.raises(BatchError, match="expected a batch of insertion_sort, got one of bfs"):
        narkit.evaluate("insertion_sort", {}, batch)
    with pytest.raises(BatchError, match=r"expected predictions of \['pi'\], got \['pie'\]"):
        narkit.evaluate("bfs", {"pie": batch.outputs["pi"]}, batch)


def test_batches_with_mistakes(batch):
    parts = {"inputs": batch.inputs, "hints": batch.hints, "outputs": batch.outputs, "lengths": batch.lengths}
    missing = {name: values for name, values in batch.inputs.items() if name != "s"}
    with pytest.raises(BatchError, match=r"a batch of bfs needs the probes .*; got inputs \['pos', 'A', 'adj'\]"):
        narkit.Batch(algorithm="bfs", **parts | {"inputs": missing})
    outside = {"pi": np.full_like(batch.outputs["pi"], 5)}
    with pytest.raises(
        BatchError, match=r"output 'pi' of a bfs batch: expected pointers to nodes 0\.\.4, got values in 5\.\.5"
    ):
        narkit.Batch(algorithm="bfs", **parts | {"outputs": outside})


def test_memnet_learns(batch):
    """The reference's cannot: none of its parameters moves."""
    before = narkit.Reasoner("bfs", "memnet", HIDDEN, key=KEY)
    optimiser = optax.adam(1e-2)
    on_device = DeviceBatch.of(batch)

    traces = []

    @eqx.filter_jit
    def step(reasoner, state):
        traces.append(1)
        value, gradient = jax.value_and_grad(loss)(reasoner, on_device)
        updates, state = optimiser.update(gradient, state)
        return eqx.apply_updates(reasoner, updates), state, value

    parameters: Any = before
    reasoner, state, losses = before, optimiser.init(parameters), []
    for _ in range(20):
        reasoner, state, value = step(reasoner, state)
        losses.append(float(value))
    assert losses[-1] < 0.9 * losses[0]
    assert len(traces) == 1
    moved = jax.tree.map(lambda new, old: bool(np.any(new != old)), reasoner, before)
    still = {jax.tree_util.keystr(path) for path, leaf in jax.tree_util.tree_leaves_with_path(moved) if not leaf}
    # A softmax cancels what is the same for all that it weighs.
    assert all(path.endswith((".score.bias", ".memory.bias")) for path in still), still
