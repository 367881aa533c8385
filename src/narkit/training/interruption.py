"""Ctrl-C and SIGTERM end a run after the step in hand, so that it can be saved first."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


class Interrupted(KeyboardInterrupt):
    """A run that was asked to stop, and has."""

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.signal_number = signal_number


class Interruption:
    """Whether somebody has asked the process to stop."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

    def __bool__(self) -> bool:
        return self.signal_number is not None


@contextlib.contextmanager
def interruption() -> Iterator[Interruption]:
    """Notes the first signal instead of ending at once; a second one ends at once.

    Outside the main thread Python has no signals, and nothing changes.
    """
    asked = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: object) -> None:
        asked.signal_number = number
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
