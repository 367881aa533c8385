"""The page: one HTML file with the run, the drawings and all that drives them."""

from __future__ import annotations

import functools
import html
import importlib.resources
import inspect
import json
import string
from typing import Any

import numpy as np

from narkit.algorithms.meanings import value_names
from narkit.report.drawings import Sign, completed_hint, drawing, signs
from narkit.solve.problem import SCALAR_TOLERANCE, as_numbers, wrong
from narkit.solve.viewer.attention import packed
from narkit.solve.viewer.run import ViewedRun, default_labels
from narkit.spec import Kind, Probe, Stage

SCRIPTS = ("core", "graph", "array", "strings", "points", "tables", "attention", "words", "lists", "legend", "main")
FIRST_STEP_GIVEN = "The network is given the first step; everything after it is its own."


def render(run: ViewedRun) -> str:
    """Renders the page of a run: complete, with no need of a network or of another file."""
    template = string.Template(_part("page.html"))
    title = f"{run.entry.name} · {run.network}" if run.network else run.entry.name
    return template.substitute(
        title=html.escape(title),
        style=_part("style.css"),
        script="\n".join(_part(f"{name}.js") for name in SCRIPTS),
        # A label may hold "</script>"; in JSON a slash may be escaped, so nothing can end the element early.
        data=json.dumps(describe(run), separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/"),
    )


@functools.cache
def _part(name: str) -> str:
    return (importlib.resources.files("narkit.solve.viewer") / "page" / name).read_text(encoding="utf-8")


def describe(run: ViewedRun) -> dict[str, Any]:
    """Describes the run as JSON for the page: what probes mean, their values at every step, and where they differ."""
    entry = run.entry
    about = (inspect.getdoc(entry.function) or "").split("\n\n")
    probes = _probes(run)
    return {
        "algorithm": entry.name,
        "summary": about[0],
        "about": [paragraph.replace("\n", " ") for paragraph in about[1:]],
        "network": run.network if run.outputs is not None else None,
        "labels": [str(label) for label in run.labels],
        "places": _places(run),
        "steps": run.num_steps,
        "notes": [*run.notes, *([FIRST_STEP_GIVEN] if run.hints else [])],
        "probes": probes,
        "firstError": first_error(probes),
        "tolerance": SCALAR_TOLERANCE,
        "drawing": drawing(entry, run.inputs, None if run.labels == default_labels(run.truth) else run.own),
        "attention": None if run.attention is None else packed(run.attention),
    }


def _places(run: ViewedRun) -> list[str]:
    """Returns the names of the nodes in sentences: labels, told apart by their place if two are the same."""
    labels = [str(label) for label in run.labels]
    if "string" in run.truth.inputs:
        second = run.truth.inputs["string"][0]
        count = int((second == 0).sum())
        first_name, second_name = value_names(run.entry.name, "string")
        return [
            f"{label} ({second_name if second[node] else first_name} {node - count if second[node] else node})"
            for node, label in enumerate(labels)
        ]
    if len(set(labels)) == len(labels):
        return labels
    return [f"{label} (index {node})" for node, label in enumerate(labels)]


def first_error(probes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the first step at which the network differs, and the first such probe; None if nothing differs."""
    found = [
        {"step": step, "probe": probe["name"]}
        for probe in probes
        for step, places in enumerate(probe["wrong"] or [], start=probe["begins"])
        if places
    ]
    return min(found, key=lambda error: error["step"], default=None)


def _probes(run: ViewedRun) -> list[dict[str, Any]]:
    """Describes the hints that move, then the outputs."""
    shown = signs(run.entry)
    return [
        _probe(run, name, probe, shown.get(name))
        for stage in (Stage.HINT, Stage.OUTPUT)
        for name, probe in run.spec.items()
        if probe.stage is stage and not probe.constant
    ]


def _probe(run: ViewedRun, name: str, probe: Probe, sign: Sign | None) -> dict[str, Any]:
    """Describes one probe. `begins` is the step of the first value: outputs come after the last hint."""
    is_output = probe.stage is Stage.OUTPUT
    if is_output:
        true, network = run.truth.outputs[name], None if run.outputs is None else np.asarray(run.outputs[name])[None]
    else:
        true, network = run.true_steps(name), run.network_steps(name)
    return {
        "name": name,
        "stage": str(probe.stage),
        "location": str(probe.location),
        "kind": str(probe.kind),
        "meaning": probe.meaning,
        "names": list(value_names(run.entry.name, name)),
        "drawnAs": completed_hint(run.entry, name) if is_output else name,
        "unit": run.unit(name),
        "truth": _by_changes(probe, true),
        "network": None if network is None else _by_changes(probe, network),
        "wrong": None if network is None else [np.flatnonzero(s).tolist() for s in wrong(probe, network, true)],
        "begins": run.num_steps if is_output else 0,
        "sign": None if sign is None else {"shape": sign.shape, "tone": sign.tone, "on": sign.on},
    }


def _by_changes(probe: Probe, steps: np.ndarray) -> list[list[float] | None]:
    """Returns the values of every step, one number each; None if they are those of the step before."""
    steps = as_numbers(probe, steps).reshape(len(steps), -1)
    rows: list[list[float] | None] = []
    for step, values in enumerate(steps):
        if step and np.array_equal(values, steps[step - 1]):
            rows.append(None)
        elif probe.kind is Kind.SCALAR:
            rows.append([float(f"{value:.6g}") for value in values])
        else:
            rows.append(values.astype(int).tolist())
    return rows
