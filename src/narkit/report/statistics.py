"""Tests whether two systems differ: by row with Welch's test and Holm's correction, over all rows by ranks.

**Rows.** For each algorithm Welch's t-test compares the scores of the seeds of two systems; it does not assume that
they spread alike. Thirty tests find a difference by chance more often than one, so the p-values are corrected by Holm's
step-down method: the chance of any false finding among all rows stays below the level.

**Ranks.** On every algorithm the systems are ranked by their means, ties sharing a rank. Two systems differ if their
average ranks differ by more than Nemenyi's critical difference, q sqrt(k (k + 1) / (6 N)) for k systems on N algorithms
(Demšar, 2006).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.05


@dataclass(frozen=True)
class Comparison:
    """One algorithm under two systems, with its p-value after Holm's correction; None where one has a single seed."""

    algorithm: str
    first: np.ndarray  # scores of the seeds in percent
    second: np.ndarray
    corrected: float | None

    @property
    def difference(self) -> float:
        """The first minus the second, in points."""
        return float(np.mean(self.first) - np.mean(self.second))

    @property
    def verdict(self) -> str:
        """`higher` or `lower` where the difference is significant, else `unclear`; `untested` with a single seed."""
        if self.corrected is None:
            return "untested"
        if self.corrected >= LEVEL:
            return "unclear"
        return "higher" if self.difference > 0 else "lower"


def compare(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> list[Comparison]:
    """Compares the algorithms that both systems were run on, in the order of the first."""
    names = [name for name in first if name in second]
    p = {name: value for name in names if (value := welch(first[name], second[name])) is not None}
    corrected = dict(zip(p, holm(list(p.values())), strict=True))
    return [Comparison(name, np.asarray(first[name]), np.asarray(second[name]), corrected.get(name)) for name in names]


def welch(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> float | None:
    """Computes the two-sided p-value of Welch's t-test; None with fewer than two scores on a side."""
    a, b = np.asarray(first, float), np.asarray(second, float)
    if len(a) < 2 or len(b) < 2:
        return None
    if np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b) < 1e-18:  # no spread on either side
        return 1.0 if abs(np.mean(a) - np.mean(b)) < 1e-9 else 0.0
    from scipy import stats

    sides = (np.mean(a), np.std(a, ddof=1), len(a), np.mean(b), np.std(b, ddof=1), len(b))
    return float(stats.ttest_ind_from_stats(*sides, equal_var=False).pvalue)


def holm(p: Sequence[float]) -> list[float]:
    """Computes Holm's corrected p-values, in the order given."""
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(len(p), 0, -1) * np.asarray(p)[order]))
    return corrected.tolist()


@dataclass(frozen=True)
class Ranking:
    """The average ranks of some systems over the algorithms that all of them were run on; 1 is best."""

    ranks: Mapping[str, float]
    algorithms: int
    critical_difference: float

    def groups(self) -> list[list[str]]:
        """Returns the largest sets of neighbours in rank that are not told apart, of two systems and more."""
        ordered = sorted(self.ranks, key=lambda name: self.ranks[name])
        found: list[list[str]] = []
        for start, name in enumerate(ordered):
            limit = self.ranks[name] + self.critical_difference
            group = [other for other in ordered[start:] if self.ranks[other] <= limit]
            if len(group) > 1 and not any(set(group) <= set(known) for known in found):
                found.append(group)
        return found


def rank(scores: Mapping[str, Mapping[str, np.ndarray]]) -> Ranking | None:
    """Ranks systems, from scores by name and algorithm; None for fewer than two systems or algorithms."""
    if len(scores) < 2:
        return None
    common = set.intersection(*(set(rows) for rows in scores.values()))
    if len(common) < 2:
        return None
    from scipy import stats

    means = np.array([[np.mean(rows[name]) for name in sorted(common)] for rows in scores.values()])
    ranks = stats.rankdata(-np.round(means, 9), axis=0).mean(axis=1)
    k, n = means.shape
    q = float(stats.studentized_range.ppf(1 - LEVEL, k, 1e6)) / math.sqrt(2)
    return Ranking(dict(zip(scores, map(float, ranks), strict=True)), n, q * math.sqrt(k * (k + 1) / (6 * n)))
