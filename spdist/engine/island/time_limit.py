"""Ends what takes too long, in a process's main thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["TookTooLong", "time_limit"]


class TookTooLong(BaseException):
    """What ran took too long; no `Exception`, which the engine would take for an event that a query fails on."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End what takes longer than `seconds` with `TookTooLong`; outside of the main thread there is no limit."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        # Before the handler is put back: by default the signal ends the process
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
