"""``@sink(type='file')``: payloads in files, each once, whatever fails in between.

Beside a file ``name`` stands ``.name.spdist``: for each producer the number of the delivery that is next, and while
something is being appended, what and where. Who finds such an entry after a crash cuts off what was appended in part,
or takes note of what was appended whole. Nothing else in the file is ever touched, so that others may write to it, too.
All who append hold a lock on the file meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from spdist.config.allowed import Allowed, NotAllowed
from spdist.mapping.templates import Filled
from spdist.transports.delivery import Delivery
from spdist.transports.event_log import encoded
from spdist.transports.options import Options, local_path
from spdist.transports.outlets import SendError
from spdist.transports.whole_files import write_whole

__all__ = ["FileOutlet"]

_FORMAT = 1
#: Numbers of what is about to be appended.
_INTENT = ("next", "offset", "size", "crc")
#: What a name can have against it for good.
_LASTING = frozenset((errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ))


class FileOutlet:
    """Appends to the files that ``file.uri`` names, or with ``append='false'`` replaces them by the newest payload.

    Parameters
    ----------
    options : mapping of str to str
        ``append`` (true); ``add.line.separator``: by default one is added where the payload does not end with one.
    allowed : Allowed
        The directories that the app may use. What events say in ``file.uri`` stays below the directory written there.

    Raises
    ------
    AppValidationError
        An option is missing or wrong.

    State
    -----
    None in memory: all is beside the files.
    """

    def __init__(self, options: Mapping[str, str], allowed: Allowed | None = None) -> None:
        self._allowed = allowed or Allowed()
        uri = options.get("file.uri")
        if isinstance(uri, Filled):  # what the first event says is no fault of the app
            options = {**options, "file.uri": uri.sample}
        read = Options(options, "the @sink of type 'file'", allowed=self._allowed)
        read.needed("file.uri", "out.txt")
        read.path("file.uri")
        self._append = read.flag("append", True)
        self._separator = read.flag("add.line.separator", True)
        self._always = "add.line.separator" in options

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Write the payloads; they are on the disk when this returns."""
        places: dict[str, Path | NotAllowed] = {}
        own: dict[Path | NotAllowed, list[Delivery]] = {}
        first: dict[Path | NotAllowed, int] = {}
        for number, delivery in enumerate(deliveries):
            uri = delivery.options["file.uri"]
            if uri not in places:
                places[uri] = self._place(uri)
            own.setdefault(places[uri], []).append(delivery)
            first.setdefault(places[uri], number)
        # All before the first delivery of a file are written: the files follow one another as they begin.
        for place, some in own.items():
            uri = some[0].options["file.uri"]
            if isinstance(place, NotAllowed):
                raise SendError(f"'file.uri' {place}: '{uri}'", first[place], lasting=True)
            try:
                self._write_all(place, some)
            except OSError as error:
                # What was written is noted beside its file: trying again writes nothing twice.
                lasting = error.errno in _LASTING
                raise SendError(f"cannot write {uri}: {error.strerror or error}", first[place], lasting) from error

    def _place(self, uri: str) -> Path | NotAllowed:
        try:
            return local_path(uri, self._allowed)
        except NotAllowed as error:
            return error

    def _write_all(self, path: Path, own: list[Delivery]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not self._append:
            write_whole(path, self._line(own[-1].payload))
            return
        for producer, part in groupby(own, key=lambda one: one.producer):
            self._write(path, producer, list(part))

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
            self._next, self._intent = self._stored()

    def _stored(self) -> tuple[dict[str, int], dict[str, Any] | None]:
        try:
            stored = json.loads(self._path.read_bytes())
            if stored["format"] != _FORMAT:
                raise ValueError(f"it has format {stored['format']}, this version of spdist reads format {_FORMAT}")
            intent = stored["intent"]
            known = {str(producer): int(number) for producer, number in stored["next"].items()}
            return known, intent and {"producer": str(intent["producer"]), **{n: int(intent[n]) for n in _INTENT}}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SendError(
                f"{self._path} is damaged, which says what was appended to the file beside it ({error}); bring it back "
                "from a copy, or delete it: then what was appended last may come a second time"
            ) from error

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
        write_whole(self._path, json.dumps(stored).encode())


def _to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
