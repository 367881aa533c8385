"""`narkit records check`: are the records of a folder complete, possible and consistent?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narkit.cli.choices import plain_errors
from narkit.cli.help import examples

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    no_args_is_help=True,
    help="Look after the records of finished runs.",
    epilog=examples("narkit records check results"),
)


@app.command("check", epilog=examples("narkit records check results", "narkit records check results/paper --dry-run"))
def check_records(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with records, at any depth.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Move nothing.")] = False,
) -> None:
    """Check every record and its weights. A damaged one is named and moved into set_aside/ beside it."""
    from rich.console import Console

    with plain_errors("FOLDER"):
        _check(Console(), folder, dry_run)


def _check(console: Console, folder: Path, dry_run: bool) -> None:
    """Names every damaged record and sets it aside, and ends in exit code 1 if there was one."""
    from narkit.sweeps.checks import check_file, record_files, set_aside

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
