"""The layout of a graph: positions of its nodes in a drawing.

Two placements compete and the one with fewer crossings of edges wins: a circle, which is best for dense graphs, and one
by stress (Kamada & Kawai, 1989), in which nodes that are far apart in the graph are far apart on the page.
"""

from __future__ import annotations

import numpy as np

LARGEST_STRESS_LAYOUT = 80  # more nodes than this are put on a circle: nobody can read their edges anyway
ROUNDS = 200


def place(adjacency: np.ndarray) -> np.ndarray:
    """Returns positions (node, 2) in the unit square for a graph, from a matrix that is not zero where an edge is."""
    linked = (adjacency != 0) | (adjacency != 0).T
    np.fill_diagonal(linked, False)
    count = len(linked)
    circle = on_circle(count)
    if count < 3 or count > LARGEST_STRESS_LAYOUT or not linked.any():
        return _into_unit_square(circle)
    rng = np.random.default_rng(0)
    starts = [circle, *(rng.uniform(-1, 1, (count, 2)) for _ in range(4))]
    candidates = [_into_unit_square(circle), *(_into_unit_square(by_stress(linked, start)) for start in starts)]
    return min(candidates, key=lambda positions: _badness(positions, linked))


def on_circle(count: int) -> np.ndarray:
    """Places the nodes clockwise around a circle, the first at the top."""
    angles = 2 * np.pi * np.arange(count) / max(count, 1) - np.pi / 2
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def by_stress(linked: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Finds positions whose distances are close to those in the graph.

    Each round moves every node to the weighted mean of where the others would like to have it (stress majorisation,
    Gansner et al., 2004).
    """
    distances = _hops(linked)
    with np.errstate(divide="ignore"):
        weights = np.where(distances > 0, distances**-2.0, 0.0)
    positions = start * distances.max() / 2
    for _ in range(ROUNDS):
        offsets = positions[:, None] - positions[None]
        lengths = np.maximum(np.linalg.norm(offsets, axis=2), 1e-9)
        wanted = positions[None] + offsets * (distances / lengths)[..., None]
        positions = (weights[..., None] * wanted).sum(1) / weights.sum(1)[:, None]
    return positions


def _hops(linked: np.ndarray) -> np.ndarray:
    """Counts the edges on shortest paths; a little more than the longest where there is none."""
    from scipy.sparse.csgraph import shortest_path

    hops = shortest_path(linked, unweighted=True)
    return np.where(np.isinf(hops), hops[np.isfinite(hops)].max() + 0.3, hops)


def _into_unit_square(positions: np.ndarray) -> np.ndarray:
    low, span = positions.min(0), np.ptp(positions, axis=0)
    return np.where(span > 1e-9, (positions - low) / np.maximum(span, 1e-9), 0.5)


def _badness(positions: np.ndarray, linked: np.ndarray) -> float:
    """Counts crossings of edges; nodes too near to each other, or to an edge that is not theirs, count more."""
    edges = np.argwhere(np.triu(linked))
    a, b = positions[edges[:, 0]], positions[edges[:, 1]]
    share_no_end = (edges[:, None, :, None] != edges[None, :, None, :]).all((2, 3))
    crossings = (_crosses(a, b) & share_no_end).sum() / 2
    gaps = np.linalg.norm(positions[:, None] - positions[None], axis=2) + np.eye(len(positions))
    crowded = (gaps < 0.4 / np.sqrt(len(positions))).sum() / 2
    to_edges = _distance_to_segments(positions, a, b)
    own = (edges[None] == np.arange(len(positions))[:, None, None]).any(2)
    touched = ((to_edges < 0.05) & ~own).sum()
    return float(crossings + 6 * crowded + 4 * touched)


def _crosses(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    def side(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
        return (q[..., 0] - p[..., 0]) * (r[..., 1] - p[..., 1]) - (q[..., 1] - p[..., 1]) * (r[..., 0] - p[..., 0])

    first_a, first_b, second_a, second_b = a[:, None], b[:, None], a[None], b[None]
    return (side(first_a, first_b, second_a) * side(first_a, first_b, second_b) < 0) & (
        side(second_a, second_b, first_a) * side(second_a, second_b, first_b) < 0
    )


def _distance_to_segments(points: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Computes distances (point, segment)."""
    along = b - a
    squared = np.maximum((along**2).sum(1), 1e-12)
    where = np.clip(((points[:, None] - a) * along).sum(2) / squared, 0, 1)
    return np.linalg.norm(points[:, None] - (a + where[..., None] * along), axis=2)
