"""Where and with what a measurement was made, and how it is kept to one core."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import narkit

SINGLE_THREADED: dict[str, str] = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def versions(*packages: str) -> dict[str, str]:
    """Python's version and those of installed packages."""
    found = {"python": platform.python_version()}
    for package in packages:
        if package == "narkit":  # a source tree need not be installed
            found[package] = narkit.__version__
            continue
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def cpu_model() -> str:
    """The processor as the system names it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit of the source tree, with a plus sign if files differ from it.

    The variable NARKIT_COMMIT, if set, says it instead: for copies of a tree on another machine. Outside a repository
    it is `unknown`.
    """
    if told := os.environ.get("NARKIT_COMMIT"):
        return told
    where = Path(__file__).parent
    try:
        run = {"cwd": where, "capture_output": True, "text": True, "check": True}
        head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], **run).stdout.strip()
        changed = subprocess.run(["git", "status", "--porcelain", "--", "."], **run).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+" if changed else head


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Keeps this process, and those that it starts, on one core where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})  # the first core is the one that systems like to keep busy
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
