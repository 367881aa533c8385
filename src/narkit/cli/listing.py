"""`narkit list`: what there is to choose from, as tables that fit 80 columns and as JSON."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from narkit.cli.choices import AsJson, examples, one_of
from narkit.spec import Algorithm, Stage, stage_of

SIZE = 16


def steps_of_batches() -> dict[str, int]:
    """Returns the processor steps of a training batch at nominal size 16; for others' algorithms it measures them."""
    from rich.progress import track

    from narkit.algorithms import ALGORITHMS
    from narkit.data.lengths import PROCESSOR_STEPS, processor_steps

    unknown = not set(ALGORITHMS) <= set(PROCESSOR_STEPS)
    names = track(ALGORITHMS, "measuring lengths", console=Console(stderr=True), transient=True, disable=not unknown)
    return {name: round(processor_steps(name, SIZE)) for name in names}


def describe_algorithms() -> list[dict[str, Any]]:
    """Describes the algorithms with all their probes, category by category."""
    from narkit.algorithms import ALGORITHMS

    lengths = steps_of_batches()
    return [
        {
            "name": entry.name,
            "category": entry.category,
            "summary": entry.summary,
            "typical_steps": lengths[entry.name],
            **{f"{stage}s": _probes(entry, stage) for stage in (Stage.INPUT, Stage.HINT, Stage.OUTPUT)},
        }
        for entry in sorted(ALGORITHMS.values(), key=lambda entry: (entry.category, entry.name))
    ]


def _probes(entry: Algorithm, stage: Stage) -> dict[str, dict[str, str]]:
    return {
        name: {"location": probe.location, "kind": probe.kind, "meaning": probe.meaning}
        for name, probe in stage_of(entry.spec, stage).items()
    }


def print_algorithms(console: Console, entries: list[dict[str, Any]]) -> None:
    """Prints the table of all algorithms, which fits 80 columns."""
    table = _table(f"{len(entries)} algorithms")
    table.add_column("algorithm", style="bold cyan", overflow="fold")
    table.add_column("category", style="green")
    for heading in ("in", "hints", "out", "steps"):
        table.add_column(heading, justify="right")
    for entry in entries:
        counts = [len(entry[stage]) for stage in ("inputs", "hints", "outputs")]
        table.add_row(entry["name"], entry["category"], *map(str, counts), str(entry["typical_steps"]))
    console.print(table)
    console.print(f"steps: those of a training batch at n = {SIZE}; in, hints, out: how many probes of each there are.")
    console.print("narkit data show ALGORITHM tells what every probe means.")


def describe_processors() -> list[dict[str, Any]]:
    """Describes the processors, built in and registered: what they say of themselves, and configured options."""
    from narkit.models.processors import PROCESSORS

    described = []
    for name, factory in PROCESSORS.items():
        options = dict(getattr(factory, "keywords", {}))  # of a configured class
        words = inspect.getdoc(getattr(factory, "func", factory)) or ""
        summary = words.split("\n")[0] + (f" With {_settings(options)}." if options else "")
        described.append({"name": name, "summary": summary, "options": options, "description": words})
    return described


def describe_presets() -> list[dict[str, Any]]:
    """Describes the presets, each in words and with the settings in which it differs from the default ones."""
    from narkit.training.presets import IN_WORDS, PRESETS, preset

    described = []
    for name, settings in PRESETS.items():
        values = preset(name, algorithms="bfs").to_json()
        chosen = {setting: values[setting] for setting in settings}
        described.append({"name": name, "summary": IN_WORDS.get(name, ""), "settings": chosen})
    return described


def print_named(console: Console, what: str, entries: list[dict[str, Any]]) -> None:
    """Prints entries that have a name and a summary, or settings."""
    table = _table(f"{len(entries)} {what}")
    table.add_column("name", style="bold cyan", no_wrap=True)
    table.add_column("what it is")
    for entry in entries:
        table.add_row(entry["name"], "\n".join(filter(None, [entry["summary"], _settings(entry.get("settings", {}))])))
    console.print(table)
    console.print(f"narkit list {what} NAME tells all about one.")


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in settings.items())


def _short(value: Any) -> str:
    """Formats a setting as one would type it; rules by name, validation sets by name and size."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "+".join(each["name"] + (f"(n={each['size']})" if "size" in each else "") for each in value)
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=None, padding=(0, 1), header_style="bold")


def describe_systems() -> list[dict[str, Any]]:
    """Describes the systems that tables compare: what is trained, by which preset, and the rule fixed for it."""
    from narkit.sweeps.systems import SYSTEMS

    described = []
    for system in SYSTEMS.values():
        fields = ("name", "title", "processor", "options", "settings", "preset", "rule")
        entry = {name: getattr(system, name) for name in fields} | {"seeds": system.num_seeds}
        recipe = f"processor {system.processor}, preset {system.preset}, rule {system.rule}, {system.num_seeds} seeds"
        described.append(entry | {"summary": f"{system.title}: {recipe}"})
    return described


def describe_rules() -> list[dict[str, Any]]:
    """Describes the selection rules that a run tracks, with validation sets `id` and `ood` and averaged weights."""
    from narkit.training.presets import preset
    from narkit.training.rules import default_rules

    found = default_rules(preset("paper", algorithms="bfs").validations, averaged=True)
    return [{"name": rule.name, **rule.to_json(), "summary": rule.in_words()} for rule in found]


LISTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "algorithms": describe_algorithms,
    "processors": describe_processors,
    "presets": describe_presets,
    "systems": describe_systems,
    "rules": describe_rules,
}


def describe_one(what: str, name: str) -> dict[str, Any]:
    """Describes one entry of a list completely: what the list says, and a preset's every setting."""
    entries = {entry["name"]: entry for entry in LISTS[what]()}
    entry = entries[one_of(what.removesuffix("s"), name, entries)]
    if what == "presets":
        from narkit.training.presets import preset

        entry["settings"] = preset(name, algorithms="bfs").to_json()
        del entry["settings"]["algorithms"]
    return entry


def print_one(console: Console, entry: dict[str, Any]) -> None:
    """Prints an entry, a line for everything that is known of it; what has parts of its own is indented below it."""
    table = _table(entry["name"])
    table.show_header = False
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    for key, value in entry.items():
        if key == "name" or value in ("", {}, [], None):
            continue
        if not isinstance(value, dict):
            table.add_row(key, Text(_short(value)))
            continue
        table.add_row(key)
        for name, part in value.items():
            probe = isinstance(part, dict) and "meaning" in part
            described = f"{part['meaning']} ({part['location']}, {part['kind']})" if probe else _short(part)
            table.add_row(Text(f"  {name}"), Text(described))
    console.print(table)


app = typer.Typer()


@app.command(
    "list",
    epilog=examples("narkit list", "narkit list processors", "narkit list presets paper", "narkit list systems --json"),
)
def list_choices(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="One of algorithms, processors, presets, systems and rules.")
    ] = "algorithms",
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Tell all about this one, such as a preset's every setting.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what there is to choose from: algorithms, processors, presets, systems or selection rules."""
    one_of("list", what, LISTS)
    found: Any = LISTS[what]() if name is None else describe_one(what, name)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif name is not None:
        print_one(Console(), found)
    elif what == "algorithms":
        print_algorithms(Console(), found)
    else:
        print_named(Console(), what, found)
