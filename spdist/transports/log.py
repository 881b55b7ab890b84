"""The embedded log: topics without a server, one SQLite file each, for all processes of one machine.

A topic is a file in write-ahead mode, so readers never wait for a writer; appends of several processes queue up on
SQLite's own lock. An append is one transaction, on the disk before `append` returns: after a crash, also of the
machine, its records are there together or not at all. SQLite's write-ahead mode needs shared memory: the directory must
be on a local disk, not on a network file system.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spdist.errors import TransportError
from spdist.transports.base import Record
from spdist.transports.topics import check_name, check_offset, check_partition, check_partitions, replaced

__all__ = ["LogTransport"]

#: A row's id is ``partition << 40 | offset``: rows of a partition lie together and in order, without a second index.
_OFFSET_BITS = 40
_MAX_NAME_BYTES = 200
_FORMAT = 1
#: How long an append waits for other writers before it gives up.
_LOCK_TIMEOUT_S = 30.0

#: Device and number of a file; None of one that is not there.
_File = tuple[int, int] | None
#: Connections that a forked process inherited.
_INHERITED: list[dict[str, tuple[sqlite3.Connection, _File]]] = []

_SCHEMA = """
CREATE TABLE IF NOT EXISTS topic (format INTEGER NOT NULL, partitions INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS identity (value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY, count INTEGER NOT NULL, producer TEXT NOT NULL, seq INTEGER NOT NULL,
    clock INTEGER NOT NULL, value BLOB NOT NULL
);
"""
_INSERT = "INSERT INTO records (id, count, producer, seq, clock, value) VALUES (?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT id, count, producer, seq, clock, value FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
# length() of a blob is known from the row's header, so sizing does not read the payloads.
_SIZES = "SELECT count, length(value) FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
_LAST = "SELECT max(id) FROM records WHERE id >= ? AND id < ?"


class LogTransport:
    """The topics in one directory; implements `spdist.transports.base.Transport`.

    Parameters
    ----------
    directory : path
        Where the files are; made when the first topic is.

    Notes
    -----
    Thread-safe. A copy that a forked process inherits opens files of its own. Records are never deleted.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self._lock = threading.RLock()
        self._open: dict[str, tuple[sqlite3.Connection, _File]] = {}
        self._pid = os.getpid()

    def __reduce__(self) -> tuple[type[LogTransport], tuple[Path]]:
        """Spark sends readers to its Python processes: a copy opens files of its own."""
        return LogTransport, (self.directory,)

    def ensure(self, topic: str, partitions: int, subjects: Sequence[str] = ()) -> int:
        """Create `topic`, or grow it to `partitions`; return its number of partitions."""
        check_partitions(topic, partitions)
        self._path(topic)
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._transaction(topic, create=True) as files:
            known = _partitions(files)
            # A topic of an older version gets a name here, too.
            if _identity(files) is None:
                files.execute("INSERT INTO identity (value) VALUES (?)", (uuid.uuid4().hex,))
            if known == 0:
                files.execute("INSERT INTO topic (format, partitions) VALUES (?, ?)", (_FORMAT, partitions))
            elif known < partitions:
                files.execute("UPDATE topic SET partitions = ?", (partitions,))
            return max(known, partitions)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of `topic`, 0 where it does not exist."""
        with self._reading(topic) as files:
            return 0 if files is None else _partitions(files)

    def append(self, records: Sequence[Record]) -> None:
        """Append `records` durably, those of each topic in one transaction, in their order.

        Raises
        ------
        TransportError
            A topic or partition is not there (then nothing was appended), or a topic's file cannot be written (then
            the topics before it were).
        """
        by_topic: dict[str, list[Record]] = {}
        for record in records:
            by_topic.setdefault(record.topic, []).append(record)
        # All topics before the first append: a record for a topic that is not there leaves nothing behind.
        for topic, group in by_topic.items():
            self._check(topic, {record.partition for record in group})
        for topic, group in by_topic.items():
            with self._transaction(topic) as files:
                ends: dict[int, int] = {}
                for r in group:
                    # Within the transaction, which holds the write lock: nobody else can take the same offset.
                    offset = ends[r.partition] if r.partition in ends else _end(files, r.partition)
                    ends[r.partition] = offset + 1
                    row_id = r.partition << _OFFSET_BITS | offset
                    files.execute(_INSERT, (row_id, r.count, r.producer, r.seq, r.clock, r.value))

    def read(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[Record]:
        """Return up to `limit` records of a partition from `offset` on."""
        self._check(topic, {partition})
        with self._reading(topic) as files:
            rows = files.execute(_SELECT, (*_span(partition, offset), limit)).fetchall()
            # Only then: where rows are found the offset is not behind the end, and most reads are spared a query.
            if not rows:
                check_offset(topic, partition, offset, _end(files, partition))
        mask = (1 << _OFFSET_BITS) - 1
        return [
            Record(topic, partition, value, count, producer, seq, clock, row_id & mask)
            for row_id, count, producer, seq, clock, value in rows
        ]

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return for each partition the offset that the next record will get."""
        self._check(topic, {0})
        with self._reading(topic) as files:
            return {partition: _end(files, partition) for partition in range(_partitions(files))}

    def sizes(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[tuple[int, int]]:
        """Return ``(events, bytes)`` of up to `limit` records from `offset` on, without reading their payloads."""
        self._check(topic, {partition})
        with self._reading(topic) as files:
            found: list[tuple[int, int]] = files.execute(_SIZES, (*_span(partition, offset), limit)).fetchall()
            if not found:
                check_offset(topic, partition, offset, _end(files, partition))
        return found

    def identity(self, topic: str) -> str:
        """Return a name of the topic that no other one has; one that an older version has made gets it here."""
        self._check(topic, {0})
        with self._reading(topic) as files:
            known = _identity(files)
        if known is None:
            with self._transaction(topic) as files:
                files.execute(
                    "INSERT INTO identity SELECT ? WHERE NOT EXISTS (SELECT 1 FROM identity)", (uuid.uuid4().hex,)
                )
                known = _identity(files)
        return str(known)

    def close(self) -> None:
        """Close all files; the next call opens them again."""
        with self._lock:
            for files, _ in self._open.values():
                files.close()
            self._open.clear()

    def _path(self, topic: str) -> Path:
        check_name(topic)
        name = quote(topic, safe="")
        if len(name) > _MAX_NAME_BYTES:
            raise TransportError(f"{topic!r} cannot be the name of a topic", hint="use 1 to 200 letters")
        return self.directory / f"{name}.sqlite"

    def _check(self, topic: str, partitions: set[int]) -> None:
        known = self.partitions(topic)
        for partition in partitions:
            check_partition(topic, partition, known, str(self.directory))

    @contextmanager
    def _reading(self, topic: str) -> Iterator[Any]:
        """Hand out the topic's connection, None where the topic does not exist."""
        with self._lock:
            try:
                yield self._connection(topic)
            except sqlite3.Error as error:
                raise TransportError(f"topic {topic!r} in {self.directory} cannot be read: {error}") from error

    @contextmanager
    def _transaction(self, topic: str, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                files = self._connection(topic, create=create)
                assert files is not None  # append has checked that it exists
                # The write lock from the start: a read that becomes a write fails where somebody else wrote in between.
                files.execute("BEGIN IMMEDIATE")
                try:
                    yield files
                    files.execute("COMMIT")
                except BaseException:
                    # SQLite undoes some failures by itself, as a full disk: to undo them again would be the error told.
                    if files.in_transaction:
                        files.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise TransportError(f"topic {topic!r} in {self.directory} cannot be written: {error}") from error

    def _connection(self, topic: str, *, create: bool = False) -> sqlite3.Connection | None:
        if self._pid != os.getpid():
            # SQLite forbids using a connection across a fork, closing it too: the parent's are kept and never touched.
            _INHERITED.append(self._open)
            self._open, self._pid = {}, os.getpid()
        path = self._path(topic)
        if topic in self._open:
            files, file = self._open[topic]
            # SQLite does not notice that its file was deleted or replaced: it would go on with the old one.
            if _file(path) == file:
                return files
            # The file that is open is no topic any more: nobody else will see what is appended to it.
            files.close()
            del self._open[topic]
            raise replaced(topic)
        if not create and not path.exists():
            return None
        files = _connect(path)
        self._open[topic] = files, _file(path)
        return files


def _connect(path: Path) -> sqlite3.Connection:
    # No transactions of the driver's own (isolation_level), and threads take turns by the lock here.
    files = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    # Changing the mode of a new file does not wait for a lock that another process holds while it does the same.
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    pause = threading.Event()
    while True:
        try:
            files.execute("PRAGMA journal_mode = WAL")
            files.execute("PRAGMA synchronous = FULL")
            files.executescript(_SCHEMA)
            return files
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                files.close()
                raise
            pause.wait(0.005)


def _file(path: Path) -> _File:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _identity(files: sqlite3.Connection) -> str | None:
    row = files.execute("SELECT value FROM identity").fetchone()
    return None if row is None else str(row[0])


def _partitions(files: sqlite3.Connection) -> int:
    row = files.execute("SELECT format, partitions FROM topic").fetchone()
    if row is None:
        return 0
    if row[0] != _FORMAT:
        raise TransportError(f"a topic was written in format {row[0]}, this version of spdist reads format {_FORMAT}")
    return int(row[1])


def _span(partition: int, offset: int = 0) -> tuple[int, int]:
    return partition << _OFFSET_BITS | max(0, offset), (partition + 1) << _OFFSET_BITS


def _end(files: sqlite3.Connection, partition: int) -> int:
    last = files.execute(_LAST, _span(partition)).fetchone()[0]
    return 0 if last is None else (last & ((1 << _OFFSET_BITS) - 1)) + 1
