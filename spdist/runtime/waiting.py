"""Waiting for a server or a topic that is away, and telling so."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from spdist.display import duration_text
from spdist.errors import TransportUnavailableError
from spdist.runtime.progress import first_line, is_full

__all__ = ["Reminder", "when_available", "when_room"]

T = TypeVar("T")

log = logging.getLogger(__name__)

#: When a log repeats that a group waits: after so long, then after twice as long each time, up to the second.
_REPEATED_S, _LONGEST_S = 10.0, 300.0
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
#: How often to look whether there is room on a disk, s.
_FULL_S = 2.0


def when_available(
    read: Callable[[], T], name: str, ending: threading.Event, tell: Callable[[str | None], None]
) -> T | None:
    """Return what `read` returns once it is no longer away; None where `ending` is set before.

    Parameters
    ----------
    read : callable
        Raises TransportUnavailableError while a server or a topic is away; other errors come out.
    name : str
        Of the group that waits.
    ending : threading.Event
        Ends waiting.
    tell : callable
        Gets the reason of waiting; None once that is over.
    """
    pause, reminder = _PAUSE_S, Reminder(time.monotonic())
    while not ending.is_set():
        try:
            found = read()
        except TransportUnavailableError as error:
            why = str(error).replace("\n", ". ")
            now_s = time.monotonic()
            if reminder.due(now_s):
                log.warning("group %s waits%s: %s", name, reminder.since(now_s), why)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            tell(why)
            ending.wait(pause)
        else:
            if reminder.told:
                log.info("group %s goes on", name)
            tell(None)
            return found
    return None


class Reminder:
    """When to say again that something is waited for: first as it begins, then after ever longer pauses. Pure.

    Parameters
    ----------
    began_s : float
        When waiting began.
    """

    def __init__(self, began_s: float) -> None:
        self.told = False
        self._began_s = began_s
        self._next_s = began_s
        self._pause_s = _REPEATED_S

    def due(self, now_s: float) -> bool:
        """Return whether to say it now, and take it for said."""
        if now_s < self._next_s:
            return False
        if self.told:
            self._pause_s = min(2 * self._pause_s, _LONGEST_S)
        self.told, self._next_s = True, now_s + self._pause_s
        return True

    def since(self, now_s: float) -> str:
        """Return for how long it is waited for, in words; nothing in the beginning."""
        waited_s = now_s - self._began_s
        return f" for {duration_text(waited_s * 1000)}" if waited_s >= _REPEATED_S else ""


def when_room(work: Callable[[], None], ending: threading.Event, tell: Callable[[str | None], None]) -> None:
    """Do `work`, again and again where a disk takes nothing, until it does or `ending` is set; other errors come out.

    For `tell` see `when_available`.
    """
    while not ending.is_set():
        try:
            work()
        except Exception as error:
            if not is_full(error):
                raise
            tell(first_line(error))
            ending.wait(_FULL_S)
        else:
            return
