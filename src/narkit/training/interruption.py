"""Ctrl-C, SIGTERM and the end of a budget end a run after the step in hand, so that it can be saved first."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator


class Interrupted(KeyboardInterrupt):
    """A run that was asked to stop, and has."""

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.signal_number = signal_number


class OutOfTime(Exception):
    """A run that has stopped because its time was up."""


class Interruption:
    """A request to stop a run, from somebody who has asked the process to, or because its time is up."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.signal_number: int | None = None
        self.deadline = time.monotonic() + seconds

    def __bool__(self) -> bool:
        return self.signal_number is not None or time.monotonic() >= self.deadline

    def error(self, message: str) -> BaseException:
        """Returns the error to raise once everything is saved."""
        return OutOfTime(message) if self.signal_number is None else Interrupted(message, self.signal_number)


@contextlib.contextmanager
def interruption(seconds: float = math.inf) -> Iterator[Interruption]:
    """Notes the first signal instead of ending at once, and when the seconds are over; a second signal ends at once.

    Outside the main thread Python has no signals, and only time counts.
    """
    asked = Interruption(seconds)
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
