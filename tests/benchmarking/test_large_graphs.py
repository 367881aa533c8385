"""The script that measures large graphs runs, here on small ones."""

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "large_graphs.py"


@pytest.mark.slow
def test_measures_training_and_attention(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(SCRIPT))["main"]
    out = tmp_path / "record.json"
    main(["--sizes", "5", "--attention", "2x4", "--repeats", "1", "--out", str(out)])
    record = json.loads(out.read_text())
    (row,) = record["training"]
    assert row["nodes"] == 5 and row["step_s"] > 0 and row["planned_gb"] > 0 and "failed" not in row
    assert record["attention"]["layer_ms"] > 0 and record["attention"]["processor_step_ms"] > 0
    assert len(capsys.readouterr().out.splitlines()) == 2
