"""What a source remembers of how far it has read, and who may write that."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spdist.errors import FencedError, TransportError
from spdist.transports.whole_files import create_whole, write_whole

__all__ = ["Position"]


class Position:
    """What a source must remember: JSON in a file that is replaced atomically, by the source that has loaded it last.

    A process that stood still, while another one went on in its place, must not put its older position there, at
    whatever moment it stood still. So each that goes on has a file of its own, with a number behind its name. The
    highest number counts, and whose own is lower has been replaced.

    Parameters
    ----------
    path : Path
        The first such file; it has no number.

    State
    -----
    The own number.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._own: int | None = None

    def load(self) -> dict[str, Any] | None:
        """Return what was saved last, and become its owner; None where nothing was.

        Raises
        ------
        TransportError
            It cannot be read, or written.
        """
        try:
            # Again where somebody was faster: the newest file is another one then.
            while numbers := self._numbers():
                newest = max(numbers)
                try:
                    found: dict[str, Any] = json.loads(self._file(newest).read_bytes())
                except FileNotFoundError:  # somebody has just gone on from there
                    continue
                found.pop("owner", None)  # what files of version 0.18 and earlier say
                # The new file first and then the old ones: at each moment there is one that can be read.
                if self._claim(newest + 1, found):
                    for number in numbers:
                        with contextlib.suppress(OSError):
                            self._file(number).unlink()
                    return found
        except (OSError, ValueError) as error:
            raise TransportError(f"the position of a source cannot be read from {self._path}: {error}") from error
        return None

    def save(self, value: Mapping[str, Any]) -> None:
        """Remember; on the disk when this returns. Raises FencedError where another source goes on from here."""
        # Whoever claims the next number after this look reads a file of before or after; the own file counts no more.
        newest = max(self._numbers(), default=None)
        if self._own is None:
            owner = newest is None and self._claim(0, value)
        # The own file may be gone where somebody has deleted the directory: it is made anew.
        elif owner := newest is None or newest <= self._own:
            write_whole(self._file(self._own), _written(value))
        if not owner:
            raise FencedError(f"another process goes on from {self._path}")

    def _claim(self, number: int, value: Mapping[str, Any]) -> bool:
        """Make the file with a number, and be its owner; tell whether nobody else was faster."""
        if not create_whole(self._file(number), _written(value)):
            return False
        self._own = number
        return True

    def _file(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _numbers(self) -> list[int]:
        """Return the numbers of the files that are there."""
        try:
            names = os.listdir(self._path.parent)
        except FileNotFoundError:
            return []
        first = self._path.name
        behind = (name.removeprefix(f"{first}.") for name in names if name.startswith(f"{first}."))
        return [*(int(one) for one in behind if one.isdecimal()), *([0] if first in names else [])]


def _written(value: Mapping[str, Any]) -> bytes:
    return json.dumps({**value}).encode()
