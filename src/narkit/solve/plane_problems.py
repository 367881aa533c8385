"""Problems on points in the plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from narkit.algorithms.instances import DISK_RADIUS, some_three_are_collinear
from narkit.errors import InstanceError
from narkit.solve import ranges
from narkit.solve.problem import Instance, Outputs, Plain, Problem, check_size, shown
from narkit.solve.tables import named_rows

LARGEST_CHECKED = 128  # points among which three on a line are looked for: the time grows with the cube


class Hull(Problem):
    """The convex hull of points: graham_scan, jarvis_march."""

    parameters: ClassVar[tuple[str, ...]] = ("points",)

    def read(self, given: Mapping[str, Any]) -> Instance:
        names, points = named_rows(given["points"], ("x", "y"), "points")
        check_size(len(names), "points", fewest=3)
        _, first, counts = np.unique(points, axis=0, return_index=True, return_counts=True)
        if (counts > 1).any():
            twice = points[first[counts > 1][0]]
            raise InstanceError(f"points: expected different points, got {shown(tuple(map(float, twice)))} twice")
        instance = Instance({}, names, points, own={"x": points[:, 0], "y": points[:, 1]})
        mapped = self._in_disk(points, instance)
        if len(points) <= LARGEST_CHECKED and some_three_are_collinear(*mapped.T.copy()):
            instance.warnings.append(
                "three of the points lie on a line, which never happened in training; there even the algorithm may "
                "count points between two corners as corners"
            )
        instance.arguments |= {"xs": mapped[:, 0].copy(), "ys": mapped[:, 1].copy()}
        return instance

    def _in_disk(self, points: np.ndarray, instance: Instance) -> np.ndarray:
        """Moves and scales the points into the disk of the training; hulls move along."""
        farthest = float(np.hypot(*points.T).max())
        if DISK_RADIUS / 2 <= farthest <= DISK_RADIUS:
            return points
        centred = points - (points.min(axis=0) + points.max(axis=0)) / 2
        factor = DISK_RADIUS * ranges.power_of_two(float(np.hypot(*centred.T).max()))
        instance.notes.append(f"points were moved and scaled by {factor:g} into a disk of radius {DISK_RADIUS:g}")
        return centred * factor

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        corners = np.flatnonzero(outputs["in_hull"] > 0)
        around = instance.given[corners] - instance.given[corners].mean(axis=0) if len(corners) else np.zeros((0, 2))
        corners = corners[np.argsort(np.arctan2(around[:, 1], around[:, 0]), kind="stable")]
        return {
            "hull": [(float(x), float(y)) for x, y in instance.given[corners]],
            "corners": [instance.labels[corner] for corner in corners],
        }

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        corners = zip(plain["corners"], plain["hull"], strict=True)
        said = ", ".join(f"{name} {shown(point)}" for name, point in corners)
        return [f"hull, counter-clockwise: {said or 'none'}"]


class Segments(Problem):
    """The intersection of two segments: segments_intersect. Points are the ends of the first, then of the second."""

    parameters: ClassVar[tuple[str, ...]] = ("points",)

    def read(self, given: Mapping[str, Any]) -> Instance:
        names, ends = named_rows(_ends(given["points"]), ("x", "y"), "points")
        if len(names) != 4:
            raise InstanceError(
                f"points: expected 4, the ends of one segment and then of the other, got {len(names) or 'none'}"
            )
        mapped, notes = ends, []
        if ends.min() < 0.0 or ends.max() > 1.0 or np.ptp(ends, axis=0).max() < 0.25:
            moved = ends - ends.min(axis=0)
            factor = ranges.power_of_two(float(moved.max()))
            mapped = moved * factor
            notes.append(f"points were moved and scaled by {factor:g} into the unit square")
        own = {"x": ends[:, 0], "y": ends[:, 1]}
        return Instance({"xs": mapped[:, 0].copy(), "ys": mapped[:, 1].copy()}, names, ends, notes, own=own)

    def plain(self, instance: Instance, outputs: Outputs) -> Plain:
        return {"intersect": bool(np.asarray(outputs["intersect"]) > 0)}

    def lines(self, instance: Instance, plain: Plain) -> list[str]:
        return [f"the segments {'intersect' if plain['intersect'] else 'do not intersect'}"]


def _ends(points: Any) -> Any:
    """Flattens two segments of two points each to four points; returns anything else as it is."""
    if isinstance(points, np.ndarray):
        return points.reshape(4, 2) if points.shape == (2, 2, 2) else points
    if isinstance(points, (list, tuple)) and all(isinstance(part, (list, tuple)) for part in points):
        ends = [end for segment in points for end in segment]
        return ends if ends and all(isinstance(end, (list, tuple)) for end in ends) else points
    return points


PLANE_PROBLEMS: dict[str, Problem] = {"graham_scan": Hull(), "jarvis_march": Hull(), "segments_intersect": Segments()}
