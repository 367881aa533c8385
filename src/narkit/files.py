"""Files that are written whole or not at all, and contents with a digest that finds what was changed since."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

DIGEST = "digest"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a new file, which takes its place when the block ends. If the block raises, what was there before stays.

    Until then it lies beside the place under another name, so that nobody ever finds half a file.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp makes files that only their owner may read
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file whole or not at all."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_with_folder(path: Path, content: str | bytes) -> None:
    """Writes a file whole or not at all; makes the file's folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)


def digest(values: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a content in one certain form, whatever the order of its entries and its white space."""
    content = {name: value for name, value in values.items() if name != DIGEST}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Adds a digest, which finds accidents and careless edits; `records check --rescore` finds the rest."""
    return {**values, DIGEST: digest(values)}


def check_place(path: Path, with_folder: bool = False) -> None:
    """Raises where a file cannot be written, before anything is computed for it; `with_folder` if that is made, too."""
    if not str(path.name):
        raise IsADirectoryError(f"expected the name of a file, got {str(path)!r}")
    if path.is_dir():
        raise IsADirectoryError(f"{path}: expected the name of a file, got that of a folder")
    if with_folder:
        return check_folder(path.parent)
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(f"{path.parent}: expected a folder, got a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"the folder {path.parent} cannot be written to; choose another")


def check_folder(folder: Path) -> None:
    """Raises where a folder to write into cannot be had: it is a file, or lies below one, or may not be written to."""
    for place in (folder, *folder.absolute().parents):
        if place.is_dir():
            if not os.access(place, os.W_OK | os.X_OK):
                raise PermissionError(f"the folder {place} cannot be written to; choose another")
            return
        if place.exists() or place.is_symlink():
            raise NotADirectoryError(f"{place}: expected a folder, or none yet, got a file")


def _umask() -> int:
    """Returns the mask of new files' permissions, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
