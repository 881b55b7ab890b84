"""``@sink(type='file')``: payloads in files, each once, whatever fails in between.

Beside a file ``name`` stands ``.name.spdist``: for each producer the number of the delivery that is next, and while
something is being appended, what and where. Who finds such an entry after a crash cuts off what was appended in part,
or takes note of what was appended whole. Nothing else in the file is ever touched, so that others may write to it, too.
All who append hold a lock on the file meanwhile.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from spdist.transports.delivery import Delivery
from spdist.transports.event_log import encoded
from spdist.transports.options import Options, local_path
from spdist.transports.outlets import SendError

__all__ = ["FileOutlet"]

_FORMAT = 1


class FileOutlet:
    """Appends to the files that ``file.uri`` names, or with ``append='false'`` replaces them by the newest payload.

    Parameters
    ----------
    options : mapping of str to str
        ``append`` (true); ``add.line.separator``: by default one is added where the payload does not end with one.

    State
    -----
    None in memory: all is beside the files.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        read = Options(options, "the @sink of type 'file'")
        read.needed("file.uri", "/data/out.txt")
        self._append = read.flag("append", True)
        self._separator = read.flag("add.line.separator", True)
        self._always = "add.line.separator" in options

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Write the payloads; they are on the disk when this returns."""
        paths: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            paths.setdefault(delivery.options["file.uri"], []).append(delivery)
        for uri, own in paths.items():
            path = local_path(uri)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if self._append:
                    for producer, part in groupby(own, key=lambda one: one.producer):
                        self._write(path, producer, list(part))
                else:
                    replace_file(path, self._line(own[-1].payload))
            except OSError as error:
                # What was written is noted beside its file: trying again from the first writes nothing twice.
                raise SendError(f"cannot write {path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Do nothing: no file is kept open."""

    def _write(self, path: Path, producer: str, deliveries: list[Delivery]) -> None:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            ledger = _Ledger(path)
            ledger.recover(file)
            new = [one for one in deliveries if one.seq >= ledger.next(producer)]
            if not new:
                return
            data = b"".join(self._line(one.payload) for one in new)
            ledger.intend(producer, new[-1].seq + 1, file.seek(0, os.SEEK_END), data)
            file.write(data)
            _to_disk(file)
            ledger.done()

    def _line(self, payload: Any) -> bytes:
        line = encoded(payload)
        ended = line.endswith(b"\n") and not self._always
        return line + b"\n" if self._separator and not ended else line


class _Ledger:
    """What has been appended to a file, and what is about to be."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f".{path.name}.spdist")
        self._next: dict[str, int] = {}
        self._intent: dict[str, Any] | None = None
        if self._path.exists():
            stored = json.loads(self._path.read_bytes())
            self._next, self._intent = stored["next"], stored["intent"]

    def next(self, producer: str) -> int:
        """Return the number of the delivery that is to be appended next."""
        return self._next.get(producer, 0)

    def recover(self, file: IO[bytes]) -> None:
        """Finish, or undo, what a writer that is gone had begun."""
        intent = self._intent
        if intent is None:
            return
        start, size = intent["offset"], intent["size"]
        length = file.seek(0, os.SEEK_END)
        with open(file.name, "rb") as reader:
            reader.seek(start)
            whole = zlib.crc32(reader.read(size)) == intent["crc"] and length >= start + size
        if whole:
            self.done()
            return
        if start < length <= start + size:
            file.truncate(start)
            _to_disk(file)
        self._intent = None
        self._save()

    def intend(self, producer: str, next: int, offset: int, data: bytes) -> None:
        """Note what is about to be appended."""
        crc = zlib.crc32(data)
        self._intent = {"producer": producer, "next": next, "offset": offset, "size": len(data), "crc": crc}
        self._save()

    def done(self) -> None:
        """Note that it was appended."""
        if self._intent is not None:
            self._next[self._intent["producer"]] = self._intent["next"]
            self._intent = None
            self._save()

    def _save(self) -> None:
        stored = {"format": _FORMAT, "next": self._next, "intent": self._intent}
        replace_file(self._path, json.dumps(stored).encode())


def replace_file(path: Path, data: bytes) -> None:
    """Give a file new contents, all at once and on the disk."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        _to_disk(file)
    new.replace(path)


def _to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
