"""Tests of differences, with SciPy's tests and published tables as the judge."""

import numpy as np
import pytest
from scipy import stats

from narkit.report.statistics import compare, holm, rank, welch


def test_welch_is_scipys() -> None:
    rng = np.random.default_rng(0)
    for size_a, size_b in ((5, 5), (3, 8), (2, 2)):
        a, b = rng.normal(70, 5, size_a), rng.normal(75, 1, size_b)
        _, expected = stats.ttest_ind(a, b, equal_var=False)
        assert welch(a, b) == pytest.approx(expected)


def test_welch_without_spread_or_seeds() -> None:
    assert welch([100.0] * 5, [100.0] * 5) == 1.0
    assert welch([100.0] * 5, [99.0] * 5) == 0.0
    assert welch([1.0], [2.0, 3.0]) is None


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_comparisons_say_who_is_higher() -> None:
    near = np.array([1.0, -1.0, 0.5, 0.0, -0.5])
    first = {"bfs": 99 + near * 0.1, "dfs": 50 + near, "minimum": np.array([3.0]), "heapsort": 40 + near}
    second = {
        "bfs": 90 + near * 0.1,
        "dfs": 50.2 + near,
        "minimum": np.array([5.0]),
        "heapsort": 60 + near,
        "more": near,
    }
    verdicts = {row.algorithm: row.verdict for row in compare(first, second)}
    assert verdicts == {"bfs": "higher", "dfs": "unclear", "minimum": "untested", "heapsort": "lower"}


def test_ranks_and_critical_difference() -> None:
    scores = {
        "good": {name: np.array([90.0, 92.0]) for name in "abcdefghij"},
        "same": {name: np.array([90.0, 92.0]) for name in "abcdefghij"},
        "poor": {name: np.array([10.0, 12.0]) for name in "abcdefghijk"},
    }
    ranking = rank(scores)
    assert ranking is not None and ranking.algorithms == 10
    assert ranking.ranks == pytest.approx({"good": 1.5, "same": 1.5, "poor": 3.0})
    # Demšar (2006), table 5: q = 2.343 for three systems.
    assert ranking.critical_difference == pytest.approx(2.343 * np.sqrt(3 * 4 / 60), abs=2e-3)
    assert ranking.groups() == [["good", "same"]]  # 1.5 ranks are more than the difference of 1.05
    assert rank({"one": scores["good"]}) is None
