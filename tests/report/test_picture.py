"""Pictures of runs: that they show what the trajectory says, in the drawing that fits the algorithm."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import narkit
from narkit.data.batch import Batch
from narkit.data.eventful import eventful_run, readable_size
from narkit.data.execution import random_run
from narkit.report.panels import Moment, number
from narkit.report.panels.legend import legend_entries
from narkit.report.picture import draw_panel, save_picture, shown_steps
from narkit.spec import Stage, stage_of


def drawn(batch: Batch, step: int) -> tuple[Axes, list[str]]:
    axis = Figure().subplots()
    draw_panel(axis, batch, step)
    return axis, [text.get_text() for text in axis.texts]


@pytest.mark.parametrize("name", sorted(narkit.ALGORITHMS))
def test_every_algorithm_is_drawn_with_a_legend_of_its_hints(name: str) -> None:
    batch = eventful_run(name, readable_size(name), density=0.7)
    axis, _ = drawn(batch, int(batch.lengths[0]) - 1)
    assert axis.has_data() or axis.texts or axis.patches
    legend = " ".join(text.replace("\n", " ") for _, text in legend_entries(batch))
    hints = stage_of(batch.spec, Stage.HINT)
    for hint in Moment(batch, 0).signs("fill", "ring", "tag", "arrow", "value", "edge", "cell", "order", "row"):
        assert f"{hint}: {hints[hint].meaning}" in legend


def test_graphs_have_weights_distances_source_and_current_node() -> None:
    batch = random_run("dijkstra", size=5, seed=1, density=0.7)
    step = 2
    _, texts = drawn(batch, step)
    weights = batch.inputs["A"][0][np.triu(batch.inputs["adj"][0], 1) != 0]
    assert [text for text in texts if text.replace(".", "").isdigit() and "." in text] == [number(w) for w in weights]
    assert [text for text in texts if text.startswith("d ")] == [f"d {number(d)}" for d in batch.hints["d"][step, 0]]
    assert texts.count("u") == 1
    assert "the source" in [text for _, text in legend_entries(batch)]


def test_matrices_have_whole_ticks_and_blank_cells() -> None:
    batch = random_run("floyd_warshall", size=4, seed=3, density=0.5)
    axis, texts = drawn(batch, 1)
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "1", "2", "3"]
    known = batch.hints["msk"][1, 0] == 1
    numbers = [text for text in texts if not text.startswith("→")]
    assert numbers == [number(value) for value in batch.hints["D"][1, 0][known]]


def test_bars_stand_in_the_order_of_the_array() -> None:
    batch = random_run("insertion_sort", size=5, seed=1, density=0.7)
    axis, _ = drawn(batch, int(batch.lengths[0]) - 1)
    heights = [patch.get_height() for patch in axis.patches]  # type: ignore[attr-defined]
    at = [patch.get_x() for patch in axis.patches]  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.array(heights)[np.argsort(at)], np.sort(batch.inputs["key"][0]), rtol=1e-3)


def test_categories_have_their_names() -> None:
    batch = random_run("graham_scan", size=5, seed=1, density=0.7)
    axis, _ = drawn(batch, 1)
    assert axis.get_title() == "step 2\nphase: lowest point found"


def test_long_runs_are_shown_in_part() -> None:
    assert shown_steps(12) == list(range(12))
    some = shown_steps(40)
    assert len(some) == 12 and some[0] == 0 and some[-1] == 39


def test_a_picture_is_written(tmp_path: Path) -> None:
    save_picture(random_run("bfs", size=5, seed=1, density=0.7), tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
