"""The page in a real Chromium: the slider, playing, keys, switches and edges, against the trajectory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import narkit
from narkit.data.execution import random_run
from narkit.solve.viewer import View, ViewedRun, page

from .chromium import Chromium

pytestmark = pytest.mark.browser

KINDS = {
    "graph": "dijkstra",
    "search": "dfs",
    "tree": "mst_kruskal",
    "matrix": "floyd_warshall",
    "array": "quicksort",
    "intervals": "activity_selector",
    "strings": "kmp_matcher",
    "points": "jarvis_march",
    "table": "lcs_length",
    "triangle": "matrix_chain_order",
}


def run_with_errors(name: str, size: int = 6) -> ViewedRun:
    """A run whose network goes wrong at a known step: from the third on, its numbers and pointers are off."""
    truth = random_run(name, size=size, seed=1, density=0.8)
    rng = np.random.default_rng(0)
    hints = {}
    for hint, values in truth.hints.items():
        predicted = values[1:, 0].copy()
        if predicted.dtype == np.float32:
            predicted[1:] += 0.3
        elif predicted.dtype == np.int16:
            predicted[1:] = (predicted[1:] + 1) % truth.num_nodes
        hints[hint] = predicted
    outputs = {output: values[0] for output, values in truth.outputs.items()}
    attention = rng.dirichlet(np.ones(truth.num_nodes), (max(1, int(truth.lengths[0]) - 1), *2 * (truth.num_nodes,)))
    return ViewedRun(truth, hints, outputs, network="team/test", attention=attention)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


def opened(browser: Chromium, run: ViewedRun, folder: Path, width: int = 1400, scheme: str = "light") -> ViewedRun:
    file = folder / "run.html"
    file.write_text(page(run), encoding="utf-8")
    browser.look(width, 1000, scheme)
    browser.open(file)
    return run


def move_to(browser: Chromium, step: int) -> None:
    browser.do(
        "const s = document.getElementById('slider'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))", step
    )


def drawn(browser: Chromium, selector: str, attribute: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute(arguments[1]))"
    return browser.do(script, selector, attribute)


def nodes_of(browser: Chromium, selector: str) -> list[int]:
    """The nodes to which what is drawn belongs."""
    script = "return [...document.querySelectorAll(arguments[0])].map(e => +e.closest('[data-node]').dataset.node)"
    return browser.do(script, selector)


def texts(browser: Chromium, selector: str) -> list[str]:
    return browser.do("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)


def count(browser: Chromium, selector: str) -> int:
    return browser.do("return document.querySelectorAll(arguments[0]).length", selector)


def moment(browser: Chromium) -> str:
    return browser.do("return document.getElementById('moment').textContent")


def test_the_slider_shows_the_trajectory_of_a_graph(browser: Chromium, tmp_path: Path) -> None:
    run = opened(browser, run_with_errors("dijkstra"), tmp_path)
    hints = run.truth.hints
    for step in range(run.num_steps):
        move_to(browser, step)
        assert moment(browser) == f"Step {step + 1} of {run.num_steps}"
        arrows = [f"{i}-{j}" for i, j in enumerate(hints["pi_h"][step, 0]) if i != j]
        assert drawn(browser, "#truth [data-arrow]", "data-arrow") == arrows
        (node,) = nodes_of(browser, "#truth [data-tag=u]")
        assert node == hints["u"][step, 0].argmax()
        filled = nodes_of(browser, "#truth .node.filled")
        assert filled == np.flatnonzero(hints["mark"][step, 0]).tolist()
        queue = [int(node) for node in drawn(browser, "#truth [data-member]", "data-member")]
        assert sorted(queue) == np.flatnonzero(hints["in_queue"][step, 0]).tolist()
        shown = [float(text[2:].rstrip("*")) for text in texts(browser, "#truth [data-value=d]")]
        np.testing.assert_allclose(shown, hints["d"][step, 0], atol=0.006)
    weights = [float(text) for text in texts(browser, "#truth [data-weight]")]
    edges = np.argwhere(np.triu(run.truth.inputs["adj"][0], 1))
    np.testing.assert_allclose(weights, run.truth.inputs["A"][0][edges[:, 0], edges[:, 1]], atol=0.006)
    move_to(browser, run.num_steps)
    assert moment(browser) == "Answer"
    answer = [f"{i}-{j}" for i, j in enumerate(run.truth.outputs["pi"][0]) if i != j]
    assert drawn(browser, "#truth [data-arrow]", "data-arrow") == answer
    assert browser.errors() == []


def test_differences_are_red_and_the_button_finds_the_first(browser: Chromium, tmp_path: Path) -> None:
    run = opened(browser, run_with_errors("dijkstra"), tmp_path)
    browser.click("#error")
    assert moment(browser) == f"Step 3 of {run.num_steps}"
    words = browser.do("return document.getElementById('words').textContent")
    assert "≠ The network differs in 12 places" in words  # six numbers, six pointers
    assert count(browser, "#network [data-value=d].wrong") == 6
    assert count(browser, "#truth .wrong") == 0
    browser.click("[data-switch=d]")  # switched off, its errors are not told either
    assert count(browser, "#network [data-value=d]") == 0
    assert "in 6 places" in browser.do("return document.getElementById('words').textContent")
    browser.click("[data-switch=pi_h]")
    assert browser.do("return document.getElementById('error').disabled")


def test_keys_and_playing(browser: Chromium, tmp_path: Path) -> None:
    run = opened(browser, run_with_errors("dfs", size=4), tmp_path)
    browser.press("right", "right", "left")
    assert moment(browser) == f"Step 2 of {run.num_steps}"
    browser.press("end")
    assert moment(browser) == "Answer"
    browser.press("home")
    assert moment(browser) == f"Step 1 of {run.num_steps}"
    browser.do("document.getElementById('speed').value = '150'")
    browser.press("space")
    assert browser.do("return document.getElementById('words').getAttribute('aria-live')") == "off"
    browser.wait("return document.getElementById('moment').textContent === 'Answer'")
    browser.wait("return document.getElementById('play').textContent.includes('Play')")
    browser.press("e")
    assert moment(browser) == f"Step 3 of {run.num_steps}"
    assert browser.errors() == []


def test_an_edge_tells_its_attention(browser: Chromium, tmp_path: Path) -> None:
    run = opened(browser, run_with_errors("dijkstra"), tmp_path)
    assert run.attention is not None
    x, y, edge = browser.do(
        "const path = document.querySelector('#network .edge-hit'), m = path.getScreenCTM();"
        "const at = path.getPointAtLength(path.getTotalLength() / 3);"
        "return [at.x * m.a + m.e, at.y * m.d + m.f, path.dataset.target]"
    )
    browser.click_at(x, y)
    browser.wait("return document.querySelectorAll('#weights [data-third]').length > 0")
    i, j = map(int, edge.split("-"))
    for step in (0, 2):
        move_to(browser, step)
        thirds = [int(node) for node in drawn(browser, "#weights [data-third]", "data-third")]
        percents = [float(text.split()[0]) for text in texts(browser, "#weights span:nth-child(3n)")]
        expected = 100 * run.attention[step, i, j]
        assert thirds[0] == expected.argmax()
        np.testing.assert_allclose(percents, expected[thirds], atol=0.8)
    assert count(browser, "#network .attended") > 0
    browser.click("#forget")
    assert count(browser, "#network .attended") == 0
    for end in ("from", "to"):  # without a mouse: two lists
        browser.do(
            "const s = document.getElementById(arguments[0]); s.value = 2; s.dispatchEvent(new Event('change'))", end
        )
    browser.wait("return document.querySelectorAll('#weights [data-third]').length === 6")
    assert browser.errors() == []


def test_cells_and_nodes_choose_edges_too(browser: Chromium, tmp_path: Path) -> None:
    run = opened(browser, run_with_errors("matrix_chain_order"), tmp_path)
    assert run.attention is not None
    browser.click("#network [data-grid=m] [data-cell='2-4']")
    browser.wait("return document.querySelectorAll('#weights [data-third]').length > 0")
    thirds = drawn(browser, "#weights [data-third]", "data-third")
    assert int(thirds[0]) == run.attention[0, 2, 4].argmax()
    run = opened(browser, run_with_errors("quicksort"), tmp_path)
    assert run.attention is not None
    browser.click("#network [data-bar='3']")
    assert "From 3" in browser.do("return document.getElementById('attention-words').textContent")
    browser.click("#network [data-bar='1']")
    browser.wait("return document.querySelectorAll('#weights [data-third]').length > 0")
    assert int(drawn(browser, "#weights [data-third]", "data-third")[0]) == run.attention[0, 3, 1].argmax()
    assert browser.errors() == []


@pytest.mark.parametrize("name", sorted(narkit.ALGORITHMS))
def test_every_algorithm_is_drawn_at_every_step(browser: Chromium, tmp_path: Path, name: str) -> None:
    run = opened(browser, run_with_errors(name), tmp_path)
    for step in {*range(0, run.num_steps, max(1, run.num_steps // 8)), run.num_steps - 1, run.num_steps}:
        move_to(browser, step)
        expected = "Answer" if step == run.num_steps else f"Step {step + 1} of {run.num_steps}"
        assert moment(browser) == expected
    browser.do("document.getElementById('values').open = true")
    browser.wait("return document.querySelectorAll('#table td, #table p').length > 0")
    for switch in drawn(browser, "[data-switch]", "data-switch"):
        browser.click(f"[data-switch='{switch}']")
    assert browser.errors() == []


def test_a_notebook_shows_the_page_in_a_frame(browser: Chromium, tmp_path: Path) -> None:
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><p>cell</p>{View(page(run_with_errors('bfs')))._repr_html_()}", encoding="utf-8")
    browser.look(1000)
    browser.open(file)
    browser.into_frame(0)
    browser.wait("return document.querySelectorAll('#network [data-node]').length === 6")
    browser.press("right")


def test_bars_stand_in_the_order_of_the_array(browser: Chromium, tmp_path: Path) -> None:
    run = opened(browser, run_with_errors("quicksort"), tmp_path)
    for step in (0, 3, run.num_steps - 1):
        move_to(browser, step)
        before = run.truth.hints["pred_h"][step, 0].tolist()
        order = [next(node for node, other in enumerate(before) if node == other)]
        while len(order) < len(before):
            order.append(next(node for node, other in enumerate(before) if other == order[-1] and node not in order))
        assert [int(node) for node in drawn(browser, "#truth [data-bar]", "data-bar")] == order
        for pointer in "pri":
            x = browser.do(
                "const box = e => { const r = e.getBoundingClientRect(); return r.x + r.width / 2 };"
                "const tag = box(document.querySelector(`#truth [data-tag=${arguments[0]}]`));"
                "const bars = [...document.querySelectorAll('#truth [data-bar]')];"
                "return +bars.sort((a, b) => Math.abs(box(a) - tag) - Math.abs(box(b) - tag))[0].dataset.bar", pointer
            )  # fmt: skip
            assert x == run.truth.hints[pointer][step, 0].argmax()


def test_the_needle_lies_at_its_shift(browser: Chromium, tmp_path: Path) -> None:
    run = opened(browser, run_with_errors("naive_string_matcher", size=8), tmp_path)
    for step in range(run.num_steps):
        move_to(browser, step)
        assert drawn(browser, "#truth [data-shift]", "data-shift") == [str(run.truth.hints["s"][step, 0].argmax())]


def test_tables_fill_as_they_are_filled(browser: Chromium, tmp_path: Path) -> None:
    run = opened(browser, run_with_errors("matrix_chain_order"), tmp_path)
    for step in range(run.num_steps):
        move_to(browser, step)
        blank = {
            tuple(map(int, cell.split("-"))) for cell in drawn(browser, "#truth [data-grid=m] .cell.blank", "data-cell")
        }
        known = run.truth.hints["msk"][step, 0]
        assert blank == {(i, j) for i in range(1, 6) for j in range(i, 6) if not known[i, j]}


def test_matrices_of_floyd_warshall(browser: Chromium, tmp_path: Path) -> None:
    run = opened(browser, run_with_errors("floyd_warshall", size=5), tmp_path)
    move_to(browser, 2)
    blank = drawn(browser, "#truth [data-grid=D] .cell.blank", "data-cell")
    known = run.truth.hints["msk"][2, 0]
    assert blank == [f"{i}-{j}" for i in range(5) for j in range(5) if not known[i, j]]
    numbers = [float(text) for text in texts(browser, "#truth [data-grid=D] .cell-text") if text]
    np.testing.assert_allclose(numbers, run.truth.hints["D"][2, 0][known == 1], atol=0.006)


def test_the_hull_at_the_answer(browser: Chromium, tmp_path: Path) -> None:
    run = opened(browser, run_with_errors("graham_scan"), tmp_path)
    move_to(browser, run.num_steps)
    (corners,) = drawn(browser, "#truth [data-hull]", "data-hull")
    assert sorted(map(int, corners.split())) == np.flatnonzero(run.truth.outputs["in_hull"][0]).tolist()


LOOK = """
const channel = c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
const luminance = text => text.match(/[\\d.]+/g).slice(0, 3).map(c => channel(c / 255))
  .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
