"""Puts the published weights into wheels: `results/SWEEP/SYSTEM/ALGORITHM.safetensors` and the records beside them.

The repository has them once, in `results/`; an installed narkit finds them in the folder `weights` of the package.
Should all of them be too much, whole systems are left out, those with the lowest scores first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LARGEST_SUM = 95_000_000  # bytes; a wheel has at most 100 MB


class PublishedWeights(BuildHookInterface):
    """The hook that hatchling calls before it builds a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # a checkout reads its own results
            return
        results = Path(self.root) / "results"
        files, left_out = chosen(results)
        for file in files:
            build_data["force_include"][str(file)] = f"narkit/weights/{file.relative_to(results).as_posix()}"
        if left_out:
            self.app.display_warning(f"weights left out, to keep the wheel small: {', '.join(left_out)}")


def chosen(results: Path, largest_sum: int = LARGEST_SUM) -> tuple[list[Path], list[str]]:
    """The files that a wheel carries, and the names of systems that are left out."""
    systems = sorted({path.parent for path in results.glob("*/*/*.safetensors")})
    files: list[Path] = []
    left_out: list[str] = []
    room = largest_sum
    for system in sorted(systems, key=mean_score, reverse=True):
        weights = sorted(system.glob("*.safetensors"))
        of_system = [file for path in weights for file in (path, path.with_suffix(".json")) if file.exists()]
        size = sum(file.stat().st_size for file in of_system)
        if size > room:
            left_out.append(system.relative_to(results).as_posix())
            continue
        room -= size
        files += of_system
    return files, left_out


def mean_score(system: Path) -> float:
    """The mean score on the official test of the networks in a folder, as their records have it."""
    scores = []
    for path in system.glob("*.safetensors"):
        try:
            record = json.loads(path.with_suffix(".json").read_text())
            kept = record["weights"]
            row = record["config"]["seeds"].index(kept["seed"])
            scores.append(record["test"][path.stem][kept["rule"]][row]["score"])
        except (OSError, ValueError, KeyError, IndexError, TypeError):
            scores.append(0.0)
    return sum(scores) / max(1, len(scores))
