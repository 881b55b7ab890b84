"""``@sink(type='file')``: payloads in files, each once, whatever fails in between.

What has been appended is noted next to the file, see `spdist.connectors.file.appends`: who goes on after a crash, or in
place of a process that stands still, knows what is there. Nothing else in the file is ever touched, so that others may
append to it, too.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from spdist.config.allowed import Allowed, NotAllowed
from spdist.connectors.file.appends import FileAppends
from spdist.connectors.sending import SendError, SinkContext
from spdist.mapping.templates import Filled
from spdist.transports.delivery import Delivery
from spdist.transports.event_log import encoded
from spdist.transports.options import Options, local_path
from spdist.transports.whole_files import write_whole

__all__ = ["FileSink", "open_sink"]

#: What a name can have against it for good.
_LASTING = frozenset((errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ))


class FileSink:
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
    None in memory: all is next to the files.
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
        # Each name is resolved once, as many events share it, and resolving follows links.
        places: dict[str, Path | NotAllowed] = {}
        own: dict[Path | NotAllowed, list[Delivery]] = {}
        first: dict[Path | NotAllowed, int] = {}
        for number, delivery in enumerate(deliveries):
            uri = delivery.options["file.uri"]
            if uri not in places:
                places[uri] = self._place(uri)
            # By path and not by name: two names of one file share its order.
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
                # What was written is noted next to its file: trying again writes nothing twice.
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
            # Each payload replaces the file, so the ones before the last would be seen by nobody.
            write_whole(path, self._line(own[-1].payload))
            return
        # Numbers count for each producer; runs and not groups, so that lines stay in the order in which they came.
        for producer, part in groupby(own, key=lambda one: one.producer):
            FileAppends(path).append(producer, [(one.seq, self._line(one.payload)) for one in part])

    def close(self) -> None:
        """Do nothing: no file is kept open."""

    def _line(self, payload: Any) -> bytes:
        line = encoded(payload)
        ended = line.endswith(b"\n") and not self._always
        return line + b"\n" if self._separator and not ended else line


def open_sink(options: Mapping[str, str], context: SinkContext) -> FileSink:
    """Return the sink of a destination."""
    return FileSink(options, context.allowed)
