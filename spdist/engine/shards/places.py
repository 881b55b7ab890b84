"""Where state is kept: directories of a file system, or prefixes of a bucket of an object store. The door to obstore.

A place of a file system is a `Path`. A place in a bucket is an `ObjectPlace`, which has of a path's methods those that
the state needs, so that whoever asks whether a file is there or reads it need not know which of the two it is. What
differs is here: a file that one only can create, one that takes the place of another, copies, lists, removal of trees.

**The fence** is "create only if absent": a hard link on file systems, ``If-None-Match: *`` on S3, GCS and Azure. A
store that ignores that condition is found by `check_fence`, before any group starts.

What is written is durable when the call returns. An object store answers lists that are complete: S3 (since 2020), GCS
and Azure are strongly consistent.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from spdist.errors import ConfigError, StateError
from spdist.transports import whole_files
from spdist.transports.whole_files import create_whole, write_whole

__all__ = [
    "ObjectPlace",
    "Place",
    "check_fence",
    "copy_file",
    "create_file",
    "names_in",
    "place_of",
    "remove_tree",
    "replace_file",
    "size_and_time",
    "sync_directory",
    "tags_in",
]

#: Schemes of object stores, as obstore reads their URLs.
_URL = re.compile(r"(s3|s3a|gs|az|abfs|abfss)://[^/\s]+(/\S*)?")
#: How long a connection, a request (a snapshot may be large), and all tries of it may take: a store that is away must
#: not hold a batch for ever.
_CONNECT_S, _REQUEST_S, _PATIENCE_S = 5, 120, 180


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """An object, or all objects below a prefix.

    Parameters
    ----------
    root : str
        The bucket: ``s3://bucket``, ``gs://bucket``, ``az://container``.
    key : str
        Below it, without a slash at either end; empty for the bucket itself.
    """

    root: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    def __truediv__(self, name: str) -> ObjectPlace:
        steps = [step for step in (*self.key.split("/"), *str(name).split("/")) if step not in ("", ".")]
        return ObjectPlace(self.root, "/".join(steps))

    @property
    def name(self) -> str:
        """The last step of the key."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> ObjectPlace:
        """The prefix that it is in."""
        return ObjectPlace(self.root, self.key.rpartition("/")[0])

    def exists(self) -> bool:
        """Tell whether there is an object of this key; prefixes do not exist by themselves."""
        import obstore

        try:
            with _errors(self):
                obstore.head(_bucket(self.root), self.key)
        except FileNotFoundError:
            return False
        return True

    def read_bytes(self) -> bytes:
        """Return the object; raises FileNotFoundError where there is none, and OSError where it cannot be read."""
        import obstore

        with _errors(self):
            return bytes(obstore.get(_bucket(self.root), self.key).bytes())

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object. One that is missing is no error: a bucket does not tell."""
        import obstore

        with contextlib.suppress(FileNotFoundError), _errors(self):
            obstore.delete(_bucket(self.root), self.key)

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: prefixes need not be made."""


Place = Path | ObjectPlace


def place_of(location: str | os.PathLike[str] | ObjectPlace) -> Place:
    """Return what a location of the settings names: ``s3://bucket/prefix`` and the like, or a path.

    Credentials, region and endpoint come from the process's environment, as the stores' own tools read them:
    ``AWS_ACCESS_KEY_ID``, ``AWS_REGION``, ``AWS_ENDPOINT_URL``, ``GOOGLE_APPLICATION_CREDENTIALS``,
    ``AZURE_STORAGE_ACCOUNT_NAME``, … or from the machine's role.
    """
    if isinstance(location, ObjectPlace):
        return location
    text = os.fspath(location)
    if not _URL.fullmatch(text):
        return Path(text)
    scheme, _, rest = text.partition("://")
    bucket, _, key = rest.partition("/")
    return ObjectPlace(f"{scheme}://{bucket}") / key


def create_file(place: Place, content: bytes) -> bool:
    """Write a file durably, whole or not at all, under a name that is free; False where it is taken.

    Where an answer of an object store was lost and the request is made again, a file may be found taken that this call
    has made: who needs to know reads it.

    Raises
    ------
    OSError
        It cannot be written.
    """
    if isinstance(place, ObjectPlace):
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            with _errors(place):
                # In one request: an upload in parts cannot be made on the condition that the name is free
                obstore.put(_bucket(place.root), place.key, content, mode="create", use_multipart=False)
        except (FileExistsError, AlreadyExistsError):
            return False
        return True
    return create_whole(place, content)


def replace_file(place: Place, content: bytes, *, durable: bool = True) -> None:
    """Give a file new contents, all in one moment; raises OSError where that cannot be.

    What is not `durable` survives the process, but need not survive the machine's power.
    """
    if isinstance(place, ObjectPlace):
        import obstore

        with _errors(place):
            obstore.put(_bucket(place.root), place.key, content, use_multipart=False)
        return
    write_whole(place, content, durable=durable)


