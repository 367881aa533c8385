"""The memory that this machine has left."""

from __future__ import annotations

import contextlib
from pathlib import Path


def available_memory() -> int | None:
    """Returns the bytes of main memory that a process can still get, as system and limits say; None if neither does."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024 * int(line.split()[1]))
    with contextlib.suppress(OSError, ValueError):  # what a container may use
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            found.append(limit)
    return max(0, min(found)) if found else None


def gibibytes(count: float) -> str:
    """Returns a number of bytes as text such as `3.2 GiB`."""
    return f"{count / 2**30:,.1f} GiB"
