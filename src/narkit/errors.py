"""Errors that say what was expected, what came, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

FEW = 6  # so many names are listed beside the nearest one


class UnknownNameError(KeyError, ValueError):
    """A name that is not known; the message proposes the nearest one."""

    def __init__(self, what: str, name: object, known: Iterable[str]):
        names = sorted(set(known))
        near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.4)
        listed = f"known: {', '.join(names) or 'none'}"
        hint = f"did you mean {near[0]!r}?" if near else listed
        if near and len(names) <= FEW:
            hint += f" {listed[0].upper()}{listed[1:]}"
        self.message = f"no {what} is named {name!r}; {hint}"
        super().__init__(self.message)

    def __str__(self) -> str:  # KeyError would print the message in quotes
        return self.message


class InstanceError(ValueError):
    """An instance that the algorithm cannot run on."""


class BatchError(ValueError):
    """A batch that does not follow its algorithm's spec."""


class MemoryNeedError(InstanceError):
    """Work that would need more memory than there is; nothing was allocated for it."""


def one_line(error: BaseException) -> str:
    """Returns what an error says, on one line and not too long."""
    if isinstance(error, OSError) and error.strerror is not None:
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        return f"{' -> '.join(names)}: {error.strerror}" if names else error.strerror
    text = " ".join(str(error).split()) or "no further words"
    return text if len(text) <= 400 else f"{text[:400]}…"