const clear = 'rgba(0, 0, 0, 0)';
const behind = e => {
  while (e && getComputedStyle(e).backgroundColor === clear) e = e.parentElement;
  return e ? getComputedStyle(e).backgroundColor : 'rgb(255, 255, 255)';
};
const contrast = e => {
  const [a, b] = [getComputedStyle(e).color, behind(e)].map(luminance);
  return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
};
const all = (selector, use) => [...document.querySelectorAll(selector)].map(use);
const named = e => (e.getAttribute('aria-label') || e.textContent || e.labels?.[0]?.textContent || '').trim();
return JSON.stringify({
  page: luminance(getComputedStyle(document.body).backgroundColor),
  contrast: Math.min(...all('p, li, h1, h2, label, summary, button:enabled', e => e.offsetParent ? contrast(e) : 21)),
  tooWide: document.documentElement.scrollWidth > innerWidth,
  unnamed: all('button, input, select', named).filter(name => !name).length,
  pictures: all('.drawing > svg', e => [e.getAttribute('role'), e.getAttribute('aria-label')]),
  fetched: performance.getEntriesByType('resource').length,
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_reads_well(browser: Chromium, tmp_path: Path, kind: str, width: int, scheme: str) -> None:
    run = opened(browser, run_with_errors(KINDS[kind]), tmp_path, width, scheme)
    for step in (0, run.num_steps // 2, run.num_steps):
        move_to(browser, step)
        seen: dict[str, Any] = json.loads(browser.do(LOOK))
        assert (seen["page"] < 0.1) == (scheme == "dark")
        assert seen["contrast"] >= 4.5
        assert not seen["tooWide"] and seen["unnamed"] == 0 and seen["fetched"] == 0
        assert len(seen["pictures"]) >= 2
        assert all(role == "img" and words for role, words in seen["pictures"])
    assert browser.errors() == []
