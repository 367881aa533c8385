"""The training loop: seeds in one program are the seeds alone, a diverged one stops, and hints are scored right."""

import json
from collections.abc import Callable
from dataclasses import asdict

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import narkit
from narkit.algorithms import ALGORITHMS
from narkit.data.execution import sample_seeds
from narkit.data.splits import benchmark_set
from narkit.data.stream import TrainingStream
from narkit.training.config import BENCHMARK, Validation
from narkit.training.evaluation import EvaluationSet, validation_batch
from narkit.training.feed import Feed, MeasuredLengths
from narkit.training.packing import pack, with_num_steps
from narkit.training.programs import Programs
from narkit.training.trainer import StoppedTraining, Trainer

Tiny = Callable[..., narkit.TrainConfig]


def trained(config: narkit.TrainConfig) -> Trainer:
    trainer = Trainer(config, threads=2)
    trainer.prepare()
    trainer.run()
    return trainer


@pytest.mark.parametrize("name", ["bfs", "insertion_sort", "naive_string_matcher", "segments_intersect"])
def test_seeds_together_are_the_seeds_alone_with_padded_hints(name: str) -> None:
    seeds, capacity = (0, 2**63 - 1, 2**32), 200
    samples = sample_seeds(ALGORITHMS[name], 6, 3, np.array(seeds), 5)
    packed = pack(samples, num_seeds=len(seeds), num_rows=capacity, step=2**31 - 1)
    assert packed.step == 2**31 - 1 and packed.num_steps == samples.lengths.max() - 1
    together = packed.unpack()
    for row, seed in enumerate(seeds):
        alone = narkit.sample(name, size=6, batch_size=3, seed=seed, step=5)
        assert np.array_equal(together.lengths[row], alone.lengths)
        for ours, theirs in ((together.inputs, alone.inputs), (together.outputs, alone.outputs)):
            assert list(ours) == list(theirs)
            for probe, values in theirs.items():
                assert ours[probe].dtype == values.dtype
                assert np.array_equal(ours[probe][row], values)
        assert list(together.hints) == list(alone.hints)
        for probe, values in alone.hints.items():
            ours = together.hints[probe][row]
            assert ours.dtype == values.dtype and len(ours) == capacity
            assert np.array_equal(ours[: len(values)], values)
            assert not np.any(ours[len(values) :])


def test_a_compiled_program_unpacks_what_was_packed() -> None:
    """Numbers of one, two and four bytes, and rows that end inside a word."""
    batch = narkit.sample("insertion_sort", size=5, batch_size=6, seed=0)
    packed = pack(batch, num_seeds=2, num_rows=len(batch.hints["pred_h"]), step=3)
    step, num_steps, unpacked = jax.jit(lambda packed: (packed.step, packed.num_steps, packed.unpack()))(packed)
    assert (step, num_steps) == (3, batch.lengths.max() - 1) and step.dtype == np.int32
    leaves = zip(jax.tree.leaves(unpacked), jax.tree.leaves(packed.unpack()), strict=True)
    assert all(ours.dtype == theirs.dtype and np.array_equal(ours, theirs) for ours, theirs in leaves)
    later = with_num_steps(packed, 2)
    assert later.num_steps == 2 and packed.num_steps == num_steps
    assert np.array_equal(later.unpack().inputs["key"], batch.inputs["key"].reshape(2, 3, 5))


def test_data_of_a_seed_is_that_of_the_seed_alone(tiny: Tiny) -> None:
    together, alone = Feed(tiny(seeds=(4, 7, 2), sizes=(4, 5))), Feed(tiny(seeds=(7,), sizes=(4, 5)))
    stream = TrainingStream("bfs", 7, (4, 5), 4)
    for step in range(4):
        ours, theirs, batch = together.batch(step).samples, alone.batch(step).samples, stream.batch(step)
        assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(ours))
        for name, values in batch.inputs.items():
            assert np.array_equal(ours.inputs[name][1], values)
            assert np.array_equal(theirs.inputs[name][0], values)
        for name, values in batch.hints.items():
            assert np.array_equal(ours.hints[name][1, : len(values)], values)
            assert np.array_equal(theirs.hints[name][0, : len(values)], values)


def test_batches_made_ahead_are_on_the_device(tiny: Tiny) -> None:
    feed = Feed(tiny())
    with feed.ahead(3, look_ahead=2, threads=2) as batches:
        for step in (3, 4, 5):
            ours, batch = next(batches), feed.batch(step)
            assert ours.num_steps == batch.num_steps
            assert isinstance(ours.packed.words, jax.Array) and np.array_equal(ours.packed.words, batch.packed.words)


def test_all_batches_of_a_run_have_the_same_room(tiny: Tiny) -> None:
    config = tiny(algorithms=("bfs", "bellman_ford"), sizes=(8, 12), seeds=(0, 1), steps=400)
    feed = Feed(config)
    feed.measure(config.steps, threads=2)
    batches = [feed.batch(step) for step in range(config.steps)]
    assert len({batch.packed.layout for batch in batches}) == 4
    for layout in {batch.packed.layout for batch in batches}:  # and not more than one of them needs
        assert layout.num_rows == max(m.num_steps for m in batches if m.packed.layout == layout) + 1