def copy_file(source: Place, target: Place) -> None:
    """Give a file that never changes a second name; by a hard link, or a copy within a bucket, where it can be.

    Raises
    ------
    FileNotFoundError
        There is no `source`.
    OSError
        It cannot be copied.
    """
    if isinstance(source, Path) and isinstance(target, Path):
        os.link(source, target)
    elif isinstance(source, ObjectPlace) and isinstance(target, ObjectPlace) and source.root == target.root:
        import obstore

        with _errors(source):
            obstore.copy(_bucket(source.root), source.key, target.key)
    else:
        create_file(target, source.read_bytes())


def names_in(place: Place) -> list[str]:
    """Return the names of the files and directories in a place, sorted; none where there is no such place.

    Raises
    ------
    OSError
        It cannot be listed.
    """
    return sorted(tags_in(place))


def tags_in(place: Place) -> dict[str, str]:
    """Return the names of `names_in`, each with the tag of what is there: another one whenever that is replaced.

    It is empty for directories, for files of file systems, and where a store tells none.

    Raises
    ------
    OSError
        It cannot be listed.
    """
    if isinstance(place, Path):
        try:
            return dict.fromkeys(os.listdir(place), "")
        except FileNotFoundError:
            return {}
    import obstore

    with _errors(place):
        found = obstore.list_with_delimiter(_bucket(place.root), place.key or None)
    tags = dict.fromkeys(found["common_prefixes"], "") | {one["path"]: one["e_tag"] or "" for one in found["objects"]}
    return {key.rpartition("/")[2]: tag for key, tag in tags.items()}


def size_and_time(place: Place) -> tuple[int, int]:
    """Return the bytes of a file, and when it was written by the clock of who keeps it: ms since epoch.

    Raises
    ------
    OSError
        It cannot be told, or there is none (FileNotFoundError).
    """
    if isinstance(place, Path):
        found = place.stat()
        return found.st_size, found.st_mtime_ns // 1_000_000
    import obstore

    with _errors(place):
        told = obstore.head(_bucket(place.root), place.key)
    return told["size"], int(told["last_modified"].timestamp() * 1000)


def remove_tree(place: Place, *, whole: bool = False) -> None:
    """Delete all that is in a place, as far as it can be; nothing happens where there is none.

    Raises
    ------
    OSError
        With `whole`: something cannot be deleted.
    """
    if isinstance(place, Path):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(place, ignore_errors=not whole)
        return
    import obstore

    with contextlib.nullcontext() if whole else contextlib.suppress(OSError), _errors(place):
        for found in obstore.list(_bucket(place.root), place.key, chunk_size=500):
            obstore.delete(_bucket(place.root), [one["path"] for one in found])


def sync_directory(directory: Place) -> None:
    """Make a new name durable, too; in a bucket it is."""
    if not isinstance(directory, ObjectPlace):
        whole_files.sync_directory(directory)


def check_fence(place: Place) -> None:
    """See whether of two that create a file one fails: what keeps two owners of a state apart. Leaves nothing behind.

    Raises
    ------
    StateError
        Both succeed, or nothing can be written there.
    """
    trial = place / f".fence-{uuid.uuid4().hex}"
    try:
        if not create_file(trial, b"1") or create_file(trial, b"2"):
            raise StateError(
                f"{place} lets two processes create one file, so state cannot be kept there",
                hint="on file systems hard links must work (local, NFS), object stores need conditional puts",
            )
    except OSError as error:
        raise StateError(f"nothing can be written in {place}: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            trial.unlink(missing_ok=True)


@contextlib.contextmanager
def _errors(place: ObjectPlace) -> Iterator[None]:
    """Raise what a store does not do as OSError, as a file system would."""
    from obstore.exceptions import AlreadyExistsError, BaseError

    try:
        yield
    except (AlreadyExistsError, OSError):
        raise
    except BaseError as error:
        raise OSError(f"{place}: {str(error).partition(chr(10))[0]}") from error


# `cache` alone lets two threads open a client each
_opening = threading.Lock()


def _bucket(root: str) -> Any:
    with _opening:
        return _opened(root, os.getpid())


@cache
def _opened(root: str, process: int) -> Any:
    """Return the client of a bucket, one for each process: it has threads of its own."""
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise ConfigError(
            f"state in {root} needs the package obstore", hint="pip install 'spdist[object-store]'"
        ) from error
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    try:
        return from_url(
            root,
            client_options={"timeout": f"{_REQUEST_S}s", "connect_timeout": f"{_CONNECT_S}s", "allow_http": plain},
            retry_config={"max_retries": 8, "retry_timeout": timedelta(seconds=_PATIENCE_S)},
        )
    except Exception as error:
        raise ConfigError(f"state cannot be kept in {root}: {error}") from error
