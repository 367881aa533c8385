"""The script that measures conversions runs, here on a few samples."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "conversion.py"


@pytest.mark.filterwarnings("default")  # PyTorch Geometric, where installed, uses what PyTorch deprecates
def test_measures_every_conversion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "conversion.md"
    seconds = runpy.run_path(str(SCRIPT))["main"](["--count", "3", "--size", "4", "--repeats", "1", "--out", str(out)])
    assert {"NPZ file", "Parquet file", "NetworkX graphs"} <= set(seconds)
    assert all(0 < value < 60 for value in seconds.values())
    assert out.read_text() + "\n" == capsys.readouterr().out
    assert all(f"| {name} | " in out.read_text() for name in seconds)
