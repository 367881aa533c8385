"""`narkit records check`: are the records of a folder complete, possible and consistent?"""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from narkit.sweeps.checks import check_file, record_files, set_aside


def check_records(console: Console, folder: Path, dry_run: bool) -> None:
    """Names every damaged record and sets it aside, and ends in exit code 1 if there was one."""
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder}: expected a folder with records", param_hint="FOLDER")
    files = record_files(folder)
    damaged = 0
    for path in files:
        checked = check_file(path)
        if not checked.problems:
            continue
        damaged += 1
        where = "left where it is" if dry_run else f"set aside as {set_aside(checked)}"
        _say(console, f"{path}: {where}", "red")
        for problem in checked.problems:
            _say(console, f"    {problem}")
    for path in sorted(folder.rglob("*.safetensors")):
        hidden = any(part.startswith(".") or part == "set_aside" for part in path.relative_to(folder).parts)
        if not hidden and not path.with_suffix(".json").exists():
            _say(console, f"{path}: weights without a record; a sweep that goes on writes both")
    _say(console, f"{folder}: {len(files)} records, {len(files) - damaged} good, {damaged} damaged")
    if damaged:
        raise typer.Exit(1)


def _say(console: Console, text: str, style: str | None = None) -> None:
    console.print(text, soft_wrap=True, highlight=False, markup=False, style=style)
