"""The manifest of a folder of results: digests of the records that are too old to carry their own.

`manifest.json` lies at the top of the folder and names every record of format 2 below it, by its path, with the SHA-256
of the file. It is made once by `narkit records manifest FOLDER`; a record that it names is never rewritten.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from narkit.files import write_whole

NAME = "manifest.json"
FORMAT = 1
OLDEST_WITH_DIGEST = 3  # the format of records from which on they carry their own


class ManifestError(ValueError):
    """A manifest that cannot be read, or that contradicts the files that it names."""


@dataclass(frozen=True)
class Manifest:
    """The digests of records, by their path below the folder that the manifest lies in."""

    folder: Path
    digests: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        path = folder / NAME
        try:
            values = json.loads(path.read_text())
            if values["format"] != FORMAT or not isinstance(values["records"], dict):
                raise ValueError(f"expected format {FORMAT} with records, got {values['format']!r}")
            return cls(folder, {str(name): str(digest) for name, digest in values["records"].items()})
        except (KeyError, TypeError, ValueError) as error:
            raise ManifestError(
                f"{path}: expected a manifest as `narkit records manifest` writes it: {error}"
            ) from None

    def write(self) -> Path:
        values = {"format": FORMAT, "records": dict(sorted(self.digests.items()))}
        path = self.folder / NAME
        write_whole(path, json.dumps(values, indent=2) + "\n")
        return path

    def digest_of(self, path: Path) -> str | None:
        """Returns the digest of a record that lies below the folder; None if it is not named."""
        return self.digests.get(path.resolve().relative_to(self.folder.resolve()).as_posix())

    def missing(self) -> list[Path]:
        """Lists the records that are named and are not there."""
        return [self.folder / name for name in self.digests if not (self.folder / name).is_file()]


def manifest_over(path: Path) -> Manifest | None:
    """Finds the nearest manifest in the folder of a record or in one above it; None if there is none."""
    for folder in path.resolve().parents:
        if (folder / NAME).is_file():
            return Manifest.read(folder)
    return None


def file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_manifest(folder: Path, files: list[Path]) -> Manifest:
    """Makes a manifest of the old ones among these records. Its earlier entries stay: an edited record is refused."""
    made = Manifest.read(folder) if (folder / NAME).is_file() else Manifest(folder, {})
    for path in files:
        if not is_old(path):
            continue
        name, found = path.relative_to(folder).as_posix(), file_digest(path)
        if made.digests.setdefault(name, found) != found:
            raise ManifestError(
                f"{path} is not the file that {folder / NAME} names: its SHA-256 differs. Restore it; if the new "
                "content is meant, remove its line there first"
            )
    return made


def is_old(path: Path) -> bool:
    """Returns whether a file is a record of a format without a digest of its own."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    found = values.get("format") if isinstance(values, dict) else None
    return isinstance(found, int) and found < OLDEST_WITH_DIGEST
