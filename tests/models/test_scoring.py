"""Scores and decoded outputs against numbers that were worked out by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from narkit.models.predictions import DIAGONAL_LOGIT, decode_outputs, log_sinkhorn
from narkit.models.scoring import score
from narkit.spec import ALGORITHMS, Kind, Probe


def probe_of(kind: Kind) -> Probe:
    """Some probe of this kind."""
    return next(probe for entry in ALGORITHMS.values() for probe in entry.spec.values() if probe.kind is kind)


@pytest.mark.parametrize(
    ("predicted", "truth", "expected"),
    [
        ([1, 1, 0, 0], [1, 0, 1, 0], 0.5),  # one found, one too many, one missed
        ([1, 0, 0, 0], [1, 1, 1, 0], 0.5),  # all that is found is right, a third of all
        ([1, 1, 1, 1], [1, 1, -1, -1], 1.0),  # what is masked out does not count
        ([0, 0], [0, 0], 1.0),  # nothing to find and nothing found
        ([0, 0], [1, 0], 0.0),
        ([1, 0], [0, 0], 0.0),
    ],
)
def test_masks_score_by_f1(predicted: list[int], truth: list[int], expected: float) -> None:
    assert score(probe_of(Kind.MASK), np.array([predicted]), np.array([truth])) == pytest.approx(expected)


def test_classes_score_by_the_share_of_right_ones() -> None:
    truth = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]])
    predicted = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]])
    assert score(probe_of(Kind.CATEGORICAL), predicted[None], truth[None]) == pytest.approx(
        2 / 3
    )  # the last is masked out


def test_pointers_and_scalars() -> None:
    assert score(probe_of(Kind.POINTER), np.array([0, 2, 1, 1]), np.array([0, 2, 2, 1])) == pytest.approx(3 / 4)
    assert score(probe_of(Kind.SCALAR), np.array([1.0, 3.0]), np.array([1.0, 1.0])) == pytest.approx(2.0)


def test_sinkhorns_rows_and_columns_are_distributions() -> None:
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 5)), jnp.float32)
    matrix = np.exp(np.asarray(log_sinkhorn(logits, steps=200), np.float64))
    np.testing.assert_allclose(matrix.sum(-1), 1, atol=2e-2)
    np.testing.assert_allclose(matrix.sum(-2), 1, atol=1e-5)
    assert np.abs(np.diagonal(matrix, axis1=-2, axis2=-1)).max() < 1e-6 and DIAGONAL_LOGIT < -1e5


def test_a_permutation_and_its_first_node_are_one_pointer() -> None:
    """Of the order 2, 0, 1: the first points to itself, the others to the one before them."""
    logits = {"pred": jnp.full((1, 3, 3), -9.0), "pred_mask": jnp.array([[0.0, 0.0, 5.0]])}
    for place, before in ((0, 2), (1, 0), (2, 1)):  # closed to a cycle
        logits["pred"] = logits["pred"].at[0, place, before].set(9.0)
    decoded = decode_outputs(ALGORITHMS["quicksort"].transformed_spec, logits)
    assert {name: values.tolist() for name, values in decoded.items()} == {"pred": [[2, 0, 2]]}
