"""Trajectories as files that other programs read: NumPy archives and Parquet tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from narkit import __version__, files
from narkit.data.batch import Batch
from narkit.files import replacing

if TYPE_CHECKING:
    import pyarrow


def write(batch: Batch, out: Path, *, force: bool = False) -> None:
    """Writes a batch to `out`, whole or not at all; the name's ending says in which format."""
    check_place(out, force=force)
    with replacing(out) as file:
        WRITERS[out.suffix](batch, file)


def check_place(out: Path, *, force: bool = False) -> None:
    """Raises where `write` would, before anything is computed."""
    if out.suffix not in WRITERS:
        raise OSError(f"{out}: expected a name that ends in {' or '.join(WRITERS)}, got {out.suffix or 'no ending'}")
    if out.suffix == ".parquet":
        _pyarrow()
    if out.exists() and not force:
        raise FileExistsError(f"{out} exists already; give another name, or --force to replace it")
    files.check_place(out)


def archive(batch: Batch) -> dict[str, np.ndarray]:
    """Returns the arrays of a batch under the keys `input_...`, `hint_...`, `output_...` and `lengths`."""
    return {f"{stage}_{name}": values for stage, name, values in _probes(batch)} | {"lengths": batch.lengths}


def _probes(batch: Batch) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yields the stage, name and values of every probe."""
    for stage, arrays in (("input", batch.inputs), ("hint", batch.hints), ("output", batch.outputs)):
        yield from ((stage, name, values) for name, values in arrays.items())


def table(batch: Batch) -> pyarrow.Table:
    """Returns the batch as a table with one row for each trajectory, under the same names as the NumPy archive.

    Values of several dimensions are nested lists. A hint is the list of its steps, cut to the trajectory's own length.
    The schema's metadata has the algorithm, narkit's version and, as JSON, what every column means.
    """
    pa = _pyarrow()
    columns = {"length": pa.array(batch.lengths)}
    meanings = {}
    for stage, name, values in _probes(batch):
        column, probe = f"{stage}_{name}", batch.spec[name]
        columns[column] = _steps(values, batch.lengths) if stage == "hint" else _nested(values)
        meanings[column] = {"location": probe.location, "kind": probe.kind, "meaning": probe.meaning}
    metadata = {
        "algorithm": batch.algorithm,
        "form": "transformed" if batch.transformed else "raw",
        "narkit": __version__,
        "probes": json.dumps(meanings),
    }
    return pa.table(columns).replace_schema_metadata(metadata)


def _steps(values: np.ndarray, lengths: np.ndarray) -> pyarrow.Array:
    """Returns (time, batch, ...) as one list of steps for each sample."""
    pa = _pyarrow()
    counted = np.arange(len(values)) < lengths[:, None]  # (batch, time)
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), _nested(values.swapaxes(0, 1)[counted])
    )


def _nested(values: np.ndarray) -> pyarrow.Array:
    """Returns (rows, ...) as an array of rows, whose further axes are lists of a fixed length."""
    pa = _pyarrow()
    column = pa.array(np.ascontiguousarray(values).reshape(-1))
    for length in reversed(values.shape[1:]):
        column = pa.FixedSizeListArray.from_arrays(column, length)
    return column


def _write_npz(batch: Batch, file: BinaryIO) -> None:
    np.savez_compressed(file, allow_pickle=False, **archive(batch))


def _write_parquet(batch: Batch, file: BinaryIO) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(table(batch), file)


def _pyarrow():
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise OSError(
            "writing Parquet needs pyarrow, which is not installed; install it with: pip install 'narkit[parquet]'"
        ) from error
    return pyarrow


WRITERS: dict[str, Callable[[Batch, BinaryIO], None]] = {".npz": _write_npz, ".parquet": _write_parquet}
