"""The user's own modules, sent along with cells to machines that do not have their files."""

from __future__ import annotations

import importlib.util
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from narkit.files import write_with_folder
from narkit.sweeps.user_code import UserCode

_installed: set[int] = set()  # what this process has installed, by its hash


@dataclass(frozen=True)
class ShippedCode:
    """The modules that `UserCode` imports, with the source files that they need.

    These are the modules themselves and all that they have imported from the folder they lie in. Packages that were
    installed (into `site-packages`) are not sent; every machine needs them.
    """

    user_code: UserCode
    files: Mapping[str, bytes] = field(default_factory=dict)  # path, relative to a folder on `sys.path` -> content

    @classmethod
    def of(cls, user_code: UserCode) -> ShippedCode:
        names = [*user_code.modules, *(module for module, _ in user_code.processors.values())]
        files: dict[str, bytes] = {}
        for root in dict.fromkeys(filter(None, map(_root, names))):
            for file in _loaded_from(root):
                files[file.relative_to(root).as_posix()] = file.read_bytes()
        return cls(user_code, files)

    def install(self) -> None:
        """Makes everything importable in this process and imports it; a second time does nothing."""
        key = hash((self.user_code.modules, tuple(self.files.items())))
        if key in _installed:
            return
        if self.files:
            folder = Path(tempfile.mkdtemp(prefix="narkit-code-"))
            for name, content in self.files.items():
                write_with_folder(folder / name, content)
            sys.path.insert(0, str(folder))
        self.user_code.install()
        _installed.add(key)


def _root(module: str) -> Path | None:
    """Returns the folder that a module is found in by its full name; None if it was installed as a package."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None or not Path(found.origin).is_file():
        return None
    file = Path(found.origin).resolve()
    levels = module.count(".") + (file.name == "__init__.py")
    return None if _is_installed(file) else file.parents[levels]


def _loaded_from(root: Path) -> Iterator[Path]:
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if not isinstance(name, str) or not name.endswith(".py"):
            continue
        file = Path(name).resolve()
        own = module.__name__ == "__main__" or module.__name__.partition(".")[0] in ("narkit", "conftest")
        if file.is_relative_to(root) and not own and not _is_installed(file):
            yield file


def _is_installed(file: Path) -> bool:
    folders = [*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_paths()["stdlib"]]
    return any(file.is_relative_to(Path(folder).resolve()) for folder in folders)
