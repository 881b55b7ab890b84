"""Class archives (AppCDS, JEP 350): classes of a Java program as the JVM has read them once, shared by later starts.

A JVM writes one when it ends in order, under a name of its own; once whole, it gets the name under which others look.
Java itself checks that the archive fits its version and the class path, and goes on without where it does not.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

from spdist.services.process import runs

__all__ = ["ClassArchive"]

#: How many archives a directory keeps; each has 40 to 200 MB.
_KEPT = 3


class ClassArchive:
    """The archive of one class path.

    Parameters
    ----------
    file : Path
        Where it is, ``….jsa``; its name must say which class path and Java it is of. Other archives of its directory
        are deleted when there are more than three, the oldest first.

    State
    -----
    A file while a JVM that was given `options` may write it.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._fresh = file.with_name(f".{file.name}-{os.getpid()}-{uuid.uuid4().hex}")

    def options(self, *, writes: bool = True) -> list[str]:
        """Return what Java must be told: to read the archive, else to write it, unless another process is about to.

        Parameters
        ----------
        writes : bool
            Whether this JVM may write it: that takes some seconds, once, when it ends.
        """
        silent = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"]
        if self.file.exists():
            return [*silent, f"-XX:SharedArchiveFile={self.file}"]
        if writes and os.access(self.file.parent, os.W_OK) and not self._has_writer():
            with contextlib.suppress(OSError):
                # The name has this process's id: others see that somebody writes already.
                self._fresh.touch()
                return [*silent, f"-XX:ArchiveClassesAtExit={self._fresh}"]
        return []

    def _has_writer(self) -> bool:
        """Tell whether a running process is about to write the archive; forget what others have left behind."""
        prefix = f".{self.file.name}-"
        writers = False
        for other in self.file.parent.glob(f"{prefix}*"):
            pid = other.name.removeprefix(prefix).partition("-")[0]
            if pid.isdigit() and runs(int(pid)):
                writers = True
            else:
                with contextlib.suppress(OSError):
                    other.unlink()
        return writers

    @property
    def is_written(self) -> bool:
        """Whether the JVM that was given `options` writes the archive when it ends, for which a minute is enough."""
        return self._fresh.exists()

    def keep(self) -> None:
        """Give what an orderly end has written its name; Java has written nothing where the class path has folders."""
        with contextlib.suppress(OSError):
            if self._fresh.stat().st_size:
                self._fresh.rename(self.file)
                for old in sorted(self.file.parent.glob("*.jsa"), key=lambda one: one.stat().st_mtime)[:-_KEPT]:
                    old.unlink()
        self.drop()

    def drop(self) -> None:
        """Forget what was being written: the JVM has not ended in order."""
        with contextlib.suppress(OSError):
            self._fresh.unlink()
