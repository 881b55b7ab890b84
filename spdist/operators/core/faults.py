"""What becomes of events on which something failed: the text of ``_error``, and the error store.

Source: io.siddhi.core.util.error.handler (ErrorStore, ErroneousEvent), io.siddhi.core.executor.function
.ConvertFunctionExecutor (the text of an error), described in our own words.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from spdist.operators.base import Arrival, VirtualClock

__all__ = ["ErrorStore", "StoredError", "error_text"]

#: Errors whose own text says nothing without the name of their class.
_TERSE = (KeyError, IndexError, ZeroDivisionError, AssertionError, StopIteration)


def error_text(error: BaseException) -> str:
    """Return what ``_error`` of a fault stream holds: message and cause, as ``convert(_error, 'string')`` words them.

    It is a text and not the exception itself, so that it can be kept in state and sent to other machines.
    """
    cause = error.__cause__
    return f"message : {_message(error)}\n cause :{'null' if cause is None else f'{type(cause).__name__}: {cause}'}"


def _message(error: BaseException) -> str:
    text = str(error)
    if not text:
        return type(error).__name__
    return f"{type(error).__name__}: {text}" if isinstance(error, _TERSE) else text


@dataclass(frozen=True, slots=True)
class StoredError:
    """Events that an app could not process, kept for somebody to look at.

    Parameters
    ----------
    number : int
        Counts the entries of a store from 1.
    time : int
        The app's time when it happened, ms.
    app : str
        Name of the app.
    stream : str
        The stream on which it happened.
    origin : str
        ``stream``: a query that reads the stream failed. ``sink``: the event could not be written or sent. ``source``:
        what came in could not be read as an event; ``payload`` holds it.
    cause : str
        What went wrong.
    events : tuple of (timestamp, row)
        The events, as one chunk.
    payload : str or bytes, optional
        What a source could not read.
    """

    number: int
    time: int
    app: str
    stream: str
    origin: Literal["stream", "sink", "source"]
    cause: str
    events: tuple[Arrival, ...] = ()
    payload: object = None


class ErrorStore:
    """Keeps what ``@OnError(action='STORE')`` and ``on.error='STORE'`` are to keep, in memory.

    It belongs to whoever runs the apps, not to their state: one store may serve several apps, and outlives them.

    Parameters
    ----------
    capacity : int
        How many entries are kept; the oldest go first.

    State
    -----
    The entries: at most `capacity`.
    """

    def __init__(self, capacity: int = 10_000) -> None:
        self._entries: deque[StoredError] = deque(maxlen=capacity)
        self._count = 0

    def add(
        self,
        clock: VirtualClock,
        app: str,
        stream: str,
        origin: Literal["stream", "sink", "source"],
        cause: BaseException,
        events: Sequence[Arrival] = (),
        payload: object = None,
    ) -> None:
        """Keep an entry; see `StoredError` for what its parts mean."""
        self._count += 1
        told = f"{type(cause).__name__}: {cause}"
        self._entries.append(StoredError(self._count, clock.now, app, stream, origin, told, tuple(events), payload))

    def entries(self, app: str | None = None, stream: str | None = None) -> list[StoredError]:
        """Return the entries, oldest first; those of one app or stream where one is named."""
        return [
            entry
            for entry in self._entries
            if (app is None or entry.app == app) and (stream is None or entry.stream == stream)
        ]

    def discard(self, number: int) -> None:
        """Forget one entry, for example because its events were sent again; does nothing where there is none."""
        kept = [entry for entry in self._entries if entry.number != number]
        self._entries.clear()
        self._entries.extend(kept)

    def __len__(self) -> int:
        return len(self._entries)
