"""`narkit data export`: an official split as one NumPy archive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

import narkit
from narkit.data.batch import Batch
from narkit.files import replacing


def export_split(algorithm: str, split: str, out: Path, *, transformed: bool = False, force: bool = False) -> Batch:
    """Writes a split to `out` and returns it. The file is written whole or not at all."""
    if out.exists() and not force:
        raise FileExistsError(f"{out} exists already; give another name, or --force to replace it")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"the folder {out.parent} does not exist; create it first")
    batch = narkit.load_split(algorithm, split)
    if transformed:
        batch = narkit.transform(batch, seed=0)
    write_archive(out, archive(batch))
    return batch


def archive(batch: Batch) -> dict[str, np.ndarray]:
    """The arrays of a batch under the keys `input_...`, `hint_...`, `output_...` and `lengths`."""
    return {
        **{f"input_{name}": values for name, values in batch.inputs.items()},
        **{f"hint_{name}": values for name, values in batch.hints.items()},
        **{f"output_{name}": values for name, values in batch.outputs.items()},
        "lengths": batch.lengths,
    }


def write_archive(out: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an archive whole or not at all."""
    with replacing(out) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
