"""Copies, on a local disk, of files of a bucket: whoever waits to take a state over has fetched them before.

A copy counts only under the tag that the bucket's listing tells now (`spdist.engine.shards.places.tags_in`): of a file
that was replaced, or deleted and made anew, there is none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from spdist.engine.shards.places import ObjectPlace, Place, replace_file

__all__ = ["Copies"]

#: Bytes of all copies.
_MOST_BYTES = 4 << 30


class Copies:
    """The copies in a directory; one process writes them, others may read.

    Parameters
    ----------
    directory : Path
        Made with the first copy. Its owner removes it.
    most_bytes : int
        Of all copies; what comes when they are as large is not kept.

    State
    -----
    On the disk alone.
    """

    def __init__(self, directory: Path, most_bytes: int = _MOST_BYTES) -> None:
        self._directory = directory
        self._most_bytes = most_bytes

    def read(self, place: Place, tag: str) -> bytes | None:
        """Return the content of a file that has this tag; None where there is no copy of it."""
        if not tag or not isinstance(place, ObjectPlace):
            return None
        with contextlib.suppress(OSError):
            return self._path(place, tag).read_bytes()
        return None

    def keep(self, place: Place, tag: str, content: bytes) -> bool:
        """Keep a copy; return whether there was room, and a tag to know it by.

        Raises
        ------
        OSError
            The disk does not take it.
        """
        if not tag or not isinstance(place, ObjectPlace) or self._size() + len(content) > self._most_bytes:
            return False
        self._directory.mkdir(parents=True, exist_ok=True)
        # Readers never see half a copy. One that a power failure takes is fetched again
        replace_file(self._path(place, tag), content, durable=False)
        return True

    def retain(self, wanted: Iterable[tuple[Place, str]]) -> None:
        """Delete all copies but these."""
        names = {self._path(place, tag).name for place, tag in wanted}
        with contextlib.suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name not in names:
                    os.unlink(entry.path)

    def _path(self, place: Place, tag: str) -> Path:
        return self._directory / hashlib.sha256(f"{place}\n{tag}".encode()).hexdigest()

    def _size(self) -> int:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            return sum(entry.stat().st_size for entry in entries)
        return 0
