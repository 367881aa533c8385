"""The machine and the versions of a run or a measurement, and a function that keeps a process to one core."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import narkit

PACKAGE = Path(narkit.__file__).parent
SINGLE_THREADED: dict[str, str] = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def versions(*packages: str) -> dict[str, str]:
    """Returns Python's version and those of installed packages."""
    found = {"python": platform.python_version()}
    for package in packages:
        if package == "narkit":  # a source tree need not be installed
            found[package] = narkit.__version__
            continue
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def cpu_model() -> str:
    """Returns the processor as the system names it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def device_name() -> str:
    """Returns the device as records name it: JAX calls every CPU the same."""
    import jax  # here: measurements of data do without it

    device = jax.devices()[0]
    return cpu_model() if device.platform == "cpu" else device.device_kind


def peak_memory() -> int | None:
    """Returns the most bytes that were in use on the device since the process began, where the device counts them."""
    import jax

    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


def commit() -> str:
    """Returns the commit of the source tree, with a plus sign if any file of the package differs from it.

    The variable NARKIT_COMMIT, if set, says it instead: for copies of a tree on another machine. Where the package is
    not part of a repository it is `unknown`, also if it was installed into a folder inside of one.
    """
    if commit := os.environ.get("NARKIT_COMMIT"):
        return commit
    try:
        run = {"cwd": PACKAGE, "capture_output": True, "text": True, "check": True}
        subprocess.run(["git", "ls-files", "--error-unmatch", "__init__.py"], **run)
        head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], **run).stdout.strip()
        changed = subprocess.run(["git", "status", "--porcelain", "--", "."], **run).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+" if changed else head


def today() -> str:
    """Returns the date as records keep it, in universal time."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def circumstances(*packages: str) -> dict[str, Any]:
    """Returns what every record of measurements says: the processor, the commit, the date, and versions of packages."""
    return {"cpu": cpu_model(), "commit": commit(), "date": today(), "versions": versions(*packages)}


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
