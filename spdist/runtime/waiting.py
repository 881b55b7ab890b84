"""Waiting for a server or a topic that is away, and telling so."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from spdist.errors import TransportUnavailableError
from spdist.runtime.progress import first_line, is_full

__all__ = ["when_available", "when_room"]

T = TypeVar("T")

log = logging.getLogger(__name__)

_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
#: How often to look whether there is room on a disk, s.
_FULL_S = 2.0


def when_available(
    look: Callable[[], T], name: str, ending: threading.Event, tell: Callable[[str | None], None]
) -> T | None:
    """Return what `look` returns once it is no longer away; None where `ending` is set before.

    Parameters
    ----------
    look : callable
        Raises TransportUnavailableError while a server or a topic is away; other errors come out.
    name : str
        Of the group that waits.
    ending : threading.Event
        Ends waiting.
    tell : callable
        Gets the reason of waiting; None once that is over.
    """
    pause, told = _PAUSE_S, False
    while not ending.is_set():
        try:
            found = look()
        except TransportUnavailableError as error:
            if not told:
                log.warning("group %s waits: %s", name, error)
            told, pause = True, min(2 * pause, _LONGEST_PAUSE_S)
            tell(str(error))
            ending.wait(pause)
        else:
            tell(None)
            return found
    return None


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
