"""Few at a time: requests that wait for others keep a thread each, and heartbeats need threads, too."""

from __future__ import annotations

import threading

from spdist.errors import ClusterError, ErrorKind

__all__ = ["CallerSlots"]


class CallerSlots:
    """Lets so many callers in at a time, ``with slots:``; the next one is told to come back. Thread-safe.

    Parameters
    ----------
    most : int
        How many.
    what : str
        What they do, as in "8 *queries on demand* are under way".

    State
    -----
    How many are in.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._free = threading.BoundedSemaphore(most)

    def __enter__(self) -> None:
        if not self._free.acquire(blocking=False):
            raise ClusterError(
                f"{self._most} {self._what} are under way", hint="try again in a moment", code=ErrorKind.BUSY
            )

    def __exit__(self, *_: object) -> None:
        self._free.release()
