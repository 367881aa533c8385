"""Checks of record files: that they can be read, are the files that were written, and fit their place and weights.

What a record says is checked by `narkit.training.record_checks`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jax

from narkit.files import write_whole
from narkit.models.processors import PROCESSORS, written_out
from narkit.models.serialization import ModelFileError, load
from narkit.sweeps.cell_run import best_seed
from narkit.sweeps.cells import RUNNING
from narkit.sweeps.manifest import NAME as MANIFEST
from narkit.sweeps.manifest import OLDEST_WITH_DIGEST, ManifestError, file_digest, manifest_over
from narkit.sweeps.systems import SYSTEMS
from narkit.training.record import RunRecord
from narkit.training.record_checks import check_record
from narkit.training.run_directory import RECORD, RunDirectoryError

SET_ASIDE = "set_aside"


@dataclass(frozen=True)
class Checked:
    """A record file and what is wrong with it; nothing if it is good. One that may not be read is not damaged."""

    path: Path
    problems: tuple[str, ...]
    unreadable: bool = False
    record: RunRecord | None = None


def record_files(folder: str | os.PathLike) -> list[Path]:
    """Lists the records in a folder, at any depth, without those of running cells and those set aside before.

    These are all JSON files in folders that bear a system's name, and others that look like records.
    """
    files = sorted(Path(folder).rglob("*.json"))
    inner = [path for path in files if not {RUNNING, SET_ASIDE} & set(path.relative_to(folder).parts)]
    known = {*PROCESSORS, *SYSTEMS}
    return [path for path in inner if path.parent.resolve().name in known or _looks_like_a_record(path)]


def unreadable_folders(folder: Path) -> list[str]:
    """Lists the folders that could not be looked into, with the reason: what lies in them is not known."""
    found: list[str] = []
    for _ in os.walk(folder, onerror=lambda error: found.append(f"{error.filename}: {error.strerror}")):
        pass
    return found


def _looks_like_a_record(path: Path) -> bool:
    if path.name == MANIFEST:
        return False
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError):
        return path.name == RECORD
    return isinstance(values, dict) and {"format", "config", "curve", "selected"} <= set(values)


def check_file(path: Path) -> Checked:
    """Reads a record and looks for everything that can be wrong with it and with the weights beside it."""
    record = None
    try:
        path.read_bytes()
    except OSError as error:
        return Checked(path, (f"may not be read: {error.strerror or error}",), unreadable=True)
    try:
        record = RunRecord.load(path)
        problems = [*_check_digest(record, path), *check_record(record)]
        if not problems:  # what follows takes the rest for granted
            problems = [*_check_name(record, path), *_check_weights(record, path)]
    except (RunDirectoryError, ManifestError) as error:
        problems = [str(error).removeprefix(f"{path}: ")]
    except (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError) as error:  # of another type than said
        problems = [f"is not as narkit writes it ({type(error).__name__}: {error})"]
    return Checked(path, tuple(problems), record=record)


def _check_digest(record: RunRecord, path: Path) -> Iterator[str]:
    """Checks the digest of an old record, which is in the manifest above it; newer ones were compared when read."""
    if record.format >= OLDEST_WITH_DIGEST:
        return
    manifest = manifest_over(path)
    if manifest is None:  # of a folder that nobody has made one for
        return
    digest = manifest.digest_of(path)
    if digest is None:
        yield f"is of format {record.format} and not named in {manifest.folder / MANIFEST}"
    elif digest != file_digest(path):
        yield f"its content is not what was written: {manifest.folder / MANIFEST} has another SHA-256 of it"


def set_aside(checked: Checked) -> Path:
    """Moves a damaged record and its weights into `set_aside/` beside it, with the reasons; overwrites nothing."""
    folder = checked.path.parent / SET_ASIDE
    folder.mkdir(exist_ok=True)
    number, stem = 1, checked.path.stem
    while any(folder.glob(f"{stem}.*")):
        number += 1
        stem = f"{checked.path.stem}-{number}"
    write_whole(folder / f"{stem}.reason.txt", "".join(f"{problem}\n" for problem in checked.problems))
    for suffix in (".safetensors", ".json"):
        file = checked.path.with_suffix(suffix)
        if file.exists():
            file.rename(folder / f"{stem}{suffix}")
    return folder / f"{stem}.json"


def _check_name(record: RunRecord, path: Path) -> Iterator[str]:
    config, path = record.config, path.parent.resolve() / path.name
    if path.name == RECORD:  # the folder of a run, which may have any name
        return
    system = record.system or config.processor
    if list(config.algorithms) != [path.stem] or system != path.parent.name:
        said = f"{system}/{','.join(config.algorithms)}"
        yield f"is the record of {said}, not of {path.parent.name}/{path.stem}"


def _check_weights(record: RunRecord, path: Path) -> Iterator[str]:
    weights = record.weights
    if weights is None:
        return
    file = path.parent / weights.file
    if weights.file != f"{path.stem}.safetensors":
        yield f"weights: expected the name {path.stem}.safetensors, got {weights.file}"
        return
    if not file.is_file():
        yield f"weights: expected the file {file.name} beside the record, got none"
        return
    if hashlib.sha256(file.read_bytes()).hexdigest() != weights.sha256:
        yield f"weights: {file.name} is not the file that was written with the record (its SHA-256 differs)"
        return
    if weights.rule not in record.rules or weights.seed != best_seed(record, weights.rule):
        yield f"weights: seed {weights.seed} is not the best by validation under rule {weights.rule}"
    try:
        reasoner = load(file)
    except ModelFileError as error:
        yield f"weights: {error}"
        return
    count = sum(leaf.size for leaf in jax.tree.leaves(reasoner))
    config = record.config
    named = (reasoner.processor_name, json.loads(reasoner.processor_options))
    fields = (reasoner.algorithms, *written_out(*named), reasoner.hidden_size, reasoner.interfaces.changed)
    wanted = written_out(config.processor, config.processor_options)
    expected = (config.algorithms, *wanted, config.hidden_size, config.interfaces.changed)
    if fields != expected or count != record.parameters:
        yield f"weights: expected {expected} with {record.parameters} parameters, got {fields} with {count}"
