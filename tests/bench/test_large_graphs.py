"""The script that measures large graphs runs, here on small ones."""

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "large_graphs.py"


def test_measures_training_and_attention(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main, out = runpy.run_path(str(SCRIPT))["main"], tmp_path / "new" / "record.json"
    # TEAM's processor is among what the attention compiles; another one trains, whose program takes half as long.
    sizes = ["--sizes", "5", "--attention", "2x4", "--repeats", "1"]
    returned = main([*sizes, "--processor", "mpnn", "--out", str(out)])
    record = json.loads(out.read_text())
    assert record == returned
    assert set(record) == {"device", "versions", "commit", "algorithm", "processor", "attention", "training"}
    assert record["versions"].keys() >= {"python", "narkit", "jax", "jaxlib"}
    assert (record["algorithm"], record["processor"]) == ("bfs", "mpnn")
    attention, (row,) = record["attention"], record["training"]
    assert (attention["batch"], attention["nodes"], attention["further_rounds"]) == (2, 4, 20)
    assert attention["layer_ms"] > 0 and attention["processor_step_ms"] > 0
    assert row["nodes"] == 5 and row["processor_steps"] >= 1 and "failed" not in row
    assert row["compile_s"] > 0 and row["step_s"] > 0 and row["planned_gb"] > 0 and row["loss"] > 0
    assert set(attention["paths"].values()) == set(row["paths"].values()) == {"plain"}
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [attention, row]
    assert list(out.parent.iterdir()) == [out]
