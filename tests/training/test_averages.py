"""Averaged weights and skipped steps: against plain NumPy, and what rules and records make of them."""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
import pytest

import narkit
from narkit.training.feed import Feed
from narkit.training.record_checks import check_record
from narkit.training.rules import AVERAGED
from narkit.training.run import make_record
from narkit.training.trainer import Trainer

Tiny = Callable[..., narkit.TrainConfig]
OPTIONS = {"average": 0.75, "average_horizon": 4.0, "skipped_steps": 2}


class SpoiltFeed(Feed):
    """Gives the second seed batches whose gradient is not a number, at some steps."""

    spoilt: tuple[int, ...] = ()

    def batch(self, step: int):
        batch = super().batch(step)
        if step in self.spoilt:
            batch.samples.inputs["pos"][1] = np.nan
        return batch


def trained(config: narkit.TrainConfig, *spoilt: int) -> tuple[Trainer, list]:
    """A trainer that has trained to the end, and its states after each step, on the host."""
    states = []

    class States(narkit.Callback):
        def on_step(self, trainer: Trainer) -> None:
            states.append(jax.device_get(trainer.state))

    trainer = Trainer(config, callbacks=[States()], threads=2)
    trainer.feed = SpoiltFeed(config)
    trainer.feed.spoilt = spoilt
    states.append(jax.device_get(trainer.state))
    trainer.prepare()
    trainer.run()
    return trainer, states


@pytest.fixture(scope="module")
def with_a_skip(tiny: Tiny) -> tuple[Trainer, list]:
    return trained(tiny(**OPTIONS), 3, 6)


def test_the_average_is_what_its_formula_says(with_a_skip: tuple[Trainer, list]) -> None:
    trainer, states = with_a_skip
    average = np.array(states[0].parameters, np.float64)
    for step in range(trainer.config.steps):
        after = states[step + 1]
        decay = min(0.75, (1 + step) / (1 + 4 + step))
        changed = average * decay + (1 - decay) * after.parameters
        average[0] = changed[0]
        if step not in (3, 6):
            average[1] = changed[1]
        np.testing.assert_allclose(after.average, average, rtol=1e-5, atol=1e-7)
    assert np.abs(average - states[-1].parameters).max() > 1e-3


def test_a_skipped_step_changes_nothing_of_its_seed(with_a_skip: tuple[Trainer, list]) -> None:
    trainer, states = with_a_skip

    def same(step: int, row: int) -> list[bool]:
        before, after = (jax.tree.leaves(eqx.tree_at(lambda s: s.skipped_in_a_row, s, 0)) for s in states[step:][:2])
        return [np.array_equal(b[row], a[row]) for b, a in zip(before, after, strict=True) if np.ndim(b)]

    assert all(same(3, 1)) and all(same(6, 1))
    assert sum(same(3, 0)) == 1 and sum(same(4, 1)) == 1  # all but that no seed has diverged
    assert trainer.progress.skipped == [[], [3, 6]]
    assert [vars(skipped) for skipped in trainer.skipped] == [
        {"seed": 1, "algorithm": "bfs", "size": 5, "steps": [3, 6]}
    ]
    assert trainer.diverged == []
    assert np.isfinite([point.train_loss for point in trainer.progress.curve]).all()
    healthy, _ = trained(trainer.config)
    assert np.array_equal(healthy.state.parameters[0], trainer.state.parameters[0])
    assert np.array_equal(healthy.weights[AVERAGED][0], trainer.weights[AVERAGED][0])


@pytest.mark.usefixtures("float64")
def test_the_raw_weights_are_those_of_a_run_without(tiny: Tiny) -> None:
    """In double precision: the two are different programs, whose rounding Adam makes large where gradients are zero."""
    (averaged, _), (plain, _) = trained(tiny(**OPTIONS), 3, 6), trained(tiny())
    np.testing.assert_allclose(averaged.state.parameters[0], plain.state.parameters[0], rtol=1e-9, atol=1e-9)
    assert plain.state.average is None and plain.state.skipped_in_a_row is None


def test_too_many_in_a_row_end_a_seed(tiny: Tiny) -> None:
    trainer, states = trained(tiny(**OPTIONS), 1, 4, 5, 7)
    assert [(found.seed, found.step) for found in trainer.diverged] == [(1, 5)]
    assert trainer.skipped[0].steps == [1, 4, 5]  # what a seed that is lost does later does not count
    for name in ("parameters", "average"):
        assert np.array_equal(getattr(states[-1], name)[1], getattr(states[4], name)[1])
        assert not np.array_equal(getattr(states[-1], name)[0], getattr(states[4], name)[0])
    assert trainer.selection.steps["last"] == [10, 4]
    assert trainer.selection.steps["last_average"] == [10, 4]
    assert list(check_record(make_record(trainer, {}))) == []


def test_averages_have_rules_of_their_own(with_a_skip: tuple[Trainer, list]) -> None:
    trainer, states = with_a_skip
    record = make_record(trainer, {})
    assert list(record.rules) == ["id", "id_first", "last", "id_average", "last_average"]
    assert list(check_record(record)) == []
    assert np.array_equal(record.choices()["last"], states[-1].parameters)
    assert np.array_equal(record.choices()["last_average"], states[-1].average)
    (evaluation,) = trainer._validation_sets["id"]
    found = evaluation.scores(trainer.programs, trainer.weights[AVERAGED])
    assert record.curve[-1].average_scores["id"] == [scores.outputs["score"] for scores in found]
    assert record.curve[-1].average_losses["id"] == [scores.loss for scores in found]
    assert len(trainer.programs._predictions) == 1  # raw and averaged weights are scored by the same program
    assert trainer.progress.timings.compiled_programs == 2
    again = narkit.RunRecord.from_json(record.to_json())
    assert again.result() == record.result()
    assert again.skipped == record.skipped and again.rules == record.rules


def test_no_rule_compares_raw_with_averaged_weights(with_a_skip: tuple[Trainer, list]) -> None:
    """Where the averaged weights score better, the rules of the raw ones do not see it, and the other way round."""
    record = make_record(with_a_skip[0], {})
    for rule in record.rules.values():
        scores = {point.step: point.of(rule.weights)[0]["id"] for point in record.curve}
        chosen = record.selected[rule.name]
        assert chosen.scores == [scores[step][row] for row, step in enumerate(chosen.steps)]
        if rule.validation is not None:
            assert chosen.scores == [max(row) for row in zip(*scores.values(), strict=True)]
