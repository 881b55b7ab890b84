"""A time limit on what is asked of a database, kept on this side: whatever its server, the network or the driver do.

The limits that drivers know leave gaps: a server that is frozen does not keep its own (PostgreSQL's
``statement_timeout``), the system of a frozen server still acknowledges what arrives (``tcp_user_timeout``), and a
connection takes 2 s at least. So each call runs in a thread of its own, and who waits for it goes on when the time is
over. What became of the call is then not known, as if the network had lost the answer.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Call", "TimeLimit"]

T = TypeVar("T")

#: Calls that were given up and have not ended yet; with more, the database is not asked at all.
_MOST_GIVEN_UP = 8


class Call:
    """A call under way; it says which connection it uses as soon as it has one."""

    def __init__(self) -> None:
        self._connection: Any = None

    def uses(self, connection: Any) -> None:
        """Note the driver's connection."""
        self._connection = connection

    def give_up(self) -> None:
        """Cut the connection, where the driver shows its socket, so that the thread ends; others have limits in it."""
        if hasattr(self._connection, "fileno"):
            with (
                contextlib.suppress(Exception),  # closed meanwhile
                # A copy of the descriptor: to close it leaves the driver's own alone.
                socket.socket(fileno=os.dup(self._connection.fileno())) as line,
            ):
                line.shutdown(socket.SHUT_RDWR)


class TimeLimit:
    """Runs calls, and gives up those that take too long.

    State
    -----
    Up to 8 threads that were given up and have not ended yet.
    """

    def __init__(self) -> None:
        self._given_up: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def run(self, work: Callable[[Call], T], timeout_s: float) -> T:
        """Return what `work` returns within `timeout_s`, or raise what it raises.

        Raises
        ------
        TimeoutError
            It took too long, or too many that did have not ended yet. It is not known what it has done.
        """
        with self._lock:
            # Those that have ended since then make room.
            self._given_up = {thread for thread in self._given_up if thread.is_alive()}
            if len(self._given_up) >= _MOST_GIVEN_UP:
                raise TimeoutError(f"{len(self._given_up)} calls before have had no answer yet")
        call, outcome = Call(), Future[T]()

        def act() -> None:
            try:
                outcome.set_result(work(call))
            # Whatever it is belongs to who waits; in this thread nobody would see it.
            except BaseException as error:
                outcome.set_exception(error)

        thread = threading.Thread(target=act, name="spdist-database", daemon=True)
        thread.start()
        thread.join(timeout_s)
        # Looked at the outcome and not at the thread, which may have answered just before the time was over.
        if outcome.done():
            return outcome.result()
        with self._lock:
            self._given_up.add(thread)
        call.give_up()
        raise TimeoutError(f"no answer after {timeout_s:g} s")
