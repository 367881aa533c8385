"""The script behind benchmarks/cluster.md, on a sweep of one cell."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cluster.py"


@pytest.mark.cluster
def test_one_real_cell_is_measured(tmp_path: Path) -> None:
    options = ["--parts", "real", "--real", "1", "--real-workers", "1", "--out", str(tmp_path / "cluster.md")]
    done = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    row = (tmp_path / "cluster.md").read_text().strip().splitlines()[-1].split("|")
    workers, seconds, to_first_step = (float(word) for word in row[1:4])
    assert workers == 1.0 and 0.0 < to_first_step <= seconds  # both are rounded to a tenth
