"""The page of a run: what it knows of every algorithm, and that it is one file that nothing can break out of."""

import base64
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

import narkit
from narkit.algorithms.meanings import value_names
from narkit.data.execution import random_run
from narkit.errors import BatchError
from narkit.report.drawings import drawing_kind, signs
from narkit.report.layout import place
from narkit.solve.viewer import View, ViewedRun, page
from narkit.solve.viewer.attention import packed
from narkit.solve.viewer.document import describe
from narkit.spec import Kind, Stage, stage_of


def run_with_itself(name: str, size: int = 6, **options: object) -> ViewedRun:
    """A run of a network that is always right."""
    truth = random_run(name, size=size, seed=1, density=0.7)
    hints = {hint: values[1:, 0] for hint, values in truth.hints.items()}
    outputs = {output: values[0] for output, values in truth.outputs.items()}
    return ViewedRun(truth, hints, outputs, network="itself", **options)  # type: ignore[arg-type]


def data_of(html: str) -> dict:
    found = re.search(r'<script type="application/json" id="run">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("name", sorted(narkit.ALGORITHMS))
def test_every_algorithm_has_its_page(name: str) -> None:
    run = run_with_itself(name)
    known = data_of(page(run))
    entry = narkit.ALGORITHMS[name]
    moving = {hint for hint, probe in stage_of(entry.spec, Stage.HINT).items() if not probe.constant}
    assert {probe["name"] for probe in known["probes"] if probe["stage"] == "hint"} == moving
    assert {probe["name"] for probe in known["probes"] if probe["stage"] == "output"} == set(run.truth.outputs)
    for probe in known["probes"]:
        assert len(probe["meaning"].split()) > 1
        assert probe["sign"] is not None or probe["drawnAs"] in moving
        assert len(probe["truth"]) == (run.num_steps if probe["stage"] == "hint" else 1)
        assert not any(probe["wrong"])
        assert probe["kind"] != "categorical" or len(probe["names"]) == entry.spec[probe["name"]].num_classes
    assert known["firstError"] is None
    assert len(known["drawing"]["lists"]) == sum(
        {*list_.values()} - {list_["title"]} <= {*entry.spec} for list_ in known["drawing"]["lists"]
    )


@pytest.mark.parametrize("name", sorted(narkit.ALGORITHMS))
def test_values_are_those_of_the_trajectory(name: str) -> None:
    run = run_with_itself(name)
    for described in describe(run)["probes"]:
        if described["stage"] != "hint":
            continue
        probe, row = run.spec[described["name"]], []
        for step, changed in enumerate(described["truth"]):
            row = row if changed is None else changed
            values = run.truth.hints[described["name"]][step, 0]
            if probe.kind in (Kind.MASK_ONE, Kind.CATEGORICAL):
                marked = np.where((values == 1).any(-1), values.argmax(-1), -1)
                assert row == marked.reshape(-1).tolist()
            else:
                np.testing.assert_allclose(row, values.reshape(-1), rtol=1e-3, atol=1e-6)


def test_differences_are_found_where_they_are() -> None:
    run = run_with_itself("dijkstra")
    assert run.hints is not None and run.outputs is not None
    hints = {name: values.copy() for name, values in run.hints.items()}
    outputs = {name: values.copy() for name, values in run.outputs.items()}
    hints["d"][1, 3] += 0.3
    hints["d"][0, 2] += 0.2  # within the tolerance
    outputs["pi"][4] = (outputs["pi"][4] + 1) % 6
    known = describe(ViewedRun(run.truth, hints, outputs, network="wrong"))
    assert known["firstError"] == {"step": 2, "probe": "d"}
    wrong = {probe["name"]: probe["wrong"] for probe in known["probes"]}
    assert wrong["d"] == [[], [], [3], *[[]] * (run.num_steps - 3)]
    assert wrong["pi"] == [[4]]


def test_what_does_not_count_is_never_wrong() -> None:
    run = run_with_itself("bridges")
    assert run.hints is not None
    hints = {**run.hints, "is_bridge_h": np.where(run.hints["is_bridge_h"] == -1, 1, run.hints["is_bridge_h"])}
    assert describe(ViewedRun(run.truth, hints, run.outputs))["firstError"] is None


def test_a_page_without_a_network_shows_the_textbook() -> None:
    known = describe(ViewedRun(random_run("bfs", size=5, seed=1, density=0.7)))
    assert known["network"] is None
    assert all(probe["network"] is None and probe["wrong"] is None for probe in known["probes"])


def test_labels_cannot_break_out_of_the_page() -> None:
    labels = ["</script><script>alert(1)</script>", "<b>", '"', "&amp;", "Ulm", "ü"]
    html = page(run_with_itself("bfs", labels=labels))
    assert data_of(html)["labels"] == labels
    assert html.count("</script>") == 2
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg|http-equiv", "", html)


def test_a_run_is_checked() -> None:
    truth = random_run("bfs", size=5, seed=1, density=0.7)
    with pytest.raises(BatchError, match="expected a raw batch of one run"):
        ViewedRun(narkit.transform(truth))
    with pytest.raises(BatchError, match="expected 5 labels, one per node, got 2"):
        ViewedRun(truth, labels=["a", "b"])


def test_a_view_is_shown_and_saved(tmp_path: Path) -> None:
    view = View(page(run_with_itself("bfs")))
    frame = view._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in frame and "<script" not in frame
    assert view.save(tmp_path / "new" / "run.html").read_text(encoding="utf-8") == view.html


def test_attention_is_packed_by_bytes() -> None:
    attention = np.random.default_rng(0).dirichlet(np.ones(5), size=(4, 5, 5))
    held = packed(attention)
    steps = np.frombuffer(zlib.decompress(base64.b64decode(held["data"])), np.uint8).reshape(4, 5, 5, 5)
    restored = np.add.accumulate(steps, axis=0, dtype=np.uint8) / held["levels"]
    assert held["every"] == 1 and held["kept"] == 4
    np.testing.assert_allclose(restored, attention, atol=0.5 / 255 + 1e-9)


def test_much_attention_is_kept_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = np.random.default_rng(0).dirichlet(np.ones(5), size=(16, 5, 5))
    monkeypatch.setattr("narkit.solve.viewer.attention.LARGEST_PAYLOAD", 700)
    held = packed(attention)
    assert held["every"] == 4 and held["kept"] == 4
    monkeypatch.setattr("narkit.solve.viewer.attention.LARGEST_PAYLOAD", 10)
    assert packed(attention)["kept"] == 0


def test_a_page_of_sixteen_nodes_is_small() -> None:
    truth = random_run("bubble_sort", size=16, seed=1, density=0.5)
    steps = int(truth.lengths[0]) - 1
    noise = np.random.default_rng(0).dirichlet(np.ones(16), size=(steps, 16, 16))  # nothing can be saved on it
    hints = {hint: values[1:, 0] for hint, values in truth.hints.items()}
    outputs = {output: values[0] for output, values in truth.outputs.items()}
    assert steps == 120
    assert len(page(ViewedRun(truth, hints, outputs, attention=noise)).encode()) < 2_000_000


def test_a_path_is_drawn_without_crossings() -> None:
    path = np.zeros((7, 7))
    order = [3, 0, 5, 1, 6, 2, 4]
    path[order[:-1], order[1:]] = 1
    positions = place(path)
    assert positions.min() >= 0 and positions.max() <= 1
    gaps = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    assert gaps[order[0], order[-1]] > gaps[order[0], order[1]]
    for count in (1, 2, 3, 90):
        assert np.isfinite(place(np.zeros((count, count)))).all()
        assert np.isfinite(place(np.ones((count, count)))).all()


def test_own_algorithms_need_no_entry() -> None:
    entry = narkit.ALGORITHMS["bfs"]
    assert drawing_kind(entry) == "graph"
    assert set(signs(entry)) == {"reach_h", "pi_h"}
    assert value_names("bfs", "reach_h") == ()
    assert value_names("dfs", "color") == ("white", "gray", "black")
