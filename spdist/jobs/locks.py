"""Locks of files: who has one runs a job, or is the scheduler of a directory. They end with their last holder.

A lock is handed on to the process that runs the notebook, so it says that a job runs for as long as either of the two
does, the scheduler or the notebook, however they end and however process ids are used again.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from spdist.errors import ErrorKind, NotebookError

__all__ = ["FileLock"]


class FileLock:
    """A lock that this process has; see `of`.

    Parameters
    ----------
    descriptor : int
        Of the open file; a child that inherits it has the lock, too.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def of(cls, path: Path) -> FileLock | None:
        """Return the lock of a file, which is made; None where somebody has it.

        Raises
        ------
        NotebookError
            The file cannot be made.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Not inherited but by the process that it is handed to (`pass_fds`): any other child would hold it, too.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise NotebookError(f"cannot make {path}: {error.strerror}", code=ErrorKind.JOBS) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            raise NotebookError(f"cannot lock {path}: {error.strerror}", code=ErrorKind.JOBS) from error
        return cls(descriptor)

    def close(self) -> None:
        """Let go of it here, once; it is free when no child has it either."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
