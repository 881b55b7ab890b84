"""The directory of a server's apps: what is in it, and what has changed since; a file ``<name>.siddhi`` is an app.

A change is acted on when two looks in a row have seen the same, so that a file which somebody is just writing, or
replaces by way of removing it, is read when it is whole.
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spdist.transports.whole_files import sync_directory

__all__ = ["AppDirectory", "FileChanges", "Stamp", "changes"]

#: What the name of an app's file ends with.
SUFFIX = ".siddhi"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells two contents of a file apart without reading it: when it was written (ns), its size, its inode."""

    modified_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What has become of the files since they were read.

    Parameters
    ----------
    written : tuple of str
        Apps whose files are new or have changed, by name.
    removed : tuple of str
        Apps whose files are gone.
    unsettled : bool
        Whether a file has just changed: the next look should not be far.
    """

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unsettled: bool = False


def changes(known: Mapping[str, Stamp], before: Mapping[str, Stamp], now: Mapping[str, Stamp]) -> FileChanges:
    """Return what is to be read, and what is gone.

    Parameters
    ----------
    known : mapping of str to Stamp
        The files as they were when they were read last.
    before, now : mapping of str to Stamp
        The last two looks.
    """
    different = [name for name in sorted({*known, *now}) if now.get(name) != known.get(name)]
    settled = [name for name in different if now.get(name) == before.get(name)]
    return FileChanges(
        written=tuple(name for name in settled if name in now),
        removed=tuple(name for name in settled if name not in now),
        unsettled=len(settled) < len(different),
    )


class AppDirectory:
    """The files of apps in a directory.

    Parameters
    ----------
    path : Path
        The directory; `prepare` makes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self) -> None:
        """Make the directory unless it is there."""
        self.path.mkdir(parents=True, exist_ok=True)

    def scan(self) -> dict[str, Stamp]:
        """Return the files that are there, by the names of their apps; hidden ones are none.

        Raises
        ------
        OSError
            The directory cannot be read: nothing is known of its files then.
        """
        found: dict[str, Stamp] = {}
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(".") or not entry.name.endswith(SUFFIX):
                    continue
                # Removed since it was listed
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode):
                        found[entry.name.removesuffix(SUFFIX)] = _stamp(status)
        return found

    def read(self, name: str, longest: int) -> bytes:
        """Return the content of the file of an app, at most `longest` bytes of it; raises OSError."""
        with open(self._file(name), "rb") as file:
            return file.read(longest)

    def write(self, name: str, text: str) -> Stamp:
        """Put the file of an app in place, durably, whole or not at all; raises OSError."""
        temporary = self.path / f".{name}.{uuid.uuid4().hex}.new"
        try:
            with open(temporary, "xb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
                # Renaming keeps time, size and inode, so this is the stamp of the file in its place
                written = _stamp(os.fstat(file.fileno()))
            os.replace(temporary, self._file(name))
        finally:
            temporary.unlink(missing_ok=True)
        # A name is durable only with its directory
        sync_directory(self.path)
        return written

    def remove(self, name: str) -> None:
        """Remove the file of an app, durably, if it is there; raises OSError."""
        self._file(name).unlink(missing_ok=True)
        sync_directory(self.path)

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{SUFFIX}"


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_mtime_ns, status.st_size, status.st_ino)
