"""Lines of a file or of standard input, as they come."""

from __future__ import annotations

import os
import select
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

import typer

from spdist.errors import MappingError

__all__ = ["Lines", "opened_lines"]

_CHUNK = 1 << 16
#: How long nothing may come until what has come is not kept waiting, s.
_IDLE_S = 0.2


class Lines(Iterator[str]):
    """The lines of a source, which may still be written: UTF-8, with or without a byte order mark.

    Parameters
    ----------
    source : BinaryIO
        Open for reading; has ``read1``.
    size : int, optional
        Its bytes, where they are known.

    State
    -----
    What was read last: 64 KiB, or one line.
    """

    def __init__(self, source: BinaryIO, size: int | None = None) -> None:
        self.size = size
        #: Bytes of the source that have been read.
        self.read = 0
        self._source = source
        self._lines: deque[bytes] = deque()
        self._begun: list[bytes] = []
        self._ended = False
        self._count = 0

    def __next__(self) -> str:
        """Return the next line.

        Raises
        ------
        MappingError
            It is not UTF-8.
        """
        while not self._lines:
            if self._ended:
                raise StopIteration
            self._fill()
        self._count += 1
        try:
            # Only a file's first line can begin with a byte order mark.
            return self._lines.popleft().decode("utf-8-sig" if self._count == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise MappingError(f"line {self._count} is not UTF-8 text: {error.reason}") from error

    def idle(self) -> bool:
        """Return whether the next line is not there, and does not come within 0.2 s."""
        if self._lines or self._ended:
            return False
        try:
            return not select.select([self._source.fileno()], [], [], _IDLE_S)[0]
        except (OSError, ValueError):  # it is no file of the system, and so never waits
            return False

    def _fill(self) -> None:
        # As much as is there, and more than the source buffers: what stays in its buffer `select` does not see.
        data: bytes = self._source.read1(_CHUNK)  # type: ignore[attr-defined]
        self.read += len(data)
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._lines.append(b"".join([*self._begun, line, b"\n"]))
            self._begun = []
        # Joined when the line has ended, so that a long one is copied once.
        if rest:
            self._begun.append(rest)
        if not data:
            self._ended = True
            if self._begun:
                self._lines.append(b"".join(self._begun))


@contextmanager
def opened_lines(path: Path) -> Iterator[Lines]:
    """Open a file, or standard input for ``-``; where it cannot be read, say so as a wrong command line."""
    if str(path) == "-":
        yield Lines(sys.stdin.buffer)
        return
    try:
        source = path.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error.strerror}", param_hint="FILE") from error
    with source:
        known = os.fstat(source.fileno())
        # A pipe, as of `<(zcat events.gz)`, has no size and no place in it.
        yield Lines(source, known.st_size if S_ISREG(known.st_mode) else None)