def test_measuring_room_can_be_stopped(tiny: Tiny) -> None:
    def stop() -> None:
        raise StoppedTraining

    with pytest.raises(StoppedTraining):
        Feed(tiny()).measure(10**9, check=stop)


def test_measuring_room_goes_on_where_it_was_stopped(tiny: Tiny) -> None:
    """What was kept, as JSON has it, need not be looked at again."""
    config = tiny(sizes=(5, 8), algorithms=("bfs", "minimum"))
    whole, stopped, resumed = Feed(config), Feed(config), Feed(config)
    whole.measure(400)
    kept: list[str] = []

    def keep(measured: MeasuredLengths) -> None:
        kept.append(json.dumps(measured.to_json()))
        if len(kept) == 5:  # four parts of the first algorithm, one of the second
            raise StoppedTraining

    with pytest.raises(StoppedTraining):
        stopped.measure(400, keep=keep)
    resumed.go_on_measuring(MeasuredLengths.from_json(json.loads(kept[-1])))
    turns: list[int] = []
    resumed.measure(400, keep=lambda measured: turns.append(sum(measured.turns.values())))
    assert turns == [300, 350, 400]
    assert resumed._capacities == whole._capacities


def test_room_depends_on_the_step_alone(tiny: Tiny) -> None:
    config = tiny(sizes=(8,), seeds=(0,))
    first, second = Feed(config), Feed(config)
    for feed in (first, second):
        feed.measure(1)
    shapes = [first.batch(step).samples.hints["pi_h"].shape for step in range(30)]
    assert shapes[::-1] == [second.batch(step).samples.hints["pi_h"].shape for step in reversed(range(30))]


@pytest.mark.usefixtures("float64")
def test_a_seed_among_others_is_the_seed_alone(tiny: Tiny) -> None:
    options = {"processor": "team", "steps": 20, "validate_every": 20}
    together, alone = trained(tiny(seeds=(0, 1, 2), **options)), trained(tiny(seeds=(1,), **options))
    assert together.state.parameters.dtype == np.float64
    difference = np.abs(together.state.parameters[1] - alone.state.parameters[0]).max()
    moved = np.abs(together.state.parameters[1] - together.programs.initial_state().parameters[1]).max()
    assert difference < 1e-9
    assert moved > 1e-3


def test_gradients_are_clipped_by_their_norm(tiny: Tiny) -> None:
    """Adam's first moment after one step is a tenth of the clipped gradient."""
    batch = Feed(tiny()).batch(0).packed

    def moment(clip: float) -> np.ndarray:
        programs = Programs(tiny(gradient_clip=clip))
        state, _ = programs.train_step(programs.initial_state(), batch)
        (adam,) = [part for part in jax.tree.leaves(state.optimizer, is_leaf=is_adam) if is_adam(part)]
        return np.asarray(adam.mu, np.float64)

    def is_adam(part: object) -> bool:
        return isinstance(part, optax.ScaleByAdamState)

    whole, clipped = moment(0.0), moment(1e-3)
    norms = np.linalg.norm(whole, axis=1, keepdims=True)
    assert (norms > 1e-3).all()
    np.testing.assert_allclose(clipped, 1e-4 * whole / norms, rtol=1e-4, atol=1e-9)


@pytest.mark.usefixtures("kept_programs")
def test_a_diverged_seed_stops_and_others_go_on(tiny: Tiny) -> None:
    config = tiny()
    healthy, sick = trained(config), Trainer(config, threads=2)
    sick.prepare()
    parameters = sick.state.parameters.at[1].set(jnp.nan)
    sick.state = eqx.tree_at(lambda state: state.parameters, sick.state, parameters)
    sick.run()
    assert [asdict(divergence) for divergence in sick.diverged] == [
        {"seed": 1, "step": 0, "algorithm": "bfs", "size": 5}
    ]
    assert np.array_equal(sick.state.parameters[0], healthy.state.parameters[0])
    assert [point.train_loss[0] for point in sick.progress.curve] == [p.train_loss[0] for p in healthy.progress.curve]
    assert sick.selection.steps["id"][1] == 0
    assert sick.progress.step == config.steps


def test_a_run_ends_when_no_seed_is_left(tiny: Tiny) -> None:
    trainer = trained(tiny(learning_rate=1e30, gradient_clip=0.0, seeds=(0, 1)))
    assert trainer.progress.step == 4  # the first validation
    assert not trainer.alive.any()
    assert {divergence.seed for divergence in trainer.diverged} == {0, 1}


