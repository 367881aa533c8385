"""A page for each algorithm: what it computes, every probe in words, a run as a picture, our systems' scores."""

from __future__ import annotations

import inspect
import io
import textwrap
from pathlib import Path

import narkit
from narkit.algorithms.meanings import value_names
from narkit.cli.listing import SIZE, steps_of_batches
from narkit.data.eventful import eventful_run, readable_size
from narkit.report.grid import read_grid
from narkit.report.picture import draw
from narkit.report.rendering import Table, TableRow, text
from narkit.report.tables import algorithm_table
from narkit.spec import Algorithm, Kind, Location, Probe, Stage, stage_of

INDEX = "algorithms/index.md"
NODES = 5  # of the run in the picture

STAGES = {
    Stage.INPUT: "What it is given",
    Stage.HINT: "What it notes at every step",
    Stage.OUTPUT: "What it answers",
}
PLACES = {Location.NODE: "every node", Location.EDGE: "every pair of nodes", Location.GRAPH: "the whole instance"}
KINDS = {
    Kind.SCALAR: "a number",
    Kind.MASK: "yes or no",
    Kind.MASK_ONE: "yes for exactly one node",
    Kind.CATEGORICAL: "one of several classes",
    Kind.POINTER: "a pointer to a node",
    Kind.SHOULD_BE_PERMUTATION: "a pointer to the node before it in an order",
    Kind.PERMUTATION_POINTER: "a pointer to the node before it in a cycle",
}


def _by_category() -> dict[str, list[Algorithm]]:
    found: dict[str, list[Algorithm]] = {}
    for entry in sorted(narkit.ALGORITHMS.values(), key=lambda entry: (entry.category, entry.name)):
        found.setdefault(entry.category, []).append(entry)
    return found


def navigation() -> list[dict]:
    """The pages by category, for the site's navigation."""
    return [
        {category.capitalize(): [{entry.name: f"algorithms/{entry.name}.md"} for entry in entries]}
        for category, entries in _by_category().items()
    ]


def pages(results: Path) -> dict[str, str | bytes]:
    """All pages and pictures by their address on the site."""
    table = algorithm_table(read_grid(results, empty=True))
    rows = {row.key: row for row in table.rows}
    made: dict[str, str | bytes] = {INDEX: _index(rows)}
    for name, entry in narkit.ALGORITHMS.items():
        made[f"algorithms/{name}.md"] = _page(entry, table, rows.get(name))
        made[f"algorithms/images/{name}.png"] = _picture(entry)
    return made


def _index(rows: dict[str, TableRow]) -> str:
    steps = steps_of_batches()
    lines = [
        "# The thirty algorithms",
        "",
        "CLRS-30 takes thirty algorithms from the textbook of Cormen, Leiserson, Rivest and Stein. Each has a page",
        "with what it computes, every probe in words, a run as a picture, and the scores of our systems.",
        "",
        "| algorithm | category | what it computes | steps at n = 16 |",
        "| --- | --- | --- | ---: |",
    ]
    for category, entries in _by_category().items():
        for entry in entries:
            title = rows[entry.name].label if entry.name in rows else entry.name
            lines.append(f"| [{title}]({entry.name}.md) | {category} | {entry.summary} | {steps[entry.name]} |")
    lines += ["", "The same on the command line: `narkit list`, `narkit data show bfs`."]
    return "\n".join(lines) + "\n"


def _page(entry: Algorithm, table: Table, row: TableRow | None) -> str:
    title = row.label if row else entry.name
    samples = 32 * entry.multiplier
    lines = [
        f"# {title}",
        "",
        inspect.getdoc(entry.function) or "",
        "",
        f"`{entry.name}` belongs to the category *{entry.category}*. The official test split has {samples} instances of"
        f" {entry.nodes_of_size(64)} nodes; a training batch on {entry.nodes_of_size(SIZE)} nodes takes"
        f" {steps_of_batches()[entry.name]} steps.",
        "",
        "## A run",
        "",
        f"![A run of {title} on {NODES} nodes, step by step](images/{entry.name}.png)",
        "",
        f"Drawn by `narkit data show {entry.name} --size {NODES} --seed 1 --picture run.png`, which also prints",
        "every value.",
        "",
        "## Probes",
        "",
        *_probes(entry),
        "## Our scores",
        "",
        *_scores(table, row),
        "## The textbook's code",
        "",
        "What narkit compiles and runs; `next_step` starts a new row of hints.",
        "",
        "```python",
        _source(entry),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _probes(entry: Algorithm) -> list[str]:
    lines = []
    for stage, heading in STAGES.items():
        lines += [
            f"### {heading}",
            "",
            "| probe | what it means | has a value for | each value is |",
            "| --- | --- | --- | --- |",
        ]
        for name, probe in stage_of(entry.spec, stage).items():
            kind = _kind(entry, name, probe)
            lines.append(f"| `{name}` | {_meaning(probe)} | {PLACES[probe.location]} | {kind} |")
        lines.append("")
    return lines


def _meaning(probe: Probe) -> str:
    meaning = probe.meaning.replace("|", "\\|")
    return f"{meaning[:1].upper()}{meaning[1:]}" + ("" if meaning.endswith(".") else ".")


def _kind(entry: Algorithm, name: str, probe: Probe) -> str:
    names = value_names(entry.name, name)
    if probe.kind is Kind.CATEGORICAL:
        kind = f"one of {', '.join(names)}"
    else:
        kind = f"{KINDS[probe.kind]} (0: {names[0]}, 1: {names[1]})" if len(names) == 2 else KINDS[probe.kind]
    return f"{kind}, the same at every step" if probe.constant else kind


def _scores(table: Table, row: TableRow | None) -> list[str]:
    if row is None:
        return ["No table has a row for this algorithm.", ""]
    groups: dict[str, dict[str, str]] = {}
    for heading, cell in zip(table.headings, row.entries, strict=True):
        groups.setdefault(heading.group or heading.label, {})[heading.label] = text(cell)
    labels = list(dict.fromkeys(label for cells in groups.values() for label in cells))
    lines = [f"| system | {' | '.join(labels)} |", f"| --- |{' ---: |' * len(labels)}"]
    lines += [
        f"| {group} | {' | '.join(cells.get(label, '–') for label in labels)} |" for group, cells in groups.items()
    ]
    note = "Micro-F1 in percent on the official test split: mean ± standard deviation (number of seeds)."
    return [*lines, "", f"{note} [All thirty algorithms](../results.md).", ""]


def _picture(entry: Algorithm) -> bytes:
    out = io.BytesIO()
    draw(eventful_run(entry.name, readable_size(entry.name, NODES), density=0.7)).savefig(out, dpi=110, format="png")
    return out.getvalue()


def _source(entry: Algorithm) -> str:
    """The function without its decorator."""
    source = textwrap.dedent(inspect.getsource(entry.function))
    return source[source.index(f"def {entry.function.__name__}(") :].rstrip()
