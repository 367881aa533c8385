"""The last handler of unexpected errors: it writes a log and prints one line.

Exit codes: 1 for what this machine cannot do (no memory, no room, no permission), 70 for an error in narkit itself. Of
the latter a log file keeps the traceback, the command and the versions, for a report. `narkit --debug` shows the
traceback instead.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence

from narkit.errors import one_line

MACHINE, SOFTWARE = 1, 70  # exit codes; the second is that of sysexits.h for an internal error
DEBUG = "--debug"


def ends_with(error: Exception, words: Sequence[str]) -> int:
    """Prints the error that a command ended in, in one line, and returns the exit code."""
    if DEBUG in words:
        traceback.print_exception(error)
    if isinstance(error, BrokenPipeError):  # whoever read the output has gone; what is left to say goes nowhere
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return MACHINE
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)[:200]:
        return _say(
            f"not enough memory: {one_line(error)}; choose smaller sizes, fewer samples or fewer seeds", MACHINE
        )
    if isinstance(error, OSError) and error.errno is not None:
        return _say(one_line(error), MACHINE)
    what = f"{type(error).__name__}: {one_line(error)}"
    if DEBUG in words:
        return _say(f"an error in narkit itself: {what}", SOFTWARE)
    return _say(
        f"an error in narkit itself: {what}. {_kept(error, words)}; please report it with that file, or see the "
        f"traceback with: narkit {DEBUG} {shlex.join(words)}",
        SOFTWARE,
    )


def _kept(error: Exception, words: Sequence[str]) -> str:
    """Keeps a log and says where it lies. It may hold names of files, so that only its owner may read it."""
    from narkit import __version__

    lines = [
        f"narkit {__version__}, Python {sys.version.split()[0]}, {sys.platform}",
        time.strftime("%Y-%m-%d %H:%M:%S %z"),
        f"in {os.getcwd()}" if os.path.isdir(".") else "in a folder that is gone",
        f"narkit {shlex.join(words)}",
        "",
        *traceback.format_exception(error),
    ]
    try:
        descriptor, name = tempfile.mkstemp(prefix="narkit-error-", suffix=".log")
        with os.fdopen(descriptor, "w", errors="backslashreplace") as file:
            file.write("\n".join(lines))
    except OSError as failure:
        return f"No log could be kept ({one_line(failure)})"
    return f"The traceback is in {name}"


def _say(text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        print(f"Error: {text}", file=sys.stderr)
    return code
