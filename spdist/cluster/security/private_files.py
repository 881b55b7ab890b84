"""Files that only the user of this process may read: keys and passwords. They are there whole, or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from spdist.errors import ConfigError
from spdist.transports.whole_files import sync_directory

__all__ = ["alone", "read_private", "write_private"]

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def write_private(path: Path, content: bytes, *, replace: bool = False) -> bool:
    """Write a file that only its owner may read, durably.

    Parameters
    ----------
    path : Path
        Where; its directory is there.
    content : bytes
        What.
    replace : bool
        Whether one that is there is replaced.

    Returns
    -------
    bool
        False where it is there already and was left as it is.

    Raises
    ------
    OSError
        It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            try:
                os.link(temporary, path)  # fails where the name is taken, also by somebody who is quicker
            except FileExistsError:
                return False
        # A name is durable only with its directory
        sync_directory(path.parent)
        return True
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def read_private(path: Path) -> bytes:
    """Return the content of a file that nobody but its owner may read.

    Raises
    ------
    ConfigError
        Others may read or write it, or it belongs to somebody else, who then knows what stands in it.
    OSError
        It cannot be read, or is a link.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_mode & _OTHERS:
            raise ConfigError(f"{path} may be read by others than its owner", hint=f"chmod 600 {path}")
        if status.st_uid != os.geteuid():
            raise ConfigError(
                f"{path} belongs to another user than the one of this process", hint="remove it, or chown it"
            )
        return file.read()


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Wait until no other process is within this for `directory`: who changes a file there reads it and writes it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
