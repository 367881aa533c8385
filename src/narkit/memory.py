"""How much memory there is, so that what does not fit is refused before anything is allocated for it."""

from __future__ import annotations

import contextlib
from pathlib import Path

SURELY_FITS = 2**28  # bytes


def available_memory() -> int | None:
    """The bytes that a process can still take without swapping; None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None


def memory_shortage(num_bytes: int) -> str | None:
    """What to say if something needs more memory than there is; None if it fits, or if that is not known.

    Whatever needs less than a quarter of a gigabyte fits: asking the system takes longer than many small allocations.
    """
    free = available_memory() if num_bytes > SURELY_FITS else None
    if free is None or num_bytes <= free:
        return None
    return f"about {num_bytes / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"
