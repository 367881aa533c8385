"""The reference: public Python names by topic, and every command with its options, both read from the code."""

from __future__ import annotations

from typing import Any

from typer.main import get_command

import narkit
from narkit.cli import app

PYTHON, COMMANDS = "reference/python.md", "reference/command_line.md"
PAGES = (PYTHON, COMMANDS)

# Where a public name stands. What is in no list comes last, so that nothing is ever missing.
TOPICS = {
    "Ask a trained network": ["solve", "load", "solve.Answer"],
    "Data": ["ALGORITHMS", "run", "load_split", "sample", "transform", "Batch", "TrainingStream"],
    "Networks": [
        *("Reasoner", "predict", "Predictions", "evaluate", "TripletEdgeAttention"),
        *("PROCESSORS", "Processor", "DenseProcessor", "save"),
    ],
    "Training": ["train", "TrainConfig", "RunRecord", "Rule", "System"],
    "Your own algorithms": ["algorithm", "node", "edge", "graph", "constant", "Probe", "Stage", "Location", "Kind"],
}
# The package narkit.solve can be called, so what stands in it is no name of narkit's own.
ELSEWHERE = {"solve": "narkit.solve.running", "solve.Answer": "narkit.solve.answer"}
OTHERS = {
    "Other frameworks": [
        *("narkit.interop.torch.dataset", "narkit.interop.torch.Trajectories"),
        *("narkit.interop.pyg.dataset", "narkit.interop.pyg.convert"),
        *("narkit.interop.networkx.arguments", "narkit.interop.networkx.graphs"),
        *("narkit.interop.clrs.from_haiku", "narkit.interop.clrs.to_haiku"),
    ],
}


def pages() -> dict[str, str]:
    return {PYTHON: python_page(), COMMANDS: command_page()}


def python_page() -> str:
    """Directives for mkdocstrings, topic by topic."""
    places = {**narkit._MODULES, **ELSEWHERE}
    lines = [
        "# Python",
        "",
        "Names under `narkit` load when they are first used; `import narkit` alone takes milliseconds.",
        "",
    ]
    listed = {name for names in TOPICS.values() for name in names}
    topics = {**TOPICS, "More": [name for name in places if name not in listed]}
    for topic, names in topics.items():
        present = [name for name in names if name in places]
        if present:
            lines += [f"## {topic}", ""]
        for name in present:
            lines += _directive(f"{places[name]}.{name.rpartition('.')[2]}", f"narkit.{name}")
    for topic, names in OTHERS.items():
        lines += [f"## {topic}", ""]
        for name in names:
            lines += _directive(name, name)
    return "\n".join(lines) + "\n"


def _directive(path: str, heading: str) -> list[str]:
    return [f"::: {path}", "    options:", f"      heading: {heading}", f"      toc_label: {heading}", ""]


def command_page() -> str:
    """Every command: what it does, its arguments and options, examples."""
    lines = [
        "# Command line",
        "",
        "`narkit COMMAND --help` says the same. `python -m narkit` is another way to call it.",
        "",
    ]
    return "\n".join([*lines, *_command(get_command(app), ["narkit"])]) + "\n"


def _command(command: Any, words: list[str]) -> list[str]:
    title = " ".join(words)
    lines = [f"## {title}", "", *(_paragraphs(command.help or ""))]
    rows = [_row(parameter) for parameter in command.params if getattr(parameter, "name", "") != "help"]
    if rows:
        lines += ["| argument or option | what it is | default |", "| --- | --- | --- |", *rows, ""]
    examples = [line.strip() for line in (command.epilog or "").split("\n") if line.strip().startswith("narkit")]
    if examples:
        lines += ["```", *examples, "```", ""]
    for name, child in getattr(command, "commands", {}).items():
        lines += _command(child, [*words, name])
    return lines


def _paragraphs(text: str) -> list[str]:
    return [line for paragraph in text.strip().split("\n\n") for line in (" ".join(paragraph.split()), "")]


def _row(parameter: Any) -> str:
    argument = parameter.param_type_name == "argument"
    names = [parameter.metavar or parameter.name.upper()] if argument else [*parameter.opts, *parameter.secondary_opts]
    default = parameter.default
    shown = "" if default is None or default is False or callable(default) or parameter.required else f"`{default}`"
    words = (getattr(parameter, "help", "") or "").replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
    return f"| {', '.join(f'`{name}`' for name in names)} | {words} | {'required' if parameter.required else shown} |"
