"""Revisions: the state of a group instance at one moment, kept under a name to go back to.

A revision is complete in itself: the newest snapshots, the segments after them, and with them the offsets at which
reading goes on. It is taken while the group runs, without stopping it, since the files of a state never change once
they are there. Going back is one append to the log of each state: it fences the owner that runs now, and whoever starts
the group next goes on from the revision.

The revisions of an app's groups are one moment where each is taken after those of the groups that read it: then none
has heard of what another one's revision does not know, and what is still to be heard lies in the topics, from the
positions of the revision on. That is a consistent cut (Chandy and Lamport 1985) without a marker: the state of a group
is known at each of its batches. Where they go back in the other order, each passes over what those before it had put
out after the revision (`spdist.transports.retracted`).

What has been published stays published. A group that went back publishes it again under the same ids, and readers drop
what they have seen. Tables in databases stay as they are.

Revisions are kept in a directory, or in a table of a database: then another worker can go back to one although it sees
none of the files.

Source: names ``<millis>__<app>`` and ``revisionsToKeep`` as in WSO2's FileSystemPersistenceStore and
DBPersistenceStore.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from spdist.config.datasources import Datasource
from spdist.config.sections import StatePersistence
from spdist.engine.shards.places import Place, names_in, place_of
from spdist.engine.shards.state import state_directory
from spdist.errors import ConfigError, NotFoundError, SpdistError, StateError
from spdist.runtime.revision_files import (
    WentBack,
    delete_revision,
    is_kept,
    is_revision,
    millis_of,
    put_back,
    take,
)
from spdist.transports.retracted import Undone

if TYPE_CHECKING:
    from spdist.stores.revisions import RevisionTable

__all__ = ["DBPersistenceStore", "FileSystemPersistenceStore", "PersistenceStore", "open_persistence"]

#: How long a connection or a statement may take, ms.
_TIMEOUT_MS = 60_000


class PersistenceStore(Protocol):
    """Where the revisions of all group instances are kept."""

    def save(self, instance: str, revision: str) -> None:
        """Keep the present state of `instance` under the name `revision`; nothing happens where it is there already."""
        ...

    def revisions(self, instance: str) -> list[str]:
        """Return the names of the revisions of `instance`, oldest first."""
        ...

    def restore(self, instance: str, revision: str, undone: Sequence[Undone] = ()) -> WentBack:
        """Let `instance` go back to `revision`, and pass over what is `undone`; return what it undoes itself.

        A group that runs is fenced, and fails with its next batch.
        """
        ...

    def delete(self, instance: str, revision: str) -> None:
        """Delete a revision of `instance`; nothing happens where it has none of that name."""
        ...

    def clear(self, instance: str) -> list[str]:
        """Delete all revisions of `instance`, and return their names; its state is none of them and stays."""
        ...


def open_persistence(settings: StatePersistence, datasources: Mapping[str, Datasource]) -> PersistenceStore:
    """Return the store that ``state.persistence`` names.

    Raises
    ------
    ConfigError
        It needs a datasource that is not there, or a driver that is not installed.
    """
    if not settings.in_database:
        return FileSystemPersistenceStore(settings.location, settings.revisions_to_keep)
    source = datasources.get(settings.datasource)
    if source is None:
        raise ConfigError(
            f"state.persistence.config.datasource is {settings.datasource!r}, which is no datasource",
            hint=f"wso2.datasources: {', '.join(sorted(datasources)) or 'none'}",
        )
    from spdist.stores.engines import open_engine
    from spdist.stores.revisions import RevisionTable

    password = source.password.reveal() if source.password is not None else ""
    engine = open_engine(
        source.url, source.username, password, timeout_ms=_TIMEOUT_MS, purpose="persistence", pool=source.pool
    )
    table = RevisionTable(engine, settings.table)
    return DBPersistenceStore(settings.location, table, settings.revisions_to_keep)


class FileSystemPersistenceStore:
    """The revisions of all group instances below one directory.

    The state of an instance is in ``<location>/<instance>``, its revisions are in ``<location>/.revisions/<instance>``.
    Both must be on one file system: files are shared by hard links, so a revision costs no space until the state has
    gone on. In a bucket they are copied within it.

    Parameters
    ----------
    location : path or Place
        ``state.persistence.config.location``, the same for all workers.
    revisions_to_keep : int
        How many revisions of an instance are kept; older ones are deleted when a new one is saved.
    """

    def __init__(self, location: str | os.PathLike[str] | Place, revisions_to_keep: int) -> None:
        self._location = place_of(location)
        self._keep = revisions_to_keep

    def save(self, instance: str, revision: str) -> None:
        """Keep the present state of `instance` under the name `revision`; nothing happens where it is there already.

        Raises
        ------
        StateError
            The name is no name of a revision, the instance has no state yet, or files cannot be written; or an older
            revision cannot be deleted, and the new one is kept.
        """
        target = self._path(instance, revision)
        with _files_told(f"revision {revision} of {instance} cannot be kept"):
            if is_kept(target):
                return
            take(self._location, instance, revision, target)
        for old in self.revisions(instance)[: -self._keep]:
            self.delete(instance, old)

    def revisions(self, instance: str) -> list[str]:
        """Return the names of the revisions of `instance`, oldest first.

        Raises
        ------
        StateError
            They cannot be listed.
        """
        directory = state_directory(self._location / ".revisions", instance)
        with _files_told(f"the revisions of {instance} cannot be listed"):
            return [name for name in _sorted(names_in(directory)) if is_kept(directory / name)]

    def restore(self, instance: str, revision: str, undone: Sequence[Undone] = ()) -> WentBack:
        """Let `instance` go back to `revision`, and pass over what is `undone`; return what it undoes itself.

        A group that runs is fenced, and fails with its next batch.

        Raises
        ------
        NotFoundError
            There is no such revision.
        StateError
            The revision is damaged, or was made by another version; or files cannot be read or written.
        """
        source = self._path(instance, revision)
        with _files_told(f"{instance} cannot go back to revision {revision}"):
            if not is_kept(source):
                raise _missing(instance, revision, self.revisions(instance))
            return put_back(self._location, instance, source, undone)

    def delete(self, instance: str, revision: str) -> None:
        """Delete a revision of `instance`; nothing happens where it has none of that name.

        Raises
        ------
        StateError
            The name is no name of a revision, or it cannot be deleted.
        """
        with _files_told(f"revision {revision} of {instance} cannot be deleted"):
            delete_revision(self._path(instance, revision))

    def clear(self, instance: str) -> list[str]:
        """Delete all revisions of `instance`, and return their names, oldest first.

        Raises
        ------
        StateError
            One cannot be deleted.
        """
        gone = self.revisions(instance)
        for name in gone:
            self.delete(instance, name)
        return gone

    def _path(self, instance: str, revision: str) -> Place:
        return state_directory(self._location / ".revisions", instance) / _checked(revision)


class DBPersistenceStore:
    """The revisions of all group instances in a table of a database.

    Parameters
    ----------
    location : path
        Where the states of the instances are; need not be what other workers see.
    table : RevisionTable
        The table.
    revisions_to_keep : int
        How many revisions of an instance are kept; older ones are deleted when a new one is saved.
    """

    def __init__(self, location: str | os.PathLike[str] | Place, table: RevisionTable, revisions_to_keep: int) -> None:
        self._location = place_of(location)
        self._table = table
        self._keep = revisions_to_keep

    def save(self, instance: str, revision: str) -> None:
        """Keep the present state of `instance` under the name `revision`; nothing happens where it is there already.

        Raises
        ------
        StateError
            The name is no name of a revision, the instance has no state yet, or files cannot be written.
        StoreError
            The database does not take it.
        """
        if revision in self._table.revisions(instance):
            return
        with self._temporary(_checked(revision)) as directory:
            take(self._location, instance, revision, directory)
            self._table.save(instance, revision, _files(directory))
        for old in self.revisions(instance)[: -self._keep]:
            self._table.delete(instance, old)

    def revisions(self, instance: str) -> list[str]:
        """Return the names of the revisions of `instance`, oldest first."""
        return _sorted(self._table.revisions(instance))

    def restore(self, instance: str, revision: str, undone: Sequence[Undone] = ()) -> WentBack:
        """Let `instance` go back to `revision`, and pass over what is `undone`; return what it undoes itself.

        A group that runs is fenced, and fails with its next batch.

        Raises
        ------
        NotFoundError
            There is no such revision.
        StateError
            The revision is damaged, or was made by another version; or files cannot be written.
        StoreError
            The database cannot be read.
        """
        if _checked(revision) not in self._table.revisions(instance):
            raise _missing(instance, revision, self.revisions(instance))
        with self._temporary(revision) as directory:
            for name, content in self._table.files(instance, revision):
                path = directory / name
                # Names come from a table that others may write: none may lead out of the directory
                if not path.resolve().is_relative_to(directory.resolve()):
                    raise StateError(f"revision {revision} of {instance} is damaged: it has a file {name!r}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            return put_back(self._location, instance, directory, undone)

    def delete(self, instance: str, revision: str) -> None:
        """Delete a revision of `instance`; nothing happens where it has none of that name.

        Raises
        ------
        StateError
            The name is no name of a revision.
        StoreError
            The database does not take it.
        """
        self._table.delete(instance, _checked(revision))

    def clear(self, instance: str) -> list[str]:
        """Delete all revisions of `instance`, and return their names, oldest first.

        Raises
        ------
        StoreError
            The database does not delete one.
        """
        gone = self.revisions(instance)
        for name in gone:
            self._table.delete(instance, name)
        return gone

    @contextmanager
    def _temporary(self, revision: str) -> Iterator[Path]:
        """Yield where the files of a revision may lie for a while: next to the state, where they are linked."""
        below = self._location / ".revisions"
        with _files_told(f"the files of revision {revision} cannot lie in {below}"):
            if isinstance(below, Path):
                below.mkdir(parents=True, exist_ok=True)
            # What comes from a bucket is copied, wherever it goes.
            with tempfile.TemporaryDirectory(prefix=".", dir=below if isinstance(below, Path) else None) as directory:
                yield Path(directory) / str(millis_of(revision))


@contextmanager
def _files_told(what: str) -> Iterator[None]:
    """Raise what a file system or a bucket does not do as StateError; other errors come out as they are."""
    try:
        yield
    except SpdistError:  # those of databases and brokers are OSErrors, too
        raise
    except OSError as error:
        raise StateError(f"{what}: {error}") from error


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield path.relative_to(directory).as_posix(), path.read_bytes()


def _checked(revision: str) -> str:
    if not is_revision(revision):
        raise StateError(f"{revision!r} is no name of a revision", hint="revisions are called <millis>__<app>")
    return revision


def _sorted(names: list[str]) -> list[str]:
    return sorted((name for name in names if is_revision(name)), key=lambda name: (millis_of(name), name))


def _missing(instance: str, revision: str, known: list[str]) -> NotFoundError:
    return NotFoundError(f"{instance} has no revision {revision}", hint=f"its revisions: {', '.join(known) or 'none'}")
