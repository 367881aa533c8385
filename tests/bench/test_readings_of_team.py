"""The readings of TEAM: the first is TEAM, all but one have its number of parameters, and the page has the table."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import narkit
from narkit.models.processors.team import TEAM
from narkit.training.config import BENCHMARK, Validation
from narkit.training.presets import PRESETS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "readings_of_team.py"))


def test_the_first_reading_is_team(script: dict[str, Any]) -> None:
    team = TEAM(8, key=jax.random.key(0))
    first = script["ReadingOfTeam"](8, "team", key=jax.random.key(1))
    layer = team.attention
    parts = ("on_nodes", "on_edges", "on_graph", "attention", "attention_bias", "value", "messages")
    first = eqx.tree_at(
        lambda reading: tuple(getattr(reading, part) for part in parts),
        first,
        (
            (layer.node_i, layer.node_j, layer.node_k),
            (layer.edge_ij, layer.edge_ik, layer.edge_jk),
            *(layer.graph, layer.attention, layer.attention_bias, layer.value, team.message_passing),
        ),
    )
    batch = narkit.sample("bfs", size=5, batch_size=2, seed=0)
    expected = narkit.Reasoner("bfs", TEAM, 8, key=jax.random.key(2))
    expected = eqx.tree_at(lambda r: r.processor, expected, team)
    ours = narkit.Reasoner("bfs", script["ReadingOfTeam"], 8, key=jax.random.key(2))
    ours = eqx.tree_at(lambda r: r.processor, ours, first)
    have, want = (narkit.predict(network, batch).output_logits["pi"] for network in (ours, expected))
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_numbers_of_parameters(script: dict[str, Any]) -> None:
    team = eqx.filter_eval_shape(TEAM, 128, key=jax.random.key(0))
    expected = sum(leaf.size for leaf in jax.tree.leaves(team))
    counts = {name: script["num_parameters"](name) for name in script["READINGS"]}
    assert counts.pop("both_no_gate") < expected
    assert set(counts.values()) == {expected}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reversed_receiver_skip_norm_no_gate", "skip"])
def test_a_reading_trains(name: str, script: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(narkit.PROCESSORS, "reading_of_team", script["ReadingOfTeam"])
    monkeypatch.setitem(script["train"].__globals__, "TEST", Validation("test", 8, 2, BENCHMARK))
    small = {"steps": 2, "validate_every": 1, "hidden_size": 8, "batch_size": 2, "sizes": (4,)}
    validations = (Validation("id", 4, 2), Validation("ood", 6, 2))
    run = script["train"]("bfs", name, 2, small | {"validations": validations})
    assert [point["step"] for point in run["curve"]] == [1, 2]
    assert script["table"]({"runs": {name: run}}).count("\n") == 2


def test_the_command_trains_what_the_file_lacks(
    tmp_path: Path, script: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the processor whose program takes least to compile, beside a reading that was trained before."""
    main, out = script["main"], tmp_path / "readings.json"
    monkeypatch.setitem(narkit.PROCESSORS, "reading_of_team", script["ReadingOfTeam"])  # as the command does, for good
    tiny = {"hidden_size": 4, "batch_size": 2, "sizes": (4,), "validations": (Validation("ood", 4, 2),)}
    monkeypatch.setitem(PRESETS, "tiny", tiny)
    monkeypatch.setitem(main.__globals__, "TEST", Validation("test", 4, 2, BENCHMARK))
    done = {"curve": [{"step": 10_000, "scores": {"ood": [0.5], "test": [0.25]}}]}
    out.write_text(json.dumps({"algorithm": "bfs", "runs": {"skip": done}}))
    small = ["--algorithm", "bfs", "--preset", "tiny", "--seeds", "1", "--steps", "1", "--validate-every", "1"]
    main([*small, "--readings", "skip,deepsets", "--out", str(out)])
    stored = json.loads(out.read_text())
    assert stored["runs"]["skip"] == done
    run = stored["runs"]["deepsets"]
    assert run["kernels"] == "plain" and run["config"]["processor"] == "deepsets"
    (point,) = run["curve"]
    assert point["step"] == 1 and point["scores"].keys() == {"ood", "test"}
    trained = capsys.readouterr().out
    assert trained.endswith(f"{script['table'](stored)}\n")
    main(["--show", str(out)])
    assert capsys.readouterr().out == f"{script['table'](stored)}\n"


def test_the_command_says_what_it_expects(script: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        script["main"]([])
    assert "expected --out FILE.json, or --show FILE.json" in capsys.readouterr().err


def test_the_page_has_the_table(script: dict[str, Any]) -> None:
    stored = json.loads((ROOT / "results" / "readings" / "insertion_sort.json").read_text())
    assert script["table"](stored) in (ROOT / "docs" / "reproduction.md").read_text()
