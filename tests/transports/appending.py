"""Processes that append to a file by `FileAppends`, and stand still where they are told to."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spdist.connectors.file.appends import FileAppends

__all__ = ["Appending", "lines"]

#: Whatever a process that appends asks of the file system, there it may stand still.
_CALLS = ("open", "listdir", "fstat", "fsync", "link", "pread", "pwrite", "unlink", "close")


def lines(producer: str, first: int, last: int) -> list[tuple[int, bytes]]:
    """Return numbered lines, the last one excluded."""
    return [(number, f"{producer} {number}\n".encode()) for number in range(first, last)]


class Appending:
    """A process that appends lines, forked from this one; killed in the end, where it has not ended.

    Parameters
    ----------
    path : Path
        The file.
    producer : str
        Whose lines they are.
    count, at_a_time : int
        How many from 0 on, and how many of them together.
    where : str
        Before which call to the system it stands still, until it is continued: its n-th, or the first of a name.
    """

    def __init__(self, path: Path, producer: str, count: int, at_a_time: int, where: str = "") -> None:
        self.code: int | None = None
        self._pid = os.fork()
        if not self._pid:
            with contextlib.suppress(BaseException):
                appends = FileAppends(path)
                _stop_before(where)
                for first in range(0, count, at_a_time):
                    appends.append(producer, lines(producer, first, min(first + at_a_time, count)))
                os._exit(0)
            os._exit(1)

    def stands_still(self) -> bool:
        """Wait until it does; False where it ends before."""
        return not self._waited(os.WUNTRACED)

    def signal(self, number: int) -> None:
        if self.code is None:
            os.kill(self._pid, number)

    def wait(self) -> int | None:
        """Wait until it ends; return its exit code, or the signal that ended it, negative."""
        self._waited(0)
        return self.code

    def runs(self) -> bool:
        return not self._waited(os.WNOHANG)

    def _waited(self, options: int) -> bool:
        """Return whether it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self._pid, options)
            if pid and not os.WIFSTOPPED(status):
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def __enter__(self) -> Appending:
        return self

    def __exit__(self, *_: object) -> None:
        self.signal(signal.SIGKILL)
        self.wait()


def _stop_before(where: str) -> None:
    """Let this process stand still once."""
    made: list[str] = []

    def stopping(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def stopped(*arguments: Any, **more: Any) -> Any:
            made.append(name)
            if where == str(len(made)) or (where == name and made.count(name) == 1):
                os.kill(os.getpid(), signal.SIGSTOP)
            return call(*arguments, **more)

        return stopped

    for name in _CALLS:
        setattr(os, name, stopping(name, getattr(os, name)))
