"""What kind of failure an error's text tells of: whether another try may go better, and under which conditions."""

from __future__ import annotations

import enum


class Failure(enum.Enum):
    """Why a cell has failed."""

    MEMORY = "ran out of memory"
    DEVICE = "lost the device"  # its process cannot use it again; with MPS those beside it cannot either
    OTHER = "failed"


def kind_of(error: str) -> Failure:
    """The kind, from a traceback or a message."""
    if "RESOURCE_EXHAUSTED" in error or "MemoryError" in error:  # of the device, of the machine
        return Failure.MEMORY
    return Failure.DEVICE if "CUDA_ERROR" in error else Failure.OTHER
