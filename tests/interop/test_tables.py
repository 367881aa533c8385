"""Trajectories as Parquet tables: what is read back is what was written."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import narkit
from narkit.interop import tables
from narkit.interop.samples import choose_batch, sample_of


@pytest.mark.parametrize("name", ["bfs", "floyd_warshall", "lcs_length", "quickselect"])
def test_parquet_holds_what_the_batch_holds(name: str, tmp_path: Path) -> None:
    batch = choose_batch(name, size=5, count=4, seed=2)
    out = tmp_path / "set.parquet"
    tables.write(batch, out)
    read = pyarrow.parquet.read_table(out)
    assert read.column_names == [
        "length",
        *(f"input_{probe}" for probe in batch.inputs),
        *(f"hint_{probe}" for probe in batch.hints),
        *(f"output_{probe}" for probe in batch.outputs),
    ]
    for index, row in enumerate(read.to_pylist()):
        sample = sample_of(batch, index)
        assert row["length"] == sample.length
        for stage, arrays in (("input", sample.inputs), ("hint", sample.hints), ("output", sample.outputs)):
            for probe, values in arrays.items():
                np.testing.assert_array_equal(np.array(row[f"{stage}_{probe}"], values.dtype), values)
    metadata = read.schema.metadata
    assert metadata[b"algorithm"].decode() == name and metadata[b"form"] == b"raw"
    meanings = json.loads(metadata[b"probes"])
    assert meanings["input_pos"]["meaning"] == narkit.ALGORITHMS[name].spec["pos"].meaning


def test_the_ending_says_the_format(tmp_path: Path) -> None:
    batch = choose_batch("bfs", size=4, count=1)
    with pytest.raises(OSError, match=r"expected a name that ends in \.npz or \.parquet, got \.csv"):
        tables.write(batch, tmp_path / "bfs.csv")
    with pytest.raises(OSError, match="got no ending"):
        tables.write(batch, tmp_path / "bfs")
    assert list(tmp_path.iterdir()) == []
