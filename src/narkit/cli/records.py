"""`narkit records`: are the records of a folder complete, possible, consistent, and what was written?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from narkit.cli.choices import examples, plain_errors, refuse
from narkit.printing import print_line

if TYPE_CHECKING:
    from narkit.training.record import RunRecord

app = typer.Typer(
    name="records",
    no_args_is_help=True,
    help="Look after the records of finished runs.",
    epilog=examples("narkit records check results", "narkit records manifest results"),
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with records, at any depth.")]


@app.command(
    "check",
    epilog=examples(
        "narkit records check results",
        "narkit records check results/paper --set-aside",
        "narkit records check results --rescore 3",
    ),
)
@plain_errors("FOLDER")
def check_records(
    folder: Folder,
    count: Annotated[
        int | None,
        typer.Argument(metavar="N", min=1, help="With --rescore: of how many records, drawn at random; else of all."),
    ] = None,
    move: Annotated[
        bool, typer.Option("--set-aside", help="Move damaged records and their weights into set_aside/ beside them.")
    ] = False,
    rescore: Annotated[
        bool,
        typer.Option("--rescore", help="Evaluate published weights again on the official test, within 0.5 points."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", hidden=True)] = False,
) -> None:
    """Check every record, its digest and its weights, and name what is not good. Nothing is changed unless told so."""

    from narkit.sweeps.checks import check_file, set_aside, unreadable_folders

    if dry_run:
        typer.echo("--dry-run: nothing is moved any more unless --set-aside is given; leave it out", err=True)
        if move:
            refuse("--set-aside", "expected --set-aside or --dry-run, got both")
    if count is not None and not rescore:
        refuse("N", f"expected --rescore with it, got only {count}")
    console, files = Console(), _files(folder)
    checked = [check_file(path) for path in files]
    damaged = [found for found in checked if found.problems and not found.unreadable]
    unreadable = [found for found in checked if found.unreadable]
    bad = [(each, f"set aside as {set_aside(each)}" if move else "damaged, left where it is") for each in damaged]
    for found, where in bad + [(each, "not checked") for each in unreadable]:
        print_line(console, f"{found.path}: {where}", "red")
        for problem in found.problems:
            print_line(console, f"    {problem}")
    lost = [f"{line}: a folder that could not be looked into" for line in unreadable_folders(folder)]
    lost += [f"{path}: named in the manifest, but it is not there" for path in _missing(folder)]
    for line in lost:
        print_line(console, line, "red")
    _tell_weights_without_record(console, folder)
    good = [(found.path, found.record) for found in checked if not found.problems and found.record is not None]
    counts = f"{len(files)} records, {len(good)} good, {len(damaged)} damaged"
    print_line(console, f"{folder}: {counts}" + (f", {len(unreadable)} not checked" if unreadable else ""))
    if not files:
        expected = "expected records at any depth, as `narkit sweep` or `narkit train` write them"
        print_line(console, f"{folder}: {expected}", "red")
    differing = _rescore(console, good, count) if rescore else 0
    if damaged or unreadable or lost or differing or not files:
        raise typer.Exit(1)


@app.command("manifest", epilog=examples("narkit records manifest results"))
@plain_errors("FOLDER")
def write_manifest(folder: Folder) -> None:
    """Write FOLDER/manifest.json, the digests of records that are too old to carry their own, which it leaves alone."""

    from narkit.sweeps.manifest import make_manifest

    files = _files(folder)
    manifest = make_manifest(folder, files)
    if manifest.digests:
        line = f"{manifest.write()}: digests of {len(manifest.digests)} records"
    else:
        line = f"{folder}: no manifest is needed: of {len(files)} records each carries its own digest"
    print_line(Console(), line)


def _files(folder: Path) -> list[Path]:
    from narkit.sweeps.checks import record_files

    if not folder.is_dir():
        refuse("FOLDER", f"{folder}: expected a folder with records")
    return record_files(folder)


def _missing(folder: Path) -> list[Path]:
    """Lists the records below the folder that the manifest over it names and that are gone."""
    from narkit.sweeps.manifest import manifest_over

    manifest, place = manifest_over(folder / "here"), folder.resolve()
    return [path for path in manifest.missing() if place in path.resolve().parents] if manifest else []


def _tell_weights_without_record(console: Console, folder: Path) -> None:
    for path in sorted(folder.rglob("*.safetensors")):
        hidden = any(part.startswith(".") or part == "set_aside" for part in path.relative_to(folder).parts)
        if not hidden and not path.with_suffix(".json").exists():
            print_line(console, f"{path}: weights without a record; a sweep that goes on writes both")


def _rescore(console: Console, records: list[tuple[Path, RunRecord]], count: int | None) -> int:
    """Scores weights again and says what was found; returns how many scores differ from the record's."""
    from narkit.sweeps.rescoring import TOLERANCE, choose, rescore

    chosen, differing = choose(records, count), 0
    for path, record in chosen:
        for found in rescore(path, record):
            verdict = "agrees" if found.agrees else f"differs by more than {TOLERANCE} points"
            differing += not found.agrees
            line = f"{path}: {found.algorithm}: the record says {found.said:.2f} %, scored again {found.found:.2f} %"
            print_line(console, f"{line}: {verdict}", None if found.agrees else "red")
    print_line(console, f"{len(chosen)} of {len(records)} records scored again, {differing} scores differ")
    return differing