def test_every_network_is_tested_once(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules agree on some seeds and not on others; each gets the scores of the networks that it chose."""
    test = benchmark_set("bfs", 5, 3, 3)
    monkeypatch.setattr("narkit.training.evaluation.load_split", lambda name, split: test)
    trainer = trained(tiny(test=True))
    first = trainer.selection.parameters["id"]
    trainer.selection.steps |= {"id": [4, 8], "id_first": [4, 8], "last": [4, 9]}
    last = first.copy()
    last[1] = 0.0
    trainer.selection.parameters |= {"id_first": first, "last": last}
    kept: list[dict] = []
    results = trainer.test(keep=lambda tested: kept.append(dict(tested)))[0]["bfs"]
    assert [len(tested) for tested in kept] == [2, 3]
    trainer.programs.predict = None  # type: ignore[assignment] # all scores are known: nothing is predicted again
    assert trainer.test(kept[-1])[0]["bfs"] == results
    trainer.programs = Programs(trainer.config)
    assert list(results) == ["id", "id_first", "last"]
    alone = EvaluationSet.of(test, 2, with_hints=True)
    for rule, seeds in results.items():
        expected = alone.scores(trainer.programs, jnp.asarray(trainer.selection.parameters[rule]))
        assert [scores.outputs for scores in seeds] == [scores.outputs for scores in expected]
        assert [scores.hints for scores in seeds] == [scores.hints for scores in expected]
    assert results["id"][0] is results["last"][0]
    assert results["id"][1].hints != results["last"][1].hints


def test_fixed_training_set_is_the_official_one(tiny: Tiny) -> None:
    config = tiny(fixed_training_set=True, random_positions=False, seeds=(3, 8))
    feed = Feed(config)
    official = narkit.load_split("bfs", "train")
    batch = feed.batch(3)
    for row, seed in enumerate(config.seeds):
        drawn = np.random.default_rng([seed, 3]).integers(0, 1000, config.batch_size)
        assert np.array_equal(batch.samples.inputs["A"][row], official.inputs["A"][drawn])
        assert np.array_equal(batch.samples.lengths[row], official.lengths[drawn])
        room = batch.samples.hints["reach_h"].shape[1]
        assert np.array_equal(batch.samples.hints["reach_h"][row], official.hints["reach_h"][:room, drawn])
    assert feed.kind_of_batch(3) == ("bfs", 16)
    assert np.array_equal(feed.batch(3).samples.inputs["A"], batch.samples.inputs["A"])


def test_validation_may_be_the_benchmarks() -> None:
    batch = validation_batch("bfs", Validation("id", 16, 32, BENCHMARK))
    assert np.array_equal(batch.inputs["A"], narkit.load_split("bfs", "val").inputs["A"])
    other = validation_batch("bfs", Validation("large", 16, 32, BENCHMARK, seed=1000, selects=False))
    assert np.array_equal(other.inputs["A"], benchmark_set("bfs", 16, 32, 1000).inputs["A"])


def test_parts_have_samples_of_about_the_same_length() -> None:
    batch = narkit.transform(narkit.sample("quicksort", size=8, batch_size=7, seed=0))
    parts = list(EvaluationSet.of(batch, part_size=3).parts())
    longest = np.sort(batch.lengths)[::-1]
    assert len(set(longest[::3])) == 3, "of different lengths"
    assert [part.lengths.max() for part in parts] == longest[::3].tolist()


@pytest.mark.parametrize("name", ["dijkstra", "quicksort"])
def test_scores_of_hints_and_outputs(name: str, tiny: Tiny) -> None:
    """Scored part by part and step by step, they are what all logits at once give."""
    config = tiny(algorithms=(name,), seeds=(0,))
    programs = Programs(config)
    parameters = programs.initial_state().parameters
    batch = narkit.transform(narkit.sample(name, size=5, batch_size=5, seed=1))
    (scores,) = EvaluationSet.of(batch, part_size=2, with_hints=True).scores(programs, parameters)
    predicted = narkit.predict(programs.reasoner(parameters[0]), batch)
    assert scores.outputs == narkit.evaluate(name, predicted, batch)
    # Validation, which scores no hints, moves only their first row to the device, and still runs all steps.
    (without_hints,) = EvaluationSet.of(batch, part_size=2).scores(programs, parameters)
    assert without_hints.outputs == scores.outputs
    in_time = np.arange(1, batch.num_steps)[:, None] < batch.lengths
    expected = {}
    for hint, logits in predicted.hint_logits.items():
        logits, truth = np.asarray(logits)[in_time], batch.hints[hint][1:][in_time]
        match batch.spec[hint].kind:
            case narkit.Kind.SCALAR:
                expected[hint] = np.mean((logits - truth) ** 2)
            case narkit.Kind.MASK:
                both = np.sum((logits > 0) & (truth == 1))
                expected[hint] = 2 * both / (np.sum((logits > 0) & (truth != -1)) + np.sum(truth == 1))
            case narkit.Kind.POINTER:
                expected[hint] = np.mean(logits.argmax(-1) == truth)
            case _:
                counts = (truth != -1).all(-1)
                expected[hint] = np.mean((logits.argmax(-1) == truth.argmax(-1))[counts])
    assert set(scores.hints) == set(expected)
    for hint, value in expected.items():
        assert scores.hints[hint] == pytest.approx(value, rel=1e-5), hint
