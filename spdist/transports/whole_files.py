"""Files that are there whole or not at all, whenever the process ends, and names that last."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

__all__ = ["create_whole", "sync_directory", "write_whole"]


def write_whole(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Give a file new contents, all in one moment; its directory is made where it is missing.

    Parameters
    ----------
    path : Path
        The file.
    content : bytes
        All of it.
    durable : bool
        False where it need not survive the machine's power, only the process.

    Raises
    ------
    OSError
        It cannot be written; then it is as it was, or, where only its name may be lost with the power, as it is to be.
    """
    with _new_file(path, content, durable=durable) as temporary:
        temporary.replace(path)
        if durable:
            sync_directory(path.parent)


def create_whole(path: Path, content: bytes) -> bool:
    """Make a file, durable and all in one moment; False where one of this name is there. Raises as `write_whole`."""
    with _new_file(path, content, durable=True) as temporary:
        try:
            # A rename would replace a file that is there; a link fails, on NFS too
            os.link(temporary, path)
        except FileExistsError:
            return False
        sync_directory(path.parent)
        return True


@contextlib.contextmanager
def _new_file(path: Path, content: bytes, *, durable: bool) -> Iterator[Path]:
    """Yield a temporary file in the directory of `path` with this content; it is deleted unless it was moved."""
    # In the same directory: a rename is atomic only within one file system; a name with a dot is passed over.
    temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable; where directories cannot be opened (Windows) the system sees to that."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
